"""Graphs of fitted classifiers: whatever learned the posterior, the probabilities are those of `predict_proba`."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from optfair import OptFairIn, OptFairInPost, OptFairPost, ScoreColumns, TableEncoder, load_model
from optfair.errors import ExportError
from tests.export.helpers import (
    GROUP,
    GROUP_NEW,
    NUMBERS,
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

FITTED = LogisticRegression(max_iter=500).fit(StandardScaler().fit(X).transform(X), Y)
ESTIMATORS = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
    "multi-layer perceptron": make_pipeline(StandardScaler(), MLPClassifier((12,), max_iter=15, random_state=0)),
    "tree": DecisionTreeClassifier(max_depth=5, random_state=0),
    "forest": RandomForestClassifier(12, min_samples_leaf=5, random_state=0),
    "extra trees": ExtraTreesClassifier(12, min_samples_leaf=5, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=8, random_state=0),
    "gradient boosting": GradientBoostingClassifier(n_estimators=4, random_state=0),
    "naive Bayes": GaussianNB(),
    "calibrated": make_pipeline(StandardScaler(), CalibratedClassifierCV(LogisticRegression(), cv=2)),
    "scaled to a range": make_pipeline(MinMaxScaler(), LogisticRegression()),
    "default": None,
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_arrays(name, tmp_path):
    assert_exported(fit_post(ESTIMATORS[name]), tmp_path, X_NEW)


def test_one_column(tmp_path):
    """A single scale before a product is not made part of it in single precision."""
    model = fit_post(make_pipeline(StandardScaler(), LogisticRegression()), X[:, [0]])
    assert_exported(model, tmp_path, X_NEW[:, [0]], slack=1e-11)


FRAMES = {
    "default": None,
    "forest behind an encoder": make_pipeline(TableEncoder(), RandomForestClassifier(8, min_samples_leaf=5)),
    "columns": make_pipeline(
        make_column_transformer(
            (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), NUMBERS),
            (OneHotEncoder(handle_unknown="ignore"), ["city"]),
            (OneHotEncoder(handle_unknown="ignore"), ["rooms"]),
            ("passthrough", ["owner"]),
        ),
        LogisticRegression(max_iter=500),
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_tables_with_texts_and_gaps(name, tmp_path):
    assert_exported(fit_post(FRAMES[name], TABLE), tmp_path, TABLE_NEW)


def test_new_people_may_be_strange(tmp_path):
    model = fit_post(None, TABLE)
    strange = TABLE_NEW.head(40).assign(city=["Perth", None] * 20, rooms=np.nan, owner=None)
    assert_exported(model, tmp_path, strange.astype({"owner": object}))


POSTERIORS = {
    "factored": {"posterior": "factored"},
    "equalized odds, no calibration": {"criterion": "eo", "calibration": "none"},
    "groups": {"calibration": "groups"},
    "groups, factored": {"calibration": "groups", "posterior": "factored"},
    "an ensemble": {"ensemble": True},
    "costs": {"costs": np.array([[0, 1, 3], [1, 0, 1], [3, 1, 0]])},
    "argmax": {"decision": "argmax"},
    "no constraint": {"tolerance": 1.0},
}


@pytest.mark.parametrize("name", POSTERIORS)
def test_posteriors_and_calibrations(name, tmp_path):
    outputs = assert_exported(fit_post(**POSTERIORS[name]), tmp_path, X_NEW)
    assert ("label" in outputs) == (name == "argmax")


def test_labels_of_deterministic_rules(tmp_path):
    model = fit_post(X=TABLE, decision="argmax")
    outputs = assert_exported(model, tmp_path, TABLE_NEW)
    assert outputs["label"].tolist() == model.predict(TABLE_NEW).tolist()


def test_unknown_groups(tmp_path):
    groups = np.where(np.random.default_rng(0).random(len(Y)) < 0.2, None, GROUP)
    assert_exported(fit_post(groups=groups, missing="infer"), tmp_path, X_NEW)


@pytest.mark.parametrize("source", ["group", ["group", "side"]])
def test_sensitive_columns_of_the_table_are_no_inputs(source, tmp_path):
    table = TABLE.assign(group=GROUP, side=np.where(X[:, 1] > 5, 1, 2))
    model = fit_post(X=table, groups=None, sensitive_features=source)
    assert_exported(model, tmp_path, TABLE_NEW.assign(side=1) if source == "group" else TABLE_NEW)


# -- models that are fitted already ------------------------------------------------------------------------------
def test_fitted_models(tmp_path):
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    assert_exported(fit_post(FrozenEstimator(fitted)), tmp_path, X_NEW)
    assert_exported(fit_post(fitted, cv="prefit", group_estimator=GaussianNB()), tmp_path, X_NEW)


def test_scores_in_columns(tmp_path):
    P = FITTED.predict_proba(StandardScaler().fit(X).transform(X))
    table = pd.DataFrame(P, columns=["p_high", "p_low", "p_mid"]).assign(x=X[:, 0])
    model = fit_post(ScoreColumns(["p_high", "p_low", "p_mid"], ["high", "low", "mid"]), table)
    assert_exported(model, tmp_path, table.head(50))


def test_networks(tmp_path):
    pytest.importorskip("torch", reason="networks are of torch")
    from optfair.nn import TorchClassifier

    for module in ("linear", "mlp"):
        network = make_pipeline(StandardScaler(), TorchClassifier(module, hidden=(8,), epochs=2, random_state=0))
        assert_exported(fit_post(network), tmp_path, X_NEW)


def test_lightgbm(tmp_path):
    lightgbm = pytest.importorskip("lightgbm", reason="trees of LightGBM")
    for posterior in ("joint", "factored"):
        trees = lightgbm.LGBMClassifier(n_estimators=6, verbose=-1, n_jobs=1, random_state=0)
        holes = np.where(np.random.default_rng(0).random(X.shape) < 0.05, np.nan, X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fit_post(trees, holes, posterior=posterior)
            assert_exported(model, tmp_path, np.where(np.random.default_rng(1).random(X.shape) < 0.3, np.nan, X_NEW))


def test_in_processing(tmp_path):
    learner = make_pipeline(StandardScaler(), LogisticRegression())
    for mixture in ("last_half", "lp"):
        model = OptFairIn(learner, rounds=6, tolerance=0.2, mixture=mixture, random_state=0)
        model.fit(X, Y, sensitive_features=GROUP)
        outputs = assert_exported(model, tmp_path, X_NEW)
        assert "scores" not in outputs
    with pytest.raises(
        ExportError, match=r"^OptFairIn: answers by votes of trained models, and has no rule on P\(A, Y "
    ):
        model.export(tmp_path / "fair.json")
    with pytest.raises(ExportError, match=r"^OptFairIn: answers by votes"):
        model.export(tmp_path / "fair.onnx", inputs="posterior")
    aware = OptFairIn(learner, rounds=2, tolerance=0.5, awareness="aware", random_state=0)
    aware.fit(X, Y, sensitive_features=GROUP)
    with pytest.raises(ExportError, match=r"^awareness='aware': votes of models that are told the group are not"):
        aware.export(tmp_path / "fair.onnx")


def test_in_then_post(tmp_path):
    trainer = OptFairIn(make_pipeline(StandardScaler(), LogisticRegression()), rounds=4, tolerance=0.05, random_state=0)
    model = OptFairInPost(trainer, threshold=0.5, random_state=0).fit(X, Y, sensitive_features=GROUP)
    [path] = model.export(tmp_path / "fair.onnx")
    np.testing.assert_allclose(graph_outputs(path, X_NEW)["probabilities"], model.predict_proba(X_NEW), atol=1e-9)


def test_saved_models(tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    fit_post(X=TABLE).save(tmp_path / "fair.skops")
    model = load_model(tmp_path / "fair.skops")
    assert_exported(model, tmp_path, TABLE_NEW)


# -- what cannot be exported -------------------------------------------------------------------------------------
def test_a_step_that_cannot_be_converted_is_named(tmp_path):
    class Strange(LogisticRegression):
        pass

    with pytest.raises(ExportError, match=r"^Strange: this step cannot be converted to ONNX .*inputs='posterior'"):
        fit_post(make_pipeline(StandardScaler(), Strange())).export(tmp_path / "fair.onnx")
    with pytest.raises(ExportError, match=r"^PolynomialFeatures: this step cannot be converted to ONNX "):
        fit_post(make_pipeline(PolynomialFeatures(2), GaussianNB())).export(tmp_path / "fair.onnx")
    with pytest.raises(ExportError, match=r"^estimator: is a function, which cannot be converted. Export the rule by "):
        fit_post(lambda rows: FITTED.predict_proba(rows)).export(tmp_path / "fair.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::FutureWarning")
def test_a_converter_that_computes_otherwise_is_refused(tmp_path):
    model = fit_post(make_pipeline(StandardScaler(), SVC(probability=True, max_iter=50, random_state=0)))
    with pytest.raises(
        ExportError, match=r"gives other probabilities .*, or accept it by max_difference=\S+\.$"
    ) as error:
        model.export(tmp_path / "fair.onnx")
    accepted = float(str(error.value).rpartition("=")[2].rstrip("."))
    assert model.export(tmp_path / "fair.onnx", max_difference=accepted)


def test_texts_by_themselves(tmp_path):
    texts = np.array([" ".join(np.random.default_rng(k).choice(["good", "bad", "ok"], 4)) for k in range(len(Y))])
    model = fit_post(make_pipeline(TfidfVectorizer(), LogisticRegression()), texts)
    [path] = model.export(tmp_path / "fair.onnx", max_difference=0.01)
    np.testing.assert_allclose(graph_outputs(path, texts)["probabilities"], model.predict_proba(texts), atol=0.01)


@pytest.mark.parametrize("inputs", ["feature", None, 1])
def test_inputs_are_a_choice(inputs, tmp_path):
    with pytest.raises(ValueError, match=r"^inputs=.*: must be one of 'features', 'posterior'.$"):
        fit_post().export(tmp_path / "fair.onnx", inputs=inputs)


def test_only_fitted_classifiers_are_exported(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        OptFairPost().export(tmp_path / "fair.onnx")


# -- the rule behind models that are elsewhere -------------------------------------------------------------------
@pytest.mark.parametrize("options", [{}, {"posterior": "factored"}, {"calibration": "none"}, {"calibration": "groups"}])
def test_posteriors_as_inputs(options, tmp_path):
    from optfair.portable.runtime import run_graph

    model = fit_post(**options)
    [path] = model.export(tmp_path / "fair.onnx", inputs="posterior")
    raw = model.posterior_model_(X_NEW)
    outputs = run_graph(path.read_bytes(), {"joint": raw})
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(X_NEW), atol=1e-9)
    assert path.stat().st_size < 40_000


def test_posteriors_and_groups_as_inputs(tmp_path):
    from optfair.portable.runtime import run_graph

    model = fit_post(awareness="aware")
    [path] = model.export(tmp_path / "fair.onnx", inputs="posterior")
    codes = model.groups_.get_indexer(GROUP_NEW)[:, None]
    outputs = run_graph(path.read_bytes(), {"joint": model.posterior_model_(X_NEW), "group_code": codes})
    expected = model.predict_proba(X_NEW, sensitive_features=GROUP_NEW)
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-9)


def test_an_ensemble_has_no_single_posterior(tmp_path):
    with pytest.raises(
        ExportError, match=r"^ensemble: the answers are a mixture of the rules of 2 models; export them "
    ):
        fit_post(ensemble=True).export(tmp_path / "fair.onnx", inputs="posterior")
