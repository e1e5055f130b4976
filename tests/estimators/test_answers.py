"""Check what is said of the classes that rules answer with, and of those that vanish: true, and with a way out."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import recall_score

from optfair import Constraint, MinimumRate, OptFairPost, Ratio, Rows
from optfair.errors import OptFairWarning
from optfair.metrics.counts import count_codes
from optfair.reporting.answers import class_answers, constraint_code, lost_classes
from tests.estimators.helpers import SEX, SEX_NEW, X_NEW, Y_NEW, X, Y, make_post
from tests.problems import softmax

N = 4000


def make_rare(seed):
    """Return (x, labels, groups) of people whose class "ill" is seldom the likeliest one."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, N)
    x = rng.standard_normal((N, 2)) + np.c_[0.5 * sex, np.zeros(N)]
    P = true_classes(x)
    return x, np.array(["fine", "ill", "poor"])[(P.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1)], sex


def true_classes(x):
    """Return P(Y | X), with columns fine, ill, poor."""
    return softmax(np.c_[1.5 * x[:, 0], -1.2 + 0.3 * x[:, 1], -1.5 * x[:, 0]])


def careful(x):
    """Return the probabilities of a model that overrates the class "ill", as one with class weights does."""
    P = true_classes(x) * [1, 3.2, 1]
    return P / P.sum(axis=1, keepdims=True)


RARE, RARE_NEW = make_rare(0), make_rare(1)


def fit_rare(people=RARE, **options):
    """Return (an OptFairPost on top of `careful`, the messages of its warnings)."""
    x, y, sex = people
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = OptFairPost(careful, **{"criterion": "dp", "tolerance": 0.05, "random_state": 0} | options)
        model.fit(x, y, sensitive_features=sex)
    return model, [str(item.message) for item in caught if item.category is OptFairWarning]


@pytest.fixture(scope="module")
def recalibrated():
    """Return (a model that recalibration changes, the messages of its warnings)."""
    return fit_rare(calibration="posterior")


# -- tables --------------------------------------------------------------------------------------------------
def test_shares_and_recalls_are_those_of_the_predictions():
    rng = np.random.default_rng(0)
    a, y, prediction = (rng.integers(0, k, 300) for k in (2, 3, 3))
    counts = count_codes(a, y, prediction, None, pd.Index(["f", "m"]), pd.Index(list("abc")))
    table = class_answers({"rule": counts, "other": counts})
    assert table["rule"].tolist() == ["rule"] * 3 + ["other"] * 3 and table["class"].tolist() == list("abcabc")
    np.testing.assert_allclose(table["share"][:3], np.bincount(prediction) / 300)
    np.testing.assert_allclose(table["people"][:3], np.bincount(y) / 300)
    np.testing.assert_allclose(table["recall"][:3], recall_score(y, prediction, average=None))


def test_a_class_that_nobody_has_has_no_recall():
    zero = np.zeros(10, dtype=int)
    table = class_answers({"rule": count_codes(zero, zero, zero, None, pd.Index(["f"]), pd.Index(["a", "b"]))})
    assert table["recall"][0] == 1 and np.isnan(table["recall"][1])


def test_the_report_tells_recalibration_and_constraints_apart(recalibrated):
    model = recalibrated[0]
    x, y, sex = RARE_NEW
    report = model.report(x, y, sensitive_features=sex)
    answers = report.answers.set_index(["rule", "class"])["share"]
    Z = model.joint_posterior(x)
    for name, prediction in (("plain model", careful(x)), ("recalibrated", Z.sum(axis=1))):
        expected = np.bincount(prediction.argmax(axis=1), minlength=3) / N
        np.testing.assert_allclose(answers[name], expected)
    np.testing.assert_allclose(answers["fair rule"], model.predict_proba(x).mean(axis=0))
    assert "recalibrated" in str(report) and "Answers: share of everybody" in str(report)
    fitted_on = model.report()
    assert fitted_on.answers["rule"].unique().tolist() == ["plain model", "recalibrated", "fair rule"]
    # Fairness costs accuracy and recalibration gains some: only side by side can they be told apart.
    plain, free, fair = (metrics.accuracy for metrics in fitted_on.measured)
    assert plain < free > fair


# -- classes that vanish -------------------------------------------------------------------------------------
def test_a_class_that_recalibration_takes_away_is_named_with_its_shares(recalibrated):
    model, messages = recalibrated
    (message,) = messages
    x = RARE[0]
    before = np.mean(careful(x).argmax(axis=1) == 1)
    after = model.predict_proba(x)[:, 1].mean()
    assert before > 0.02 and after < before / 10
    minimum = np.floor(1000 * before) / 1000
    assert message == (
        "criterion: the rule gives hardly anybody a class that the model gives: "
        f"'ill' to {after:.2%} of people instead of {before:.2%} (recalibration did it); "
        "with_criterion([Constraint('dp', tolerance=0.05), "
        f"MinimumRate('selection', {minimum}, by='overall', outcomes=['ill'])]) keeps as many answers, "
        "calibration='groups' the model's own probabilities of the classes."
    )


def test_following_the_advice_brings_the_class_back(recalibrated):
    model, (message,) = recalibrated
    call = re.search(r"with_criterion\(.*\)\]\)", message)[0]
    repaired = eval(f"model.{call}", {"model": model, "Constraint": Constraint, "MinimumRate": MinimumRate})
    x, _, _ = RARE
    assert repaired.certificate_.excess == 0 and repaired.certificate_.violation <= 0.05 + 1e-9
    assert repaired.predict_proba(x)[:, 1].mean() >= 0.99 * np.mean(careful(x).argmax(axis=1) == 1) - 0.001
    kept, messages = fit_rare(calibration="groups")
    assert messages == [] and kept.predict_proba(x)[:, 1].mean() > np.mean(careful(x).argmax(axis=1) == 1) / 2


def test_without_posteriors_the_advice_is_what_to_fit_with(recalibrated):
    _, (message,) = fit_rare(calibration="posterior", keep_posteriors=False)
    assert message == recalibrated[1][0].replace("with_criterion(", "criterion=").replace("['ill'])])", "['ill'])]")
    code = re.search(r"criterion=(\[.*\)\])", message)[1]
    criterion = eval(code, {"Constraint": Constraint, "MinimumRate": MinimumRate})
    _, messages = fit_rare(calibration="posterior", criterion=criterion, tolerance=None)
    assert messages == []


def test_a_class_that_the_constraints_take_away():
    """A row of the user allows the class to one person in a thousand."""
    D = np.zeros((1, 2, 3, 3))
    D[..., 1] = 1.0  # P(Ŷ = "b"): the sum over groups and true classes
    forbidden = Rows(D, upper=0.001)
    message = r"'b' to .*% of people instead of .*% \(the constraints did it\); with_criterion\(\[Rows\(...\), Min"
    with pytest.warns(OptFairWarning, match=message) as one:
        model = make_post(criterion=[forbidden], tolerance=None).fit(X, Y, sensitive_features=SEX)
    assert len(one) == 1 and "calibration" not in str(one[0].message)
    model.with_criterion([forbidden, Constraint("dp", 0.2)])  # what was said is not said again
    free = model.with_criterion("dp", 0.5)
    with pytest.warns(OptFairWarning, match=r"\(the constraints did it\)"):
        free.with_criterion([forbidden])


def test_nothing_is_said_where_nothing_vanishes_or_costs_say_what_matters():
    make_post().fit(X, Y, sensitive_features=SEX).with_tolerance(0.02)  # a warning would be an error here
    _, messages = fit_rare()
    assert messages == []
    _, messages = fit_rare(calibration="posterior", costs=1 - np.eye(3))
    assert messages == []


def counted(n, given, people):
    """Return the counts of n people of whom ``people`` have class 1 and ``given`` are given it."""
    index = np.arange(n)
    zero = np.zeros(n, dtype=int)
    y, prediction = (index < people).astype(int), (index < given).astype(int)
    return count_codes(zero, y, prediction, None, pd.Index(["f"]), pd.Index(["no", "yes"]))


@pytest.mark.parametrize(
    ("n", "given", "people", "kept", "vanishes"),
    [
        (1000, 20, 100, 1.9e-3, True),
        (1000, 20, 100, 2.1e-3, False),  # a tenth is kept
        (1000, 19, 100, 0.0, False),  # too few to tell
        (10_000, 99, 1000, 0.0, False),  # below one in a hundred
        (1000, 100, 19, 0.0, False),  # hardly anybody has it
    ],
)
def test_when_a_class_has_vanished(n, given, people, kept, vanishes):
    plain = counted(n, given, people)
    lost = lost_classes(plain, plain, np.array([1 - kept, kept]))
    assert [one.name for one in lost] == ["yes"] * vanishes
    assert not any(one.by_recalibration for one in lost)


@pytest.mark.parametrize(
    "constraint",
    [
        Constraint("dp", 0.05),
        Constraint("eo"),
        Constraint("eop", {"f": 0.1}, outcomes=["a"]),
        Ratio("dp", outcomes=["a"]),
        MinimumRate("recall", 0.1, by="overall", outcomes=[3]),
    ],
)
def test_constraints_are_written_as_code(constraint):
    names = {"Constraint": Constraint, "Ratio": Ratio, "MinimumRate": MinimumRate}
    code = constraint_code(constraint)
    assert eval(code, names) == constraint and "None" not in code


def test_rows_of_the_user_are_not_written_out():
    assert constraint_code(Rows(np.ones((1, 2, 3, 3)), upper=1)) == "Rows(...)"


def test_new_people_are_given_the_class_as_often(recalibrated):
    """Check on people not fitted on that the warning was right, and that a closed model keeps the class."""
    x = RARE_NEW[0]
    before = np.mean(careful(x).argmax(axis=1) == 1)
    assert recalibrated[0].predict_proba(x)[:, 1].mean() < before / 8
    assert fit_rare()[0].with_tolerance(1.0).predict_proba(x)[:, 1].mean() == pytest.approx(before)


def test_plain_is_the_model_itself_where_the_rule_is_aware(aware_post):
    factored = make_post(awareness="aware", posterior="factored").fit(X, Y, sensitive_features=SEX)
    plain = factored.report(X_NEW, Y_NEW, sensitive_features=SEX_NEW).measured[0]
    own = factored.posterior_model_.classes(X_NEW).argmax(axis=1)
    assert plain.name == "plain model"
    assert plain.accuracy == pytest.approx(np.mean(factored.classes_[own] == Y_NEW))
    assert aware_post.report(X_NEW, Y_NEW, sensitive_features=SEX_NEW).measured[0].name == "unconstrained, joint"
