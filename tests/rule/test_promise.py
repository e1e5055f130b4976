"""Check promises to new people: what they mean, what they need, how they end where nothing can be promised."""

import copy
import json
import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from optfair import Constraint, MinimumRate, OptFairIn, OptFairPost, PromiseError, Ratio, Rows, load_model, load_rule
from optfair.datasets import make_fair_classification
from optfair.inputs.identity import row_hashes
from optfair.metrics import violation_bound
from optfair.rule.promising import FAMILY
from optfair.rule.rule import FairRule
from optfair.rule.tightening import People, PromiseSearch

DATA = make_fair_classification(6000, n_classes=3, n_groups=3, random_state=2)
GROUPS = DATA.sensitive_features


def fit(data=DATA, **options):
    options = {"tolerance": 0.08, "confidence": 0.95, "random_state": 0} | options
    model = OptFairPost(LogisticRegression(), **options)
    return model.fit(data.X, data.y, sensitive_features=data.sensitive_features)


@pytest.fixture(scope="module")
def promised():
    return fit()


# -- what a promise is ---------------------------------------------------------------------------------------
def test_without_a_confidence_nothing_changes():
    plain, loose = fit(confidence=None), fit(tolerance=0.9)
    assert plain.promise_ is None and "promise" not in plain.seconds_
    assert loose.promise_.kept and loose.promise_.tightening == 0 and loose.promise_.cost == 0
    unpromised = fit(tolerance=0.9, confidence=None)
    np.testing.assert_array_equal(loose.predict_proba(DATA.X), unpromised.predict_proba(DATA.X))


def test_the_promised_rule_is_fairer_by_labels_and_no_model_is_fitted_again(promised):
    plain, promise = fit(confidence=None), promised.promise_
    assert promise.kept and promise.ratio <= 1 and promise.bound <= 0.08 == promise.tolerance
    assert promise.tightening > 0 and promise.cost > 0 and promise.method == "fitted" and promise.n_people == 6000
    assert promised.n_base_fits_ == plain.n_base_fits_ == 6 and promised.seconds_["promise"] > 0
    table = promise.table
    assert (table["value"].abs() < 0.08).all() and (table["low"] < table["value"]).all()
    assert (table["people"] >= 30).all() and (table["people_needed"] > 0).all()
    labelled = promised.report().constraints
    np.testing.assert_allclose(labelled["value"], table["value"], atol=1e-9)


def test_the_same_seed_gives_the_same_promise(promised):
    again = fit()
    np.testing.assert_array_equal(again.rule_.weights, promised.rule_.weights)
    assert str(again.promise_) == str(promised.promise_)


def test_more_confidence_and_less_tolerance_leave_less_room(promised):
    search = PromiseSearch(fit(confidence=None)._fitted.problem, People(), 0.9, "sampled")
    trial = search.trial(fit(confidence=None)._fitted.solution)
    ratios = []
    for confidence in (0.5, 0.8, 0.95, 0.99):
        search.confidence = confidence
        ratios.append(search.ratio(trial.values, trial.draws))
    assert ratios == sorted(ratios)
    assert fit(confidence=0.6).promise_.tightening < promised.promise_.tightening


def test_the_price_falls_as_people_grow_in_number():
    world = make_fair_classification(100, n_classes=2, random_state=1).world
    few, many = (fit(world.sample(n, random_state=0)).promise_ for n in (2000, 50_000))
    assert many.table["se"].max() < few.table["se"].max() / 4 and many.cost < few.cost


@pytest.mark.parametrize(
    "options",
    [
        {"criterion": "eo", "tolerance": 0.15},
        {"criterion": "eop", "tolerance": 0.15, "reference": "pairwise"},
        {"criterion": "meo", "tolerance": 0.1},
        {"criterion": "oae", "tolerance": 0.1},
        {"criterion": [Constraint("dp", 0.1), Constraint("oae", 0.1)], "tolerance": None},
        {"criterion": Ratio("dp", 0.5), "tolerance": None},
        {"criterion": [Constraint("dp", 0.1), MinimumRate("recall", 0.2)], "tolerance": None},
        {"criterion": Rows(np.broadcast_to(np.eye(3)[2], (1, 3, 3, 3)), upper=0.3), "tolerance": None},
        {"tolerance": {"A": 0.06, "B": 0.09}},
        {"awareness": "aware"},
        {"decision": "argmax"},
        {"decision": "sampled"},
    ],
    ids=str,
)  # fmt: skip
def test_every_kind_of_constraint_and_decision_can_be_promised(options):
    model = fit(**options)
    promise = model.promise_
    assert promise.kept and promise.ratio <= 1
    rows = promise.table
    assert ((rows["value"] >= rows["lower"]) & (rows["value"] <= rows["upper"])).all()
    assert f"confidence {0.95:.0%}" in str(promise) and str(promise) in str(model.report())
    if promise.decision == "argmax":
        assert "decision 'argmax'" in str(promise)


def test_weights_and_clusters_count_as_fewer_people(promised):
    data = DATA
    twice = OptFairPost(LogisticRegression(), tolerance=0.08, confidence=0.95, random_state=0).fit(
        np.repeat(data.X, 2, axis=0),
        np.repeat(data.y, 2),
        sensitive_features=np.repeat(np.asarray(GROUPS), 2),
        cluster=np.repeat(np.arange(6000), 2),
    )
    once = promised.promise_.table["se"].to_numpy()
    np.testing.assert_allclose(twice.promise_.table["se"], once, rtol=0.1)
    weight = np.random.default_rng(0).lognormal(size=6000)
    model = OptFairPost(LogisticRegression(), tolerance=0.12, confidence=0.95, random_state=0)
    model.fit(data.X, data.y, sensitive_features=GROUPS, sample_weight=weight / weight.mean())
    assert model.promise_.kept and (model.promise_.table["se"].to_numpy() > 1.2 * once).all()


def test_people_of_equal_features_flip_together():
    rng = np.random.default_rng(0)
    X, a = rng.integers(0, 3, (6000, 2)).astype(float), rng.integers(0, 2, 6000)
    X[:, 0] += a
    y = (rng.random(6000) < 0.2 + 0.15 * X[:, 0]).astype(int)
    model = OptFairPost(LogisticRegression(), tolerance=0.02, decision="sampled", random_state=0)
    fitted = model.fit(X, y, sensitive_features=a)._fitted
    noise = {}
    for decision in ("hashed", "sampled"):
        for features in (np.arange(6000), row_hashes(X)):
            search = PromiseSearch(fitted.problem, People(features=features), 0.95, decision)
            noise[decision, len(set(features))] = search.trial(fitted.solution).draws.std()
    alone = noise["sampled", 6000]
    assert noise["sampled", 12] == noise["hashed", 6000] == alone < noise["hashed", 12] / 3
    # By hand: each of the twelve kinds of people gets one answer, drawn with its probability.
    h, rng = model.predict_proba(X)[:, 1], np.random.default_rng(1)
    _, kind = np.unique(X, axis=0, return_inverse=True)
    draws = np.array([(rng.random(12) < np.bincount(kind, h) / np.bincount(kind))[kind] for _ in range(2000)])
    gaps = draws[:, a == 0].mean(axis=1) - draws.mean(axis=1)
    search = PromiseSearch(fitted.problem, People(features=row_hashes(X)), 0.95, "hashed")
    assert np.hypot(alone, gaps.std()) == pytest.approx(search.trial(fitted.solution).draws[0].std(), rel=0.15)


def test_an_ensemble_answers_with_the_mixture_of_its_folds(tmp_path):
    model = fit(ensemble=True)
    assert model.promise_.kept and len(model.fold_models_) == 5
    parts = [model.rule_.predict_proba(model.calibration_(fold(DATA.X))) for fold in model.fold_models_]
    np.testing.assert_allclose(model.predict_proba(DATA.X), np.mean(parts, axis=0), atol=1e-12)
    assert str(model.promise_) == str(fit().promise_)  # what is measured out of fold is the same
    pytest.importorskip("skops", reason="models are saved by skops")
    model.save(tmp_path / "model.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").predict(DATA.X), model.predict(DATA.X))


# -- where nothing can be promised -----------------------------------------------------------------------------
def test_the_refusal_names_the_gap_and_ways_that_work():
    with pytest.raises(PromiseError) as caught:
        fit(tolerance=0.01)
    text, error = str(caught.value), caught.value
    assert text.startswith("tolerance=0.01: cannot be promised with confidence 0.95 to these 6,000 people: ")
    for part in (
        " people) is known to ±0.0",
        "Smallest tolerance that can be promised: 0.0",
        "unpromised='mix' (accuracy",
        "a tolerance for each group, tolerance={'A': ",
        "about ",
        "unpromised='loosen'",
    ):
        assert part in text
    assert (
        error.smallest > 1 and not error.promise.kept and "it cannot be said with confidence 95%" in str(error.promise)
    )
    assert fit(tolerance=error.tolerances).promise_.kept  # ready to paste
    copied = pickle.loads(pickle.dumps(error))
    assert str(copied) == text and copied.tolerances == error.tolerances


def test_a_mixture_keeps_the_promise_and_shrinks_every_gap_alike():
    mixed, loose = fit(tolerance=0.01, unpromised="mix"), fit(tolerance=0.01, unpromised="loosen")
    assert mixed.promise_.kept and 0 < mixed.promise_.share < 1 and mixed.rule_.share == mixed.promise_.share
    assert "of decisions drawn from a constant" in str(mixed.promise_)
    rule, s = mixed.rule_, mixed.rule_.share
    pure = copy.replace(rule, share=0.0) if hasattr(copy, "replace") else FairRule(**{**rule.__dict__, "share": 0.0})
    Z = mixed._fitted.problem.posterior.Z
    np.testing.assert_allclose(rule.predict_proba(Z), (1 - s) * pure.predict_proba(Z) + s * rule.constant, atol=1e-12)
    assert loose.promise_.kept and loose.promise_.loosened > 1
    assert loose.promise_.tolerance == pytest.approx(0.01 * loose.promise_.loosened)
    assert mixed.certificate_.accuracy < loose.certificate_.accuracy


def test_accuracy_is_mixed_with_the_uniform_rule():
    model = fit(criterion="oae", tolerance=0.005, unpromised="mix")
    np.testing.assert_allclose(model.rule_.constant, 1 / 3)


def test_a_handful_of_people_is_refused():
    groups = np.asarray(GROUPS, dtype=object).copy()
    groups[:12] = "few"
    model = OptFairPost(LogisticRegression(), tolerance=0.2, confidence=0.95, random_state=0)
    message = r"nothing can be promised of dp: group 'few'.*12 of 6,000 people; at least 30 are needed"
    with pytest.raises(PromiseError, match=message):
        model.fit(DATA.X, DATA.y, sensitive_features=groups)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 95}, r"confidence=95: must be a number in \[0.5, 1\), e.g. 0.95"),
        ({"confidence": 1.0}, "confidence=1.0: must be"),
        ({"unpromised": "shrug"}, "unpromised='shrug': must be one of"),
        ({"ensemble": True, "decision": "argmax"}, "ensemble=True: draws among the rules of folds"),
        ({"unpromised": "mix", "decision": "argmax"}, "unpromised='mix': draws decisions, and decision='argmax'"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        fit(**options)


# -- files and copies ------------------------------------------------------------------------------------------
def test_a_promise_travels_with_the_rule(promised, tmp_path):
    promised.rule_.save(tmp_path / "rule.json")
    loaded = load_rule(tmp_path / "rule.json").promise
    for other in (loaded, pickle.loads(pickle.dumps(promised)).promise_):
        assert str(other) == str(promised.promise_)
        assert np.array_equal(other.table["value"], promised.promise_.table["value"])
    document = json.loads((tmp_path / "rule.json").read_text())
    assert document["rule"]["promise"]["kept"] is True and "model" not in document["rule"]["promise"]


def test_a_confidence_is_set_before_the_fit():
    """Else nobody knows whose rows they are."""
    model = fit(confidence=None).set_params(confidence=0.95)
    with pytest.raises(ValueError, match=r"confidence=0.95: was not set when the model was fitted; fit again"):
        model.with_tolerance(0.3)


def test_other_rules_of_the_same_models_are_promised_too(promised):
    other = promised.with_tolerance(0.12)
    assert other.promise_.kept and other.promise_.tolerance == 0.12
    assert other.certificate_.accuracy > promised.certificate_.accuracy
    with pytest.raises(PromiseError):
        promised.with_tolerance(0.005)


# -- people not fitted on --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def halves():
    return DATA.split(0.5, random_state=0)


def test_a_promise_on_others_is_the_bound_of_the_violation(halves):
    train, test = halves
    model = fit(train, confidence=None)
    for y in (test.y, None):
        promise = model.promise(test.X, y, sensitive_features=test.sensitive_features)
        h = model.predict_proba(test.X)
        bound = violation_bound(y, h, sensitive_features=test.sensitive_features, classes=model.classes_)
        assert promise.bound == pytest.approx(bound.bound) and promise.method == "held out"
        assert promise.kept == (bound.bound <= 0.08)
    assert model.with_tolerance(0.3).promise(test.X, sensitive_features=test.sensitive_features).kept


def test_a_family_ends_before_the_first_rule_that_fails(halves):
    train, test = halves
    model = fit(train, confidence=None, tolerance=0.1)
    question = {"sensitive_features": test.sensitive_features}
    chosen = model.promise(test.X, test.y, family=True, **question)
    single = model.promise(test.X, test.y, **question)
    assert chosen.kept and chosen.model.promise(test.X, test.y, **question).bound == chosen.bound
    assert single.kept or chosen.bound < single.bound
    bounds = [rule.promise(test.X, test.y, **question).bound for rule in model._family(np.full((3, 3), 300))]
    assert len(bounds) == len(FAMILY) + 1 and bounds[0] < bounds[-1] == single.bound
    strict = fit(train, confidence=None, tolerance=0.01).promise(test.X, test.y, family=True, **question)
    assert not strict.kept and "it cannot be said with confidence 95%" in str(strict)


def test_a_trained_model_is_tested_too(halves):
    train, test = halves
    model = OptFairIn(tolerance=0.3, rounds=3, random_state=0)
    model.fit(train.X, train.y, sensitive_features=train.sensitive_features)
    question = {"sensitive_features": test.sensitive_features}
    assert model.promise(test.X, test.y, **question).n_people == len(test.y)
    with pytest.raises(ValueError, match="family=True: is for OptFairPost"):
        model.promise(test.X, test.y, family=True, **question)


def test_criteria_of_true_classes_need_them(halves):
    train, test = halves
    model = fit(train, confidence=None, criterion="eo", tolerance=0.2)
    with pytest.raises(ValueError, match="y_true=None: 'eo' speaks of true classes"):
        model.promise(test.X, sensitive_features=test.sensitive_features)
    with pytest.raises(ValueError, match=r"confidence=2: must be a number in \[0.5, 1\)"):
        model.promise(test.X, test.y, sensitive_features=test.sensitive_features, confidence=2)
    one = np.asarray(test.sensitive_features) == "A"
    with pytest.raises(ValueError, match="nobody is in the group and class of eo: group 'B'"):
        model.promise(test.X[one], test.y[one], sensitive_features=np.asarray(test.sensitive_features)[one])
