"""Files for the scorers of one file: every calibration, and models that are linear, in Python and JavaScript."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from optfair import TableEncoder
from optfair.export.checking import compare_scorers
from optfair.portable.scorer_file import scorer_module
from tests.export.helpers import CLASSES, GROUP, GROUP_NEW, TABLE, TABLE_NEW, X_NEW, X, Y, fit_post
from tests.portable.helpers import ask_each, ask_scorer

N_RUNTIMES = 1 + bool(shutil.which("node"))


def assert_same_answers(model, path, X, groups=None):
    """Check the scorers against a classifier, by ids; return the document."""
    model.export(path)
    comparisons = compare_scorers(model, path, X, groups, [f"person {k}" for k in range(len(X))])
    assert len(comparisons) == N_RUNTIMES
    for comparison in comparisons:
        assert comparison.n == len(X) and comparison.different == () and comparison.largest < 1e-9, str(comparison)
    return json.loads(path.read_text("utf-8"))


POSTERIORS = {
    "joint": {},
    "factored": {"posterior": "factored"},
    "no calibration": {"calibration": "none"},
    "groups": {"calibration": "groups"},
    "hmac": {"hashing": "hmac-sha256"},
    "deterministic": {"decision": "argmax"},
    "an ensemble": {"ensemble": True},
    "odds": {"criterion": "eo", "tolerance": 0.02},
}


@pytest.mark.parametrize("name", POSTERIORS)
def test_posteriors_and_calibrations(name, tmp_path):
    document = assert_same_answers(fit_post(**POSTERIORS[name]), tmp_path / "fair.json", X_NEW[:200])
    assert (document["posterior"] is None) == (name == "an ensemble")


def few(n, seed=0):
    """Return rows so few that calibration is by factors."""
    rows = np.random.default_rng(seed).permutation(len(Y))[:n]
    return X[rows], Y[rows], GROUP[rows]


@pytest.mark.parametrize("options", [{}, {"calibration": "groups"}])
def test_factors(options, tmp_path):
    rows, labels, groups = few(300)
    document = assert_same_answers(
        fit_post(X=rows, y=labels, groups=groups, **options), tmp_path / "fair.json", X_NEW[:200]
    )
    assert document["calibration"]["kind"] == "factors"


def test_shares_in_the_context_of_classes(tmp_path):
    groups = np.where(np.random.default_rng(0).random(len(Y)) < 0.2, None, GROUP)
    document = assert_same_answers(fit_post(groups=groups, missing="infer"), tmp_path / "fair.json", X_NEW[:200])
    assert len(document["calibration"]["groups"][0]["inputs"]) == 2 + len(CLASSES)


@pytest.mark.parametrize("calibration", ["posterior", "groups", "none"])
@pytest.mark.parametrize("posterior", ["joint", "factored"])
def test_groups(posterior, calibration, tmp_path):
    model = fit_post(awareness="aware", posterior=posterior, calibration=calibration)
    document = assert_same_answers(model, tmp_path / "fair.json", X_NEW[:150], GROUP_NEW[:150])
    assert document["aware"] and document["groups"] == ["m", "w"]


def test_groups_not_seen_before(tmp_path):
    strange = np.where(np.arange(150) % 3 == 0, "x", GROUP_NEW[:150])
    model = fit_post(awareness="aware", unseen="blind")
    assert_same_answers(model, tmp_path / "fair.json", X_NEW[:150], strange)
    strict = fit_post(awareness="aware")
    strict.export(tmp_path / "strict.json")
    scorer = scorer_module().load(str(tmp_path / "strict.json"), key=strict.rule_.key)
    z = strict.posterior_model_(X_NEW[:1])[0].tolist()
    for group in ("x", None):
        with pytest.raises(ValueError, match=rf"^group={group!r}: must be one of \['m', 'w'\].$"):
            scorer.answer("a", joint=z, group=group)


def test_groups_among_the_features(tmp_path):
    numbers = TABLE[["a b", "e"]].assign(sex=np.where(GROUP == "m", 1, 2))
    new = TABLE_NEW[["a b", "e"]].assign(sex=np.where(GROUP_NEW == "m", 1, 2)).head(100)
    for estimator in (None, GaussianNB()):
        model = fit_post(estimator, numbers, groups=None, sensitive_features="sex", awareness="aware")
        assert_same_answers(model, tmp_path / "fair.json", new)


# -- linear models -----------------------------------------------------------------------------------------------
LINEAR = {
    "default": {},
    "factored": {"posterior": "factored"},
    "several steps": {"estimator": make_pipeline(TableEncoder(), StandardScaler(), LogisticRegression(max_iter=500))},
    "fitted": {
        "estimator": FrozenEstimator(
            make_pipeline(TableEncoder(), StandardScaler(), LogisticRegression(max_iter=500)).fit(TABLE, Y)
        )
    },
}


@pytest.mark.parametrize("name", LINEAR)
def test_features_of_linear_models(name, tmp_path):
    model = fit_post(X=TABLE, **LINEAR[name])
    document = assert_same_answers(model, tmp_path / "fair.json", TABLE_NEW.head(300))
    assert {column["name"] for column in document["posterior"]["columns"]} == set(TABLE)


def test_numbers_without_an_encoder(tmp_path):
    numbers, new = TABLE[["a b", "e"]], TABLE_NEW[["a b", "e"]]
    model = fit_post(X=numbers.assign(sex=GROUP), groups=None, sensitive_features="sex")
    assert_same_answers(model, tmp_path / "fair.json", new.head(100))
    scorer = scorer_module().load(str(tmp_path / "fair.json"), key=model.rule_.key)
    for value in (None, float("nan"), "7", [1], float("inf")):
        with pytest.raises(ValueError, match=r"^a b: must be a number; got "):
            scorer.probabilities(features={"a b": value, "e": 1.0})
    lists = fit_post()
    lists.export(tmp_path / "lists.json")
    scorer = scorer_module().load(str(tmp_path / "lists.json"), key=lists.rule_.key)
    np.testing.assert_allclose(scorer.probabilities(features=X_NEW[0].tolist()), lists.predict_proba(X_NEW[:1])[0])


@pytest.mark.parametrize("language", ["python", "node"])
def test_missing_is_missing_however_it_is_written(language, tmp_path):
    model = fit_post(X=TABLE)
    model.export(tmp_path / "fair.json")
    full = {"a b": 0.1, "marital-status": 5.0, "scores": -0.2, "e": 990.0, "rooms": 2, "owner": True}
    ways = [full | {"c": None, "city": None}, full, full | {"c": None}]
    lines = ask_scorer(
        language, tmp_path / "fair.json", [{"person": "p", "features": way} for way in ways], model.rule_.key
    )
    expected = model.predict_proba(full)[0]
    for line in lines:
        np.testing.assert_allclose(line["probabilities"], expected, atol=1e-10)
    if language == "python":
        scorer = scorer_module().load(str(tmp_path / "fair.json"), key=model.rule_.key)
        nan = full | {"c": float("nan"), "city": float("nan")}
        np.testing.assert_allclose(scorer.probabilities(features=nan), expected, atol=1e-10)


@pytest.mark.parametrize("language", ["python", "node"])
def test_a_text_is_a_text_however_it_is_written(language, tmp_path):
    codes = TABLE[["a b"]].assign(code=np.random.default_rng(0).choice(["7", "8", "x"], len(Y)))
    model = fit_post(X=codes)
    model.export(tmp_path / "fair.json")
    ways = [{"a b": 0.5, "code": code} for code in ("7", 7, "7.0", 7.0)] + [{"a b": 0.5, "code": "unknown"}]
    lines = ask_scorer(
        language, tmp_path / "fair.json", [{"person": "p", "features": way} for way in ways], model.rule_.key
    )
    P = [line["probabilities"] for line in lines]
    np.testing.assert_allclose(P[1:4], [P[0]] * 3)
    np.testing.assert_allclose(P, model.predict_proba(ways), atol=1e-10)


def test_rare_texts_are_not_in_the_file(tmp_path):
    names = np.array([*["Rome"] * 500, *["Oslo"] * 500, *(f"Person {k}" for k in range(len(Y) - 1000))], dtype=object)
    rng = np.random.default_rng(0)
    table = TABLE[["a b"]].assign(city=rng.permutation(names))
    model = fit_post(X=table)
    document = assert_same_answers(model, tmp_path / "fair.json", table.head(100))
    assert document["posterior"] is not None and "Person" not in json.dumps(document)


def test_models_that_are_not_linear_need_posteriors(tmp_path):
    for estimator in (GaussianNB(), make_pipeline(MinMaxScaler(), LogisticRegression())):
        model = fit_post(estimator)
        model.export(tmp_path / "fair.json")
        scorer = scorer_module().load(str(tmp_path / "fair.json"), key=model.rule_.key)
        with pytest.raises(ValueError, match=r"^features: the models are not in this file; give joint=, or classes= "):
            scorer.answer("a", features=X_NEW[0].tolist())


def test_a_class_nobody_of_a_group_has(tmp_path):
    labels = np.where((GROUP == "w") & (Y == "high"), "mid", Y)
    model = fit_post(y=labels, posterior="factored")
    assert_same_answers(model, tmp_path / "fair.json", X_NEW[:100])


@pytest.mark.parametrize("language", ["python", "node"])
@pytest.mark.parametrize("features", [{"other": 1}, {}])
def test_features_with_other_names_are_refused_and_not_taken_for_missing(features, language, tmp_path):
    codes = TABLE[["a b"]].assign(code=np.random.default_rng(0).choice(["7", "8", None], len(Y)))
    model = fit_post(X=codes)
    model.export(tmp_path / "fair.json")
    [reply] = ask_each(language, tmp_path / "fair.json", [{"features": features}])
    assert "must have the names" in reply


@pytest.mark.parametrize("language", ["python", "node"])
def test_a_name_that_may_be_misspelt_is_refused(language, tmp_path):
    """Where nothing is absent a strange name is left out, and where no name is strange an absent one is missing."""
    table = TABLE[["a b", "e"]].assign(code=np.random.default_rng(0).choice(["7", "8", None], len(Y)), sex=GROUP)
    model = fit_post(X=table, groups=None, sensitive_features="sex")
    path = model.export(tmp_path / "fair.json")[0]
    refused = [{"A B": 0.5, "e": 1.0, "code": "7"}, {"ab": 0.5, "e": 1.0}, {"id": 1, "sex": "m", "a b": 1.0, "e": 1.0}]
    absent = ["A B", "a b"], ["ab", "a b"], ["id", "code"]
    for (strange, name), reply in zip(
        absent, ask_each(language, path, [{"features": row} for row in refused]), strict=True
    ):
        rule = "leave out one or give the other, null if it is missing."
        assert reply == f"features: {strange!r} is no feature of the model, and {name!r} is absent; {rule}"
    whole = {"a b": 0.5, "e": 1.0, "code": None}
    rows = [whole, whole | {"id": 1}, {"a b": 0.5, "e": 1.0}, {"a b": 0.5, "e": 1.0, "sex": "m"}]
    for reply in ask_each(language, path, [{"features": row} for row in rows]):
        np.testing.assert_allclose(reply, model.predict_proba(whole)[0], atol=1e-10)


@pytest.mark.parametrize("language", ["python", "node"])
def test_the_name_of_the_group_is_known_where_it_was_given_beside_the_features(language, tmp_path):
    table = TABLE[["a b"]].assign(code=np.random.default_rng(0).choice(["7", None], len(Y)))
    model = fit_post(X=table, groups=pd.Series(GROUP, name="sex"))
    path = model.export(tmp_path / "fair.json")[0]
    [reply] = ask_each(language, path, [{"features": {"a b": 0.5, "sex": "m"}}])
    np.testing.assert_allclose(reply, model.predict_proba({"a b": 0.5})[0], atol=1e-10)
