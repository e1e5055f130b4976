"""`TorchClassifier` as a scikit-learn classifier: its checks, searches, classes, and every message about its input."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

torch = pytest.importorskip("torch")

from optfair.nn import TorchClassifier  # noqa: E402
from tests.nn.helpers import CELL, IMAGES, TABLE, X, Y, quick  # noqa: E402

# -- scikit-learn ---------------------------------------------------------------------------------------------
EQUIVALENCE = {
    "check_sample_weight_equivalence_on_dense_data": "equal to 1e-7 at the optimum in float64 only; batches are random"
}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (TorchClassifier(batch_size=None, dtype="float64"), {}),
        (TorchClassifier(batch_size=32, epochs=10, lr=0.1), EQUIVALENCE),
        pytest.param(TorchClassifier(batch_size=None), EQUIVALENCE, marks=pytest.mark.slow),
        pytest.param(TorchClassifier("mlp", hidden=(20,), batch_size=32, lr=0.02), EQUIVALENCE, marks=pytest.mark.slow),
    ],
    ids=["exact", "adamw", "float32", "mlp"],
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


def test_predictions_agree():
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


# -- messages -------------------------------------------------------------------------------------------------
SETTINGS = [
    ({"module": "cnn"}, "module='cnn': must be one of 'linear', 'mlp', 'resnet', or a callable"),
    ({"hidden": (20, 0)}, r"hidden=\(20, 0\): must be a list of widths, each an integer >= 1\."),
    ({"hidden": 20}, "hidden=20: must be a list"),
    ({"dropout": 1.0}, "dropout=1.0: must be a number in \\[0, 1\\)"),
    ({"epochs": 0}, "epochs=0: must be an integer >= 1"),
    ({"epochs": True}, "epochs=True: must be"),
    ({"batch_size": 0}, "batch_size=0: must be an integer >= 1, or None for all rows at once"),
    ({"optimizer": "adam"}, "optimizer='adam': must be one of 'auto', 'adamw', 'sgd', 'lbfgs'"),
    ({"optimizer": "lbfgs"}, "batch_size=32: optimizer='lbfgs' needs all rows at once; set batch_size=None"),
    ({"batch_size": None, "early_stopping": True}, "early_stopping=True: optimizer='lbfgs' has no epochs"),
    ({"lr": 0}, "lr=0: must be a positive number"),
    ({"weight_decay": -1}, "weight_decay=-1: must be a number >= 0"),
    ({"decay": 1.5}, "decay=1.5: must be a number in \\(0, 1\\]"),
    ({"early_stopping": "yes"}, "early_stopping='yes': must be True or False"),
    ({"warm_start": 1}, "warm_start=1: must be True or False"),
    ({"validation_fraction": 0}, "validation_fraction=0: must be a number in \\(0, 1\\)"),
    (
        {"validation_fraction": 0.001, "early_stopping": True},
        "validation_fraction=0.001: keeps 0 of 90 rows apart; must leave at least one row on either side",
    ),
    ({"patience": 0}, "patience=0: must be an integer >= 1"),
    ({"num_workers": -1}, "num_workers=-1: must be an integer >= 0"),
    ({"dtype": "float16"}, "dtype='float16': must be one of 'float32', 'float64'"),
    ({"device": "cuda:99"}, "device='cuda:99': is not available here .*; use 'cpu', or 'auto'"),
    ({"device": "tpuu"}, "device='tpuu': is not available here"),
    ({"random_state": -1}, "random_state=-1: must be None, an integer >= 0, or a NumPy generator"),
    ({"module": torch.nn.Linear(4, 3)}, r"module=Linear\(\.\.\.\): is a module; must be a function"),
    ({"module": lambda shape: torch.nn.Linear(4, 3)}, r"must be callable as \(input_shape, n_outputs\)"),
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
    images = quick("resnet", batch_size=6, epochs=1).fit(IMAGES, Y[:12])
    with pytest.raises(ValueError, match=r"X: its rows have shape \(3, 4, 4\), those of fit had \(3, 8, 8\)"):
        images.predict(IMAGES[:, :, :4, :4])
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
    with pytest.raises(ValueError, match="n_epochs=0: must be an integer >= 1"):
        quick().fit_targets(X, CELL, TABLE, n_epochs=0)
    with pytest.raises(ValueError, match="table: has 2 columns, the fitted model 3 classes; must be the same"):
        quick().fit(X, Y).fit_targets(X, CELL, TABLE[:, :2])


@pytest.mark.parametrize("rate", [0, -1.0, np.inf, np.nan, "fast", True])
def test_rates_must_be_positive_numbers(rate):
    with pytest.raises(ValueError, match=f"rate={rate!r}: must be a positive number"):
        quick().fit_targets(X, CELL, TABLE, rate=rate)
