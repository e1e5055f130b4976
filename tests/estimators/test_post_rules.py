"""Check other rules from the same posteriors: `with_tolerance`, `with_criterion` and `frontier`."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

from optfair import Constraint, MinimumRate, OptFairPost, OptFairWarning, frontier, metrics, solve
from tests.estimators.helpers import (
    NOT_AVAILABLE,
    SEX,
    SEX_NEW,
    X_NEW,
    Y_NEW,
    N,
    X,
    Y,
    assert_error,
    assert_same_predictions,
    make_post,
    out_of_fold_z,
)


@pytest.fixture(scope="module", params=["blind", "aware"])
def plug_in_post(request):
    """Return an OptFairPost whose bounds are as asked for, not moved by labels."""
    model = make_post(awareness=request.param, calibration="posterior")
    return model.fit(X, Y, sensitive_features=SEX)


# -- with_tolerance and with_criterion -----------------------------------------------------------------------
def test_another_tolerance_is_a_new_solve_on_the_same_posteriors(plug_in_post):
    model, before = plug_in_post, plug_in_post.certificate_
    for tolerance in (0.0, 0.01, 0.2, 1.0):
        other = model.with_tolerance(tolerance)
        cold = solve(out_of_fold_z(model), "dp", tolerance, groups=model.groups_, classes=model.classes_)
        c, f = other.certificate_, cold.certificate
        assert c.violation <= tolerance + 1e-6  # at 0 no rule but a constant is inside to the last digit
        assert c.violation <= tolerance + c.excess and other.n_base_fits_ == 0 and other.tolerance == tolerance
        assert c.accuracy <= f.upper_bound + 1e-9 and f.accuracy <= c.upper_bound + 1e-9
        assert abs(c.accuracy - f.accuracy) <= max(c.gap, f.gap) + 1e-9
        assert other.rule_.key == model.rule_.key and other.posterior_model_ is model.posterior_model_
    assert model.certificate_ is before and model.tolerance == 0.05


def test_rows_that_a_new_criterion_cannot_form_are_named():
    keep = ~((SEX == "m") & (Y == "a")).to_numpy()
    model = make_post().fit(X[keep], Y[keep], sensitive_features=SEX[keep])
    with pytest.warns(
        OptFairWarning, match=r"rates are left out, because nobody is in the group and class: .*group 'm'.*given 'a'"
    ):
        model.with_criterion("eo")


@pytest.mark.parametrize(
    ("criterion", "tolerance"),
    [("eo", None), ("oae", 0.02), (MinimumRate("recall", 0.4), None)],
    ids=["eo", "oae", "minimum recall"],
)
@pytest.mark.parametrize("plug_in_post", ["blind"], indirect=True)
def test_another_criterion_is_a_new_solve_on_the_same_posteriors(plug_in_post, criterion, tolerance):
    model = plug_in_post
    other = model.with_criterion(criterion, tolerance)
    if isinstance(criterion, str):
        tolerance = tolerance or 0.05  # that of the model
    cold = solve(out_of_fold_z(model), criterion, tolerance, groups=model.groups_, classes=model.classes_)
    c, f = other.certificate_, cold.certificate
    assert c.excess == 0 == f.excess
    assert abs(c.accuracy - f.accuracy) <= max(c.gap, f.gap) + 1e-9
    assert other.predict(X_NEW).shape == (N,)


def test_another_criterion_on_many_rows_does_not_start_from_another_matrix():
    """Check constraints in another order, fewer and more: the solution to start from has other rows of D."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((60_000, 3))
    group = (features[:, 0] + rng.standard_normal(60_000) > 0).astype(int) + (rng.random(60_000) < 0.2)
    label = (features[:, 1] + 0.5 * group + rng.standard_normal(60_000) > 0.5).astype(int) + (features[:, 2] > 1)
    both = [Constraint("dp", 0.02), Constraint("oae", 0.01)]
    model = OptFairPost(GaussianNB(), criterion=both, cv=2, calibration="posterior", random_state=0)
    model.fit(features, label, sensitive_features=group)
    for other in (both[::-1], both[:1], [*both, Constraint("eo", 0.1)]):
        again = model.with_criterion(other)
        assert again.certificate_.excess == 0 and again.certificate_.gap <= 2e-3


def test_the_tolerance_of_constraint_objects_is_replaced():
    model = make_post(criterion=[Constraint("dp", 0.3), MinimumRate("recall", 0.2)]).fit(X, Y, sensitive_features=SEX)
    other = model.with_tolerance(0.05)
    assert other.certificate_.violation <= 0.05 and other.certificate_.tolerance == (0.05, 0.2)
    assert clone(other).get_params()["criterion"][0].tolerance == 0.05


def test_constraint_objects_have_their_own_tolerance_or_none(blind_post):
    message = "tolerance: already set in the constraint objects; leave it out here."
    assert_error(message, blind_post.with_criterion, Constraint("eo", 0.3), 0.01)
    rates = blind_post.with_criterion(MinimumRate("recall", 0.1))
    assert_error("tolerance: none of the constraints has one; use with_criterion.", rates.with_tolerance, 0.1)


def test_rules_from_the_same_posteriors_share_the_key():
    """Check that a person who is undecided under two rules gets a class from the same number."""
    model = make_post(random_state=None).fit(X, Y, sensitive_features=SEX)
    others = [model.with_tolerance(0.1), model.with_criterion("oae")]
    rules = [other.rule_ for other in others] + list(model.frontier([0.1, 0.2]).rules)
    assert {rule.key for rule in rules} == {model.rule_.key}


def test_without_posteriors_there_is_no_other_rule(blind_post):
    model = make_post(keep_posteriors=False).fit(X, Y, sensitive_features=SEX)
    assert_same_predictions(model, blind_post)
    assert_error(NOT_AVAILABLE, model.with_tolerance, 0.1)
    assert_error(NOT_AVAILABLE, model.with_criterion, "eo")
    assert_error(NOT_AVAILABLE, model.frontier)
    text = str(model.report())
    assert "Certificate" in text and "With labels" not in text
    assert "fair rule" in str(model.report(X_NEW, Y_NEW, sensitive_features=SEX_NEW))


# -- frontier ------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def blind_frontier(blind_post):
    """Return five rules of a blind model, measured on new rows too."""
    return blind_post.frontier(5, test=(X_NEW, Y_NEW, SEX_NEW))


def test_accuracy_falls_with_the_tolerance(blind_post, blind_frontier):
    table = blind_frontier.table
    assert (np.diff(table["tolerance"]) < 0).all()
    assert (table["violation"] <= table["tolerance"] + 1e-9).all()
    assert (np.diff(table["upper_bound"]) <= 1e-3).all()  # what is possible can only shrink
    assert (np.diff(table["accuracy"]) <= table["gap"].to_numpy()[:-1] + 1e-9).all()
    names = {"groups": blind_post.groups_, "classes": blind_post.classes_}
    cold = frontier(out_of_fold_z(blind_post), "dp", table["tolerance"].tolist(), **names).table
    np.testing.assert_allclose(cold["accuracy"], table["accuracy"], atol=1e-3)


def test_every_rule_of_a_frontier_is_measured_on_the_test_data(blind_post, blind_frontier):
    label = np.searchsorted(blind_post.classes_, Y_NEW)
    for rule, line in zip(blind_frontier.rules, blind_frontier.table.itertuples(), strict=True):
        h = rule.predict_proba(blind_post.joint_posterior(X_NEW))
        assert line.test_accuracy == pytest.approx(h[np.arange(N), label].mean())
        assert line.test_violation == pytest.approx(metrics.violation(Y_NEW, h, sensitive_features=SEX_NEW))
        assert rule.key == blind_post.rule_.key


def test_test_data_of_a_frontier_have_groups(blind_post):
    parts = "X_test, y_test, groups_test"
    message = f"test: must be ({parts}), ({parts}, weights) or ({parts}, weights, clusters)."
    assert_error(message, blind_post.frontier, 3, test=(X_NEW, Y_NEW))


def test_an_aware_frontier_takes_the_groups_from_the_test_data(aware_post):
    table = aware_post.frontier([0.02, 0.1], test=(X_NEW, Y_NEW, SEX_NEW, np.ones(N))).table
    assert len(table) == 2 and (table["violation"] <= table["tolerance"] + 1e-9).all()
