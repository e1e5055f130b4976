"""Aware classifiers as graphs: groups as inputs, of every type, missing, combined, and not seen before."""

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair.errors import ExportError
from tests.export.helpers import (
    GROUP,
    GROUP_NEW,
    TABLE,
    TABLE_NEW,
    X_NEW,
    X,
    Y,
    assert_exported,
    fit_post,
    graph_outputs,
)

pytest.importorskip("onnx", reason="graphs are written by onnx")
pytest.importorskip("skl2onnx", reason="steps of scikit-learn are converted by skl2onnx")

GROUPS = {
    "texts": (GROUP, GROUP_NEW),
    "integers": (np.where(GROUP == "m", 3, -1), np.where(GROUP_NEW == "m", 3, -1)),
    "truth values": (GROUP == "m", GROUP_NEW == "m"),
    "numbers": (np.where(GROUP == "m", 0.5, 2.0), np.where(GROUP_NEW == "m", 0.5, 2.0)),
}


@pytest.mark.parametrize("kind", GROUPS)
def test_groups_of_any_type(kind, tmp_path):
    fitted, new = GROUPS[kind]
    assert_exported(fit_post(groups=fitted, awareness="aware"), tmp_path, X_NEW, sensitive_features=new)


@pytest.mark.parametrize("calibration", ["posterior", "groups", "none"])
@pytest.mark.parametrize("posterior", ["joint", "factored"])
def test_calibrations(posterior, calibration, tmp_path):
    model = fit_post(awareness="aware", posterior=posterior, calibration=calibration, criterion="eo")
    assert_exported(model, tmp_path, X_NEW, sensitive_features=GROUP_NEW)


def crossed(groups, seed):
    frame = pd.DataFrame({"sex": groups, "old": np.random.default_rng(seed).integers(0, 3, len(groups))})
    return frame[(frame["sex"] != "w") | (frame["old"] != 2)], frame  # a combination that nobody fitted on has


def test_several_attributes(tmp_path):
    seen, _ = crossed(GROUP, 0)
    rows = seen.index
    model = fit_post(X=X[rows], groups=seen.reset_index(drop=True), awareness="aware", y=Y[rows])
    new, every = crossed(GROUP_NEW, 1)
    assert_exported(model, tmp_path, X_NEW[new.index], sensitive_features=new.reset_index(drop=True))
    outputs = graph_outputs(tmp_path / "fair.onnx", X_NEW, every)
    is_new = ~every.index.isin(new.index)
    assert np.isnan(outputs["probabilities"][is_new]).all() and outputs["drawn"][is_new].all()
    assert np.isfinite(outputs["probabilities"][~is_new]).all()


def test_missing_groups_of_their_own(tmp_path):
    def holes(groups, seed):
        return np.where(np.random.default_rng(seed).random(len(groups)) < 0.2, None, groups)

    model = fit_post(groups=holes(GROUP, 0), awareness="aware", missing="group")
    assert_exported(model, tmp_path, X_NEW, sensitive_features=holes(GROUP_NEW, 1))
    numbers = [np.where(GROUP == "m", 1.0, 2.0), np.where(GROUP_NEW == "m", 1.0, 2.0)]
    for seed, values in enumerate(numbers):
        values[np.random.default_rng(seed).random(len(values)) < 0.2] = np.nan
    model = fit_post(groups=numbers[0], awareness="aware", missing="group")
    assert_exported(model, tmp_path, X_NEW, sensitive_features=numbers[1])


def test_groups_not_seen_before(tmp_path):
    strange = np.where(np.arange(len(X_NEW)) % 3 == 0, "x", GROUP_NEW)
    blind = fit_post(awareness="aware", unseen="blind", decision="argmax")
    outputs = assert_exported(blind, tmp_path, X_NEW, sensitive_features=strange)
    assert outputs["label"].tolist() == blind.predict(X_NEW, sensitive_features=strange).tolist()
    strict = fit_post(awareness="aware", decision="argmax")
    strict.export(tmp_path / "fair.onnx")
    outputs = graph_outputs(tmp_path / "fair.onnx", X_NEW, strange)
    assert np.isnan(outputs["probabilities"]).any(axis=1).tolist() == (strange == "x").tolist()
    expected = strict.predict(X_NEW, sensitive_features=GROUP_NEW)  # of a person whose group is not known it is none
    assert outputs["label"].tolist() == np.where(strange == "x", "", expected).tolist()


def test_missing_groups_that_are_refused(tmp_path):
    """Natively it is an error, in a graph no number, although groups that were not seen get an answer."""
    model = fit_post(awareness="aware", unseen="blind")
    strange = np.where(np.arange(len(X_NEW)) % 3 == 0, "x", GROUP_NEW)
    assert_exported(model, tmp_path, X_NEW, sensitive_features=strange)
    outputs = graph_outputs(tmp_path / "fair.onnx", X_NEW, np.where(strange == "x", None, strange))
    assert np.isnan(outputs["probabilities"]).any(axis=1).tolist() == (strange == "x").tolist()


@pytest.mark.parametrize("name", ["group", "rooms"])
def test_groups_among_the_features(name, tmp_path):
    table, new = TABLE.assign(group=GROUP), TABLE_NEW.assign(group=GROUP_NEW)
    model = fit_post(X=table, groups=None, sensitive_features=name, awareness="aware")
    assert_exported(model, tmp_path, new)


def test_fitted_models_that_know_the_group(tmp_path):
    inner = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    model = fit_post(FrozenEstimator(inner), awareness="aware")
    assert_exported(model, tmp_path, X_NEW, sensitive_features=GROUP_NEW)


def test_what_says_no_column_is_refused(tmp_path):
    function = fit_post(X=TABLE, groups=None, sensitive_features=lambda frame: frame["rooms"] > 2, awareness="aware")
    with pytest.raises(ExportError, match=r"^sensitive_features: is a function or a position; name the columns, and "):
        function.export(tmp_path / "fair.onnx")
    position = fit_post(X=np.column_stack([X, GROUP == "m"]), groups=None, sensitive_features=5)
    with pytest.raises(ExportError, match=r"^sensitive_features: are positions in a matrix; name columns of a data "):
        position.export(tmp_path / "fair.onnx")


def test_names_of_several_types_are_refused(tmp_path):
    mixed = np.array([1, "a"], dtype=object)[(GROUP == "m").astype(int)]
    with pytest.raises(
        ExportError, match=r"^groups: 'group' has names of several types; make them text, and fit again."
    ):
        fit_post(groups=mixed, awareness="aware").export(tmp_path / "fair.onnx")
