"""`TorchClassifier` in scikit-learn's hands, in files, and interrupted: its own checks, copies, and every message."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

torch = pytest.importorskip("torch")

from optfair.nn import TorchClassifier  # noqa: E402

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((90, 4)), RNG.integers(0, 3, 90)
IMAGES = RNG.standard_normal((12, 3, 16, 16)).astype(np.float32)
CELL, TABLE = RNG.integers(0, 5, 90), RNG.random((5, 3))


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The models are tiny: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(before)


def quick(module="linear", **options):
    return TorchClassifier(module, **{"epochs": 2, "batch_size": 32, "random_state": 0} | options)


def tiny(input_shape, n_outputs):
    """A factory: batch normalisation, dropout and a frozen layer."""
    frozen = torch.nn.Linear(input_shape[0], 5).requires_grad_(False)
    return torch.nn.Sequential(frozen, torch.nn.BatchNorm1d(5), torch.nn.Dropout(0.5), torch.nn.Linear(5, n_outputs))


def same(one, other):
    a, b = one.parameters_state(), other.parameters_state()
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


# -- scikit-learn ---------------------------------------------------------------------------------------------
EQUIVALENCE = {
    "check_sample_weight_equivalence_on_dense_data": "equal to 1e-7 at the optimum in float64 only; batches are random"
}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (TorchClassifier(batch_size=None, dtype="float64"), {}),
        (TorchClassifier(batch_size=None), EQUIVALENCE),
        (TorchClassifier(batch_size=32, epochs=40, lr=0.02), EQUIVALENCE),
        (TorchClassifier("mlp", hidden=(20,), batch_size=32, lr=0.02), EQUIVALENCE),
    ],
    ids=["exact", "float32", "adamw", "mlp"],
)
def test_scikit_learns_checks(model, expected):
    results = check_estimator(model, expected_failed_checks=expected, on_fail=None, on_skip=None)
    failures = [(r["check_name"], str(r["exception"])[:300]) for r in results if r["status"] == "failed"]
    assert failures == []
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(expected)
    assert sum(r["status"] == "passed" for r in results) > 40


def test_pipelines_and_searches():
    names = np.array(["a", "b", "c"])[Y]
    frame = pd.DataFrame(X, columns=list("pqrs"))
    search = GridSearchCV(make_pipeline(StandardScaler(), quick()), {"torchclassifier__lr": [0.1, 0.01]}, cv=2)
    assert set(search.fit(frame, names).predict(frame)) <= set("abc")
    model = quick().fit(frame, pd.Series(names))
    assert model.feature_names_in_.tolist() == list("pqrs")
    assert model.predict_proba(frame).sum(axis=1) == pytest.approx(1)
    assert repr(TorchClassifier()) == "TorchClassifier()"


def test_answers_agree():
    for m in (2, 3):
        model = quick().fit(X, Y % m)
        p, f = model.predict_proba(X), model.decision_function(X)
        np.testing.assert_array_equal(model.predict(X), p.argmax(axis=1))
        if m == 2:
            np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-f)))
        else:
            np.testing.assert_allclose(p, np.exp(f) / np.exp(f).sum(axis=1, keepdims=True))


def test_classes_keep_their_type():
    for labels in (np.array([True, False])[Y % 2], np.array(["x", "yy"])[Y % 2], np.array([3.0, 5.0])[Y % 2]):
        assert quick().fit(X, labels).classes_.dtype == labels.dtype
    objects = np.array(["a", "b"], dtype=object)[Y % 2]
    assert set(quick().fit(X, objects).predict(X)) <= {"a", "b"}
    assert quick().partial_fit(X, np.array(["a", "b"])[Y % 2], classes=["a", "b", "long"]).classes_[2] == "long"


# -- copies and files -----------------------------------------------------------------------------------------
MODELS = {
    "adamw": (quick(), X),
    "sgd": (quick(optimizer="sgd"), X),
    "dropout": (quick("mlp", hidden=(7, 5), dropout=0.5), X),
    "float64": (quick("mlp", hidden=(7,), dtype="float64"), X),
    "factory": (quick(tiny), X),
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
    assert all(same(whole, other) for other in copies)
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
    moved = pickle.loads(pickle.dumps(old))
    np.testing.assert_array_equal(moved.predict_proba(X), p)
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


@pytest.mark.parametrize("module", ["linear", "mlp", tiny], ids=["linear", "mlp", "factory"])
def test_skops(module):
    skops = pytest.importorskip("skops.io")
    model = quick(module).fit(X, np.array(list("abc"))[Y])
    saved = skops.dumps(model)
    trusted = ["optfair.nn.classifier.TorchClassifier"] + ([f"{__name__}.tiny"] if callable(module) else [])
    assert sorted(skops.get_untrusted_types(data=saved)) == sorted(trusted)
    other = skops.loads(saved, trusted=trusted)
    np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    assert same(other, model)


# -- messages -------------------------------------------------------------------------------------------------
SETTINGS = [
    ({"module": "cnn"}, "module='cnn': must be one of 'linear', 'mlp', 'resnet', or a callable"),
    ({"hidden": (20, 0)}, r"hidden=\(20, 0\): must be a list of widths, whole numbers of at least 1\."),
    ({"hidden": 20}, "hidden=20: must be a list"),
    ({"dropout": 1.0}, "dropout=1.0: must be a number, at least 0 and less than 1"),
    ({"epochs": 0}, "epochs=0: must be a whole number of at least 1"),
    ({"epochs": True}, "epochs=True: must be"),
    ({"batch_size": 0}, "batch_size=0: must be a whole number of at least 1, or None for all rows at once"),
    ({"optimizer": "adam"}, "optimizer='adam': must be one of 'auto', 'adamw', 'sgd', 'lbfgs'"),
    ({"optimizer": "lbfgs"}, "batch_size=32: optimizer='lbfgs' needs all rows at once; set batch_size=None"),
    ({"batch_size": None, "early_stopping": True}, "early_stopping=True: optimizer='lbfgs' has no epochs"),
    ({"lr": 0}, "lr=0: must be a number, more than 0"),
    ({"weight_decay": -1}, "weight_decay=-1: must be a number, at least 0"),
    ({"decay": 1.5}, "decay=1.5: must be a number, more than 0 and at most 1"),
    ({"early_stopping": "yes"}, "early_stopping='yes': must be True or False"),
    ({"warm_start": 1}, "warm_start=1: must be True or False"),
    ({"validation_fraction": 0}, "validation_fraction=0: must be a number, more than 0 and less than 1"),
    (
        {"validation_fraction": 0.001, "early_stopping": True},
        "validation_fraction=0.001: keeps 0 of 90 rows apart; must leave at least one row on either side",
    ),
    ({"patience": 0}, "patience=0: must be a whole number"),
    ({"num_workers": -1}, "num_workers=-1: must be a whole number of at least 0"),
    ({"dtype": "float16"}, "dtype='float16': must be one of 'float32', 'float64'"),
    ({"device": "cuda:99"}, "device='cuda:99': is not available here .*; use 'cpu', or 'auto'"),
    ({"device": "tpuu"}, "device='tpuu': is not available here"),
    ({"random_state": -1}, "random_state=-1: must be None, a whole number of at least 0, or a generator"),
    ({"module": lambda shape, m: None}, "module=<lambda>: gave a NoneType; must give a torch.nn.Module"),
    ({"module": lambda shape, m: torch.nn.ReLU()}, "module=<lambda>: gave a module without parameters to train"),
    (
        {"module": lambda shape, m: torch.nn.Linear(4, 7)},
        r"module=<lambda>: gives \(2, 7\) for 2 rows and 3 classes; must give logits of shape \(2, 3\)",
    ),
    ({"module": "resnet"}, r"module='resnet': needs images .*, the rows of X have shape \(4,\); give X with 4 dim"),
]


@pytest.mark.parametrize(("options", "message"), SETTINGS)
def test_arguments_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(X, Y)


def test_labels_and_rows_are_checked():
    with pytest.raises(ValueError, match="requires y to be passed"):
        quick().fit(X)
    with pytest.raises(TypeError, match=r"X: is a sparse matrix; networks need dense rows: give X.toarray\(\)"):
        quick().fit(sparse.csr_matrix(X), Y)
    with pytest.raises(ValueError, match="contains NaN"):
        quick().fit(np.where(X > 2, np.nan, X), Y)
    with pytest.raises(ValueError, match="y: has one class, 1; at least two classes"):
        quick().fit(X, np.ones(90, dtype=int))
    with pytest.raises(ValueError, match="y: has 3 rows but X has 90"):
        quick().fit(X, Y[:3])
    with pytest.raises(ValueError, match="y: has the row labels of X in another order"):
        quick().fit(pd.DataFrame(X), pd.Series(Y, index=range(89, -1, -1)))
    with pytest.raises(ValueError, match="dim <= 2"):
        quick().fit(IMAGES, Y[:12])
    images = quick("resnet", batch_size=6).fit(IMAGES, Y[:12])
    with pytest.raises(ValueError, match=r"X: its rows have shape \(3, 8, 8\), those of fit had \(3, 16, 16\)"):
        images.predict(IMAGES[:, :, :8, :8])
    with pytest.raises(ValueError, match=r"classes=\[0, 1\]: are not those of the first call, \[0, 1, 2\]"):
        quick().fit(X, Y).partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"y: 5 is not in classes=\[0, 1, 2\]"):
        quick(warm_start=True).fit(X, Y).fit(X, Y + 5)
    for method in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(quick(), method)(X)


def test_targets_are_checked():
    for cell, message in [
        (CELL[:3], r"cell: has shape \(3,\) and type int64; must be \(90,\) integers"),
        (CELL / 2, r"type float64; must be \(90,\) integers"),
        (CELL - 1, r"cell: has values -1..3, table 5 rows; must be among these"),
        (CELL + 1, r"cell: has values 1..5, table 5 rows"),
    ]:
        with pytest.raises(ValueError, match=message):
            quick().fit_targets(X, cell, TABLE)
    for table, message in [
        (TABLE - 1, r"table: has the value -0.*; must be at least 0"),
        (TABLE * np.nan, "table: has the value nan"),
        (TABLE[:, :1], r"table: has shape \(5, 1\); must be \(cells, classes\) with at least two classes"),
        ([["a", "b"]], "table: must be numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            quick().fit_targets(X, CELL, table)
    with pytest.raises(ValueError, match="n_epochs=0: must be a whole number of at least 1"):
        quick().fit_targets(X, CELL, TABLE, n_epochs=0)
    with pytest.raises(ValueError, match="table: has 2 columns, the fitted model 3 classes; must be the same"):
        quick().fit(X, Y).fit_targets(X, CELL, TABLE[:, :2])


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
