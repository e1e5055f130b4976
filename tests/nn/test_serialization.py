"""Trainings as arrays: interrupted, restored, copied, pickled, and saved by skops, bit for bit."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

torch = pytest.importorskip("torch")

from optfair.nn import TorchClassifier  # noqa: E402
from tests.nn.helpers import CELL, IMAGES, TABLE, X, Y, quick, same_parameters, tiny_factory  # noqa: E402

MODELS = {
    "adamw": (quick(), X),
    "sgd": (quick(optimizer="sgd"), X),
    "dropout": (quick("mlp", hidden=(7, 5), dropout=0.5), X),
    "float64": (quick("mlp", hidden=(7,), dtype="float64"), X),
    "factory": (quick(tiny_factory), X),
    "lbfgs": (quick(batch_size=None, dtype="float64"), X),
    "resnet": (quick("resnet", batch_size=5), IMAGES),
}


@pytest.mark.parametrize("name", MODELS)
def test_interrupted_and_restored_is_uninterrupted(name):
    """Through nothing but arrays, into a fresh clone; by pickle; and by deepcopy: bit for bit."""
    model, rows = MODELS[name]
    cell, options = CELL[: len(rows)], {"n_epochs": 2}
    whole = clone(model).fit_targets(rows, cell, TABLE, **options)
    state = whole.training_state()
    assert all(isinstance(value, np.ndarray) and value.dtype.kind != "O" for value in state.values())
    through_bytes = pickle.loads(pickle.dumps(state))
    for value in through_bytes.values():
        value.flags.writeable = False
    copies = [
        clone(model).restore_training(through_bytes),
        clone(model).fit_targets(rows, (cell + 1) % 5, TABLE).restore_training(state),
        pickle.loads(pickle.dumps(whole)),
        copy.deepcopy(whole),
    ]
    expected = whole.predict_proba(rows)
    for other in copies:
        np.testing.assert_array_equal(other.predict_proba(rows), expected)
    for other in [whole, *copies]:
        other.fit_targets(rows, cell, TABLE, **options)
    assert all(same_parameters(whole, other) for other in copies)
    assert not np.array_equal(whole.predict_proba(rows), expected) or name == "lbfgs"


def test_names_are_restored():
    frame, names = pd.DataFrame(X, columns=list("pqrs")), np.array(list("abc"))[Y]
    state = quick().fit(frame, names).training_state()
    other = quick().restore_training(state)
    assert other.classes_.tolist() == list("abc") and other.feature_names_in_.tolist() == list("pqrs")
    with pytest.raises(ValueError, match="feature names"):
        other.predict(frame.rename(columns={"p": "z"}))
    objects = quick().fit(X, names.astype(object)).training_state()
    assert quick().restore_training(objects).classes_.tolist() == [0, 1, 2]
    assert quick().restore_training(objects, classes=list("abc")).classes_.tolist() == list("abc")


def test_with_parameters_is_a_copy_that_shares_nothing():
    model = quick("mlp", hidden=(7,)).fit(X, Y)
    first, p = model.parameters_state(), model.predict_proba(X)
    old = model.with_parameters(first)
    model.fit_targets(X, CELL, TABLE)
    np.testing.assert_array_equal(old.predict_proba(X), p)
    first["0.weight"][:] = 0
    np.testing.assert_array_equal(old.predict_proba(X), p)
    assert not np.array_equal(model.predict_proba(X), p)
    unpickled = pickle.loads(pickle.dumps(old))
    np.testing.assert_array_equal(unpickled.predict_proba(X), p)
    before = model.parameters_state()
    old.fit_targets(X, CELL, TABLE)
    assert not np.array_equal(old.predict_proba(X), p)
    assert all(np.array_equal(before[name], value) for name, value in model.parameters_state().items())


def test_nothing_of_torch_is_in_the_state():
    state = quick().fit(X, Y).__getstate__()
    assert not any(isinstance(value, (torch.Tensor, torch.nn.Module)) for value in state.values())
    assert {type(value) for value in state["_saved"].values()} == {np.ndarray}
    assert "_saved" not in quick().__getstate__()


def test_a_model_of_another_machine_is_loaded_on_this_one():
    state = quick().fit(X, Y).__getstate__() | {"device": "cuda:99"}
    other = TorchClassifier.__new__(TorchClassifier)
    other.__setstate__(state)
    np.testing.assert_array_equal(other.predict(X), quick().fit(X, Y).predict(X))


@pytest.mark.parametrize("module", ["linear", "mlp", tiny_factory], ids=["linear", "mlp", "factory"])
def test_skops(module):
    skops = pytest.importorskip("skops.io")
    model = quick(module).fit(X, np.array(list("abc"))[Y])
    saved = skops.dumps(model)
    trusted = ["optfair.nn.classifier.TorchClassifier"] + (
        ["tests.nn.helpers.tiny_factory"] if callable(module) else []
    )
    assert sorted(skops.get_untrusted_types(data=saved)) == sorted(trusted)
    other = skops.loads(saved, trusted=trusted)
    np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    assert same_parameters(other, model)


def test_states_are_checked():
    model = quick().fit(X, Y)
    good, training = model.parameters_state(), model.training_state()
    with pytest.raises(ValueError, match="state: lacks 'bias'; must have the names"):
        model.with_parameters({"weight": good["weight"]})
    with pytest.raises(ValueError, match="state: has an unknown 'more'"):
        model.with_parameters(good | {"more": np.zeros(1)})
    with pytest.raises(ValueError, match=r"state: 'bias' has shape \(9,\); must be \(3,\)"):
        model.with_parameters(good | {"bias": np.zeros(9)})
    with pytest.raises(ValueError, match=r"state: lacks 'input_shape'; give what training_state\(\) returned"):
        quick().restore_training(good)
    with pytest.raises(ValueError, match="dtype='float64': the state is of float32; must be the same"):
        quick(dtype="float64").restore_training(training)
    with pytest.raises(ValueError, match=r"classes=\['a'\]: the state has 3 classes"):
        quick().restore_training(training, classes=["a"])
    for method in ("parameters_state", "training_state"):
        with pytest.raises(NotFittedError):
            getattr(quick(), method)()
