"""Epochs of minibatches: batches, known optima, objectives, continued trainings, seeds."""

import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from optfair.nn.batches import ArrayRows, shuffle_batches  # noqa: E402
from optfair.nn.loss import mean_loss  # noqa: E402
from optfair.nn.training import TrainingObjective  # noqa: E402
from tests.nn.helpers import CPU, classification, exact, quick, same_parameters  # noqa: E402


def test_batches_of_an_epoch_hold_every_row_once_and_none_is_a_single_row():
    batches = shuffle_batches(torch.arange(33), 8, torch.Generator().manual_seed(0))
    assert sorted(torch.cat(batches).tolist()) == list(range(33))
    assert [len(batch) for batch in batches] == [8, 8, 8, 9]


def test_small_batches_come_close_to_the_optimum():
    X, y = classification(400)
    best = exact(weight_decay=0.0).fit(X, y)
    rows, targets = ArrayRows(X, CPU), torch.from_numpy(np.eye(3)[y])
    least = mean_loss(best.module_, rows, targets)
    for optimizer in ("adamw", "sgd"):
        model = quick(epochs=40, optimizer=optimizer, dtype="float64", weight_decay=0.0, lr=0.02).fit(X, y)
        assert least <= mean_loss(model.module_, rows, targets) < least + 0.002
        assert model.n_iter_ == 40 and not hasattr(model, "converged_")


def test_all_rows_in_one_step_is_a_batch_of_all_rows(monkeypatch):
    X, y = classification()
    batch = quick(batch_size=len(y), optimizer="adamw", dtype="float64").fit(X, y)
    monkeypatch.setattr("optfair.nn.batches.BLOCK_ROWS", 33)  # from the sum over seven blocks
    blocks = quick(batch_size=None, optimizer="adamw", dtype="float64").fit(X, y)
    np.testing.assert_allclose(batch.predict_proba(X), blocks.predict_proba(X), atol=1e-12)


def test_a_training_that_diverges_says_so():
    X, y = classification()
    with pytest.raises(ValueError, match=r"lr=1e\+38: the parameters have grown beyond all numbers; lower lr"):
        quick(optimizer="sgd", lr=1e38, epochs=20).fit(X, y)


# -- objectives ---------------------------------------------------------------------------------------------
def test_weights_of_any_size_train_a_network():
    X, y = classification()
    plain, huge = (quick().fit(X, y, sample_weight=np.full(len(y), weight)) for weight in (1.0, 1e306))
    np.testing.assert_array_equal(huge.predict_proba(X), plain.predict_proba(X))


def test_the_plain_objective_is_fit():
    X, y = classification()
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    indices = []

    def make_objective(network, targets, index):
        indices.append(index.numpy())
        return TrainingObjective(targets, index)

    model = quick().fit_objective(X, y, make_objective, weight)
    assert same_parameters(model, quick().fit(X, y, weight))
    np.testing.assert_array_equal(indices, [np.flatnonzero(weight)])  # called once, with the rows that count


# -- continuing ---------------------------------------------------------------------------------------------
def test_partial_fit_is_an_epoch_of_fit_without_decay():
    X, y = classification()
    whole = quick(decay=1.0).fit(X, y)
    parts = quick(decay=1.0)
    for _ in range(3):
        parts.partial_fit(X, y, classes=[0, 1, 2])
    assert same_parameters(whole, parts)
    warm = quick(decay=1.0, epochs=1, warm_start=True)
    for _ in range(3):
        warm.fit(X, y)
    assert same_parameters(whole, warm)
    assert not same_parameters(whole.fit_targets(X, y, np.eye(3)), parts)  # it continues
    assert same_parameters(whole.fit_targets(X, y, np.eye(3), reset=True), parts)  # it starts afresh


def test_partial_fit_may_see_a_part_of_the_classes():
    X, y = classification()
    model = quick().partial_fit(X[y < 2], y[y < 2], classes=[0, 1, 2]).partial_fit(X[y == 2], y[y == 2])
    assert model.classes_.tolist() == [0, 1, 2] and model.predict_proba(X).shape == (200, 3)


def test_fit_targets_names_the_classes_unless_they_have_names():
    X, y = classification()
    model = quick().fit_targets(X, y, np.eye(3))
    assert model.classes_.tolist() == [0, 1, 2]
    named = quick().fit(X, np.array(list("abc"))[y]).fit_targets(X, y, np.eye(3), reset=True)
    assert named.classes_.tolist() == list("abc")


def test_prepared_rows_are_rows():
    X, y = classification()
    prepared, plain = (quick().fit_targets(X, y, np.eye(3)) for _ in range(2))
    rows = prepared.prepare(X)
    assert same_parameters(prepared.fit_targets(rows, y, np.eye(3)), plain.fit_targets(X, y, np.eye(3)))
    np.testing.assert_array_equal(prepared.predict_proba(rows), plain.predict_proba(X))
    assert same_parameters(quick().fit(rows, y), quick().fit(X, y))
    with pytest.raises(ValueError, match=r"X: prepared as torch\.float32 on cpu, this is torch\.float64 on cpu; prep"):
        quick(dtype="float64").fit(rows, y)


# -- seeds --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("module", ["linear", "mlp"])
def test_the_seed_decides_and_global_states_are_left_alone(module):
    X, y = classification()
    torch.manual_seed(1)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = quick(module).fit(X, y)
    torch.rand(3)
    second = quick(module).fit(X, y)
    assert same_parameters(first, second)
    assert not same_parameters(first, quick(module, random_state=1).fit(X, y))
    assert not same_parameters(*(quick(module, random_state=None).fit(X, y) for _ in range(2)))
    torch.manual_seed(1)
    quick(module, random_state=None).fit(X, y).predict(X)
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002


def test_a_module_that_a_factory_uses_is_left_as_it_was():
    X, y = classification()
    backbone = torch.nn.Linear(6, 4)
    before = backbone.weight.detach().clone()

    def head(shape, n_outputs):
        return torch.nn.Sequential(backbone, torch.nn.ReLU(), torch.nn.Linear(4, n_outputs))

    one, two = (quick(head).fit(X, y) for _ in range(2))
    assert torch.equal(backbone.weight, before) and same_parameters(one, two)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    assert not np.array_equal(one.parameters_state()["0.weight"], before)  # in its own copy it is trained


def test_generators_give_seeds():
    X, y = classification()
    for make in (np.random.RandomState, np.random.default_rng):
        assert same_parameters(quick(random_state=make(3)).fit(X, y), quick(random_state=make(3)).fit(X, y))


def test_threads_do_not_disturb_each_other():
    """Dropout draws from torch's global generator."""
    X, y = classification()
    alone = [quick("mlp", random_state=k).fit(X, y) for k in range(3)]
    together = [quick("mlp", random_state=k) for k in range(3)]
    threads = [threading.Thread(target=model.fit, args=(X, y)) for model in together]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same_parameters(first, second) for first, second in zip(alone, together, strict=True))
