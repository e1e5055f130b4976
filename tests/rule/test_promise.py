"""Check promises to new people: what they mean, what they need, how they end where nothing can be promised."""

import copy
import json
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from optfair import (
    Constraint,
    MinimumRate,
    OptFairIn,
    OptFairPost,
    OptFairWarning,
    PromiseError,
    Ratio,
    Rows,
    load_model,
    load_rule,
)
from optfair.datasets import make_fair_classification
from optfair.inputs.identity import row_hashes, twin_codes
from optfair.metrics import violation_bound
from optfair.rule.promise import place_text
from optfair.rule.promising import FAMILY, _share_text
from optfair.rule.rule import FairRule
from optfair.rule.tightening import FittedRows, PromiseSearch

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
    search = PromiseSearch(fit(confidence=None)._fitted.problem, FittedRows(), 0.9, "sampled")
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
    assert f"confidence {0.95:.0%}" in str(promise)
    if promise.decision == "argmax":
        assert "decision 'argmax'" in str(promise)
    in_points = f"{100 * promise.tolerance:g} percentage points" if promise.tolerance else ""
    subject = promise.statement.replace(f"{promise.tolerance:g}", in_points) if in_points else promise.statement
    text = " ".join(str(model.report()).split())
    assert f"Promise made in fitting: With 95 % confidence, {subject} among new people" in text
    assert ("answers that are always the likeliest." in text) == (promise.decision == "argmax")
    assert ("answers that are drawn anew at every call." in text) == (promise.decision == "sampled")


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


def twins(n=6000):
    """Return X of twelve kinds of people, y and groups."""
    rng = np.random.default_rng(0)
    X, a = rng.integers(0, 3, (n, 2)).astype(float), rng.integers(0, 2, n)
    X[:, 0] += a
    return X, (rng.random(n) < 0.2 + 0.15 * X[:, 0]).astype(int), a


def test_people_of_equal_features_flip_together():
    X, y, a = twins()
    model = OptFairPost(LogisticRegression(), tolerance=0.02, decision="sampled", random_state=0)
    fitted = model.fit(X, y, sensitive_features=a)._fitted
    kinds, first = twin_codes(row_hashes(X), None)
    people = FittedRows(kinds=kinds, kind_posteriors=(model.joint_posterior(X[first]),))
    noise = {}
    for decision in ("hashed", "sampled"):
        noise[decision] = PromiseSearch(fitted.problem, people, 0.95, decision).trial(fitted.solution).draws[0].std()
    assert len(first) == 12 and noise["hashed"] > 2 * noise["sampled"]
    # By hand: each of the twelve kinds of people gets one answer, drawn with its probability.
    h, rng = model.predict_proba(X[first])[:, 1], np.random.default_rng(1)
    draws = np.array([(rng.random(12) < h)[kinds] for _ in range(2000)])
    gaps = draws[:, a == 0].mean(axis=1) - draws.mean(axis=1)
    assert np.hypot(noise["sampled"], gaps.std()) == pytest.approx(noise["hashed"], rel=0.15)


def test_twins_are_found_where_there_are_any():
    hashes = np.array([5, 7, 5, 9, 7, 5], dtype=np.uint64)
    codes, first = twin_codes(hashes, None)
    assert codes.tolist() == [0, 1, 0, -1, 1, 0] and first.tolist() == [0, 1]
    codes, first = twin_codes(hashes, np.array([0, 0, 1, 0, 0, 0]))  # the third is of another group
    assert codes[2] == codes[3] == -1 and codes[0] == codes[5] and len(first) == 2
    assert twin_codes(np.arange(1000, dtype=np.uint64), None)[0] is None


def test_hashed_decisions_for_others_are_tested_as_they_are_made():
    X, y, a = twins(12_000)
    model = OptFairPost(LogisticRegression(), tolerance=0.02, random_state=0)
    model.fit(X[:6000], y[:6000], sensitive_features=a[:6000])
    promise = model.promise(X[6000:], sensitive_features=a[6000:])
    made = violation_bound(None, model.predict(X[6000:]), sensitive_features=a[6000:])
    drawn = violation_bound(None, model.predict_proba(X[6000:]), sensitive_features=a[6000:], classes=[0, 1])
    assert promise.bound == pytest.approx(made.bound) != pytest.approx(drawn.bound)
    keyed = model.promise(X[6000:], sensitive_features=a[6000:], keys=range(6000))
    assert keyed.bound != promise.bound


# -- which models answer -----------------------------------------------------------------------------------------
def test_trees_answer_by_their_folds_and_regressions_by_one_model():
    """Leaves flip as a whole: a tree on all rows has other gaps than those on the folds, however many people."""
    tree = DecisionTreeClassifier(max_depth=3, min_samples_leaf=20, random_state=0)
    auto = OptFairPost(tree, tolerance=0.12, confidence=0.95, random_state=0)
    assert len(auto.fit(DATA.X, DATA.y, sensitive_features=GROUPS).fold_models_) == 5
    assert fit().fold_models_ == () == fit(confidence=None).fold_models_ == fit(ensemble=False).fold_models_
    single = OptFairPost(tree, tolerance=0.3, confidence=0.95, ensemble=False, random_state=0)
    single.fit(DATA.X, DATA.y, sensitive_features=GROUPS)
    search = PromiseSearch(single._fitted.problem, single._fitted.people, 0.95, "sampled")
    trial = search.trial(single._fitted.solution)
    assert np.abs(trial.shift).max() > 0  # counts in full
    assert trial.ratio > search.ratio(trial.values, trial.draws)


def test_a_fitted_model_must_not_have_seen_these_people():
    forest = RandomForestClassifier(20, random_state=0).fit(DATA.X, DATA.y)
    model = OptFairPost(FrozenEstimator(forest), tolerance=0.5, confidence=0.95, random_state=0)
    with pytest.warns(OptFairWarning, match="it seems to have been fitted on them"):
        model.fit(DATA.X, DATA.y, sensitive_features=GROUPS)
    half = RandomForestClassifier(20, random_state=0).fit(DATA.X[:3000], DATA.y[:3000])
    model = OptFairPost(FrozenEstimator(half), tolerance=0.5, confidence=0.95, random_state=0)
    model.fit(DATA.X[3000:], DATA.y[3000:], sensitive_features=GROUPS[3000:])


def test_an_ensemble_answers_with_the_mixture_of_its_folds(tmp_path):
    model = fit(ensemble=True)
    assert model.promise_.kept and len(model.fold_models_) == 5
    parts = [model.rule_.predict_proba(model.calibration_(fold(DATA.X))) for fold in model.fold_models_]
    np.testing.assert_allclose(model.predict_proba(DATA.X), np.mean(parts, axis=0), atol=1e-12)
    np.testing.assert_allclose(
        model.joint_posterior(DATA.X), np.mean([model.calibration_(f(DATA.X)) for f in model.fold_models_], axis=0)
    )
    with pytest.raises(ValueError, match="ensemble: the rules of several models are not solved again"):
        model.with_people(DATA.X)
    pytest.importorskip("skops", reason="models are saved by skops")
    model.save(tmp_path / "model.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").predict(DATA.X), model.predict(DATA.X))


# -- where nothing can be promised -----------------------------------------------------------------------------
def test_the_refusal_names_the_gap_and_ways_that_work():
    with pytest.raises(PromiseError) as caught:
        fit(tolerance=0.01)
    text, error = str(caught.value), caught.value
    assert text.startswith("tolerance=0.01: cannot be promised with confidence 0.95 from these 6,000 people; ")
    for part in (
        "from these 6,000 people; the tightest: dp: group",
        " people there instead of ",
        "A promise was found at 0.0",
        "the search is not exhaustive: a larger tolerance may be refused, and a smaller one promised.",
        "was chosen on these people: confirm it on others (model.promise).",
        "of decisions from a constant (accuracy 0.",
        "; without a promise 0.",
        "ensemble=True, which may promise less",
        "a tolerance for each group, tolerance={'A': ",
        "unpromised='loosen'",
    ):
        assert part in text
    assert (
        error.smallest > 1 and not error.promise.kept and "it cannot be said with confidence 95%" in str(error.promise)
    )
    assert fit(tolerance=error.tolerances).promise_.kept  # ready to paste
    smallest = float(re.search(r"was found at (0\.\d+)", text).group(1))
    assert fit(tolerance=smallest).promise_.kept and fit(tolerance=1.0001 * 0.01 * error.smallest).promise_.kept
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
    assert loose.constraints_[0].tolerance == loose.certificate_.tolerance == loose.promise_.tolerance
    assert f"dp within {loose.promise_.tolerance}" in loose.report().title
    assert loose.promise_.tolerance == pytest.approx(0.01 * loose.promise_.loosened)
    assert mixed.certificate_.accuracy < loose.certificate_.accuracy


def test_accuracy_is_mixed_with_the_uniform_rule():
    model = fit(criterion="oae", tolerance=0.005, unpromised="mix")
    np.testing.assert_allclose(model.rule_.constant, 1 / 3)


def test_costs_choose_the_constant():
    """A constant that is right more often may cost more."""
    data = make_fair_classification(3000, n_classes=2, random_state=0)
    model = fit(data, costs=[[0, 1], [8, 0]], tolerance=0.004, unpromised="mix")
    assert model.rule_.constant.argmax() == 1


def test_words_say_of_whom_and_of_what():
    partly = fit(tolerance={"A": 0.1}).promise_
    assert partly.statement == "every gap of 'A' is within 0.1"
    several = fit(criterion=[Constraint("dp", 0.1), MinimumRate("recall", 0.2)], tolerance=None).promise_
    assert several.statement == "every gap is within 0.1 and every recall is at least 0.2"
    ratio = fit(criterion=Ratio("dp", 0.5), tolerance=None).promise_
    assert ratio.statement == "every rate is at least 0.5 times that of any other group" and np.isnan(ratio.bound)
    table = several.table
    assert ((table["low"] >= table["lower"]) & (table["high"] <= table["upper"])).all()  # what is promised


def test_a_promise_is_about_one_way_to_decide():
    model = fit()
    assert model.set_params(decision="sampled").promise_ is not None
    assert model.set_params(decision="argmax").promise_ is None and "Promise:" not in str(model.report())
    with pytest.raises(ValueError, match=r"confidence=2: must be a number in \[0.5, 1\)"):
        model.set_params(confidence=2).with_tolerance(0.2)


def test_ways_that_do_not_exist_are_said_to():
    with pytest.raises(PromiseError, match=r"^(?!.*ensemble=True).*A promise was found with all tolerances times"):
        fit(criterion=[Constraint("dp", 0.002), Constraint("oae", 0.001)], tolerance=None, ensemble=True)
    with pytest.raises(PromiseError, match="Only tolerances of gaps above 0 can be loosened"):
        fit(criterion=Ratio("dp", 0.97), tolerance=None, unpromised="loosen")


def test_few_people_are_warned_about():
    groups = np.asarray(GROUPS, dtype=object).copy()
    groups[:60] = "few"
    model = OptFairPost(LogisticRegression(), tolerance=0.4, confidence=0.95, random_state=0)
    with pytest.warns(
        OptFairWarning, match="the promise for few rests on 60 people; below 100.*treat it as an indication"
    ):
        model.fit(DATA.X, DATA.y, sensitive_features=groups)
    cluster = np.arange(6000)
    cluster[:60] = np.arange(60) // 20  # three people
    with pytest.raises(PromiseError, match="which rests on 3 of 5,943 people"):
        model.fit(DATA.X, DATA.y, sensitive_features=groups, cluster=cluster)


def test_promises_name_groups_as_reports_do():
    """A group of one attribute is "origin: B", in promises, refusals and warnings; its true class is named."""
    rng = np.random.default_rng(0)
    groups = pd.DataFrame({"sex": rng.choice(["f", "m"], 6000), "origin": np.asarray(GROUPS, dtype=object)})
    constraint = Constraint("eop", 0.3, attributes="marginals")
    model = OptFairPost(LogisticRegression(), criterion=constraint, confidence=0.95, random_state=0)
    model.fit(DATA.X, DATA.y, sensitive_features=groups)
    assert re.search(r"the tightest: eop: group '(sex|origin): \w+' against overall, given", str(model.promise_))
    assert "beside the same tolerance without a promise" in str(model.promise_)
    with pytest.raises(PromiseError, match=r"the tightest: eop: group '(sex|origin): \w+' against overall, given"):
        model.with_tolerance(0.002)
    others = model.promise(DATA.X, DATA.y, sensitive_features=groups)
    assert re.search(r"the tightest: eop: group '(sex|origin): \w+'", str(others)) and "*" not in str(others)
    groups.loc[:199, "origin"] = "few"
    with pytest.warns(OptFairWarning, match=r"the promise for origin: few with true class \d rests on \d\d people;"):
        model.fit(DATA.X, DATA.y, sensitive_features=groups)


def test_words_of_a_small_share_and_of_places():
    assert [_share_text(share) for share in (0.0003, 0.9)] == ["less than 1%", "90%"]
    names = ["criterion", "group", "against", "given", "outcome"]
    rows = [("mine", None, None, None, None), ("eo", ("*", "B"), ("*", "C"), "low", "low")]
    table = pd.DataFrame(rows, columns=names, dtype=object)
    assert place_text(table, 0) == "mine"
    assert place_text(table, 1, ["sex", "origin"]) == "origin: B against origin: C with true class 'low'"


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
        ({"ensemble": "always", "confidence": None}, "ensemble='always': must be True, False or 'auto'"),
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
    for y, decision in ((test.y, "hashed"), (None, "hashed"), (test.y, "argmax"), (None, "sampled")):
        model.set_params(decision=decision)
        promise = model.promise(test.X, y, sensitive_features=test.sensitive_features)
        answers = model.predict_proba(test.X) if decision == "sampled" else model.predict(test.X)
        bound = violation_bound(y, answers, sensitive_features=test.sensitive_features, classes=model.classes_)
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
