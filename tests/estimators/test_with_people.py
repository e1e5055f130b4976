"""Rules for the people who come now: multipliers solved again on unlabelled people, with the same models."""

import numpy as np
import pytest

from optfair import Constraint, MinimumRate, OptFairPost, Ratio, solve
from optfair.metrics import violation

TOLERANCE = 0.03


def draw(n, seed, shift=0.0):
    """Return (X, y, group): P(A, Y | X) is logistic and stays; `shift` changes who comes, how features go together."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    X[:, 1] = shift * X[:, 0] + np.sqrt(1 - shift**2) * X[:, 1]
    group = (rng.random(n) < 1 / (1 + np.exp(-1.5 * X[:, 0]))).astype(int)
    y = (rng.random(n) < 1 / (1 + np.exp(-(1.5 * X[:, 1] + X[:, 0])))).astype(int)
    return X, y, group


@pytest.fixture(scope="module")
def model():
    X, y, group = draw(12_000, 0)
    return OptFairPost(criterion="dp", tolerance=TOLERANCE, random_state=0).fit(X, y, sensitive_features=group)


def parity_gap(model, X, y, group):
    return violation(y, model.predict_proba(X), sensitive_features=group)


def test_a_shift_of_who_comes_is_repaired_without_labels(model):
    """The recent people and those measured on are different ones, of the shifted population."""
    recent, people = draw(12_000, 1, shift=0.6)[0], draw(60_000, 2, shift=0.6)
    noise = 0.01  # of the models, as on the people of the population fitted on, and of the people measured on
    assert parity_gap(model, *draw(60_000, 3)) <= TOLERANCE + noise
    assert parity_gap(model, *people) > 2 * TOLERANCE
    repaired = model.with_people(recent)
    assert parity_gap(repaired, *people) <= TOLERANCE + noise
    assert parity_gap(repaired, *people) < parity_gap(model, *people) / 2
    assert repaired.certificate_.violation <= TOLERANCE + 1e-4 and repaired.certificate_.gap <= 1e-3


def test_it_is_the_rule_that_solve_gives(model):
    X = draw(3000, 4, shift=0.5)[0]
    rule = solve(model.joint_posterior(X), "dp", TOLERANCE, groups=model.groups_, classes=[0, 1], random_state=0)
    other = model.with_people(X)
    assert other.certificate_.value == pytest.approx(rule.certificate.value, abs=2e-4)
    assert other.rule_.key == model.rule_.key and other.posterior_model_ is model.posterior_model_
    assert model.with_people(X).predict(X).tolist() == other.predict(X).tolist()
    assert parity_gap(model, *draw(2000, 3)) == parity_gap(model, *draw(2000, 3))  # the first one is as it was


def test_an_aware_rule_takes_the_groups():
    X, y, group = draw(3000, 0)
    model = OptFairPost(criterion="dp", tolerance=0.05, awareness="aware", random_state=0)
    model.fit(X, y, sensitive_features=group)
    X, _, group = draw(3000, 1, shift=0.6)
    other = model.with_people(X, sensitive_features=group)
    assert other.certificate_.violation <= 0.05 + 1e-4
    with pytest.raises(ValueError, match="sensitive_features: missing"):
        model.with_people(X)


@pytest.mark.parametrize(
    ("criterion", "name"),
    [("eo", "eo"), (["dp", "oae"], "oae"), (MinimumRate("recall", 0.1), "recall"), ({"dp": 0.1, "eop": 0.1}, "eop")],
)
def test_criteria_that_need_labels_are_refused(model, criterion, name):
    with pytest.raises(ValueError, match=rf"^criterion: '{name}' speaks of true classes, whose shares .*; fit again"):
        model.with_criterion(criterion).with_people(draw(500, 1)[0])


def test_ratios_and_rates_of_selection_are_taken(model):
    X = draw(3000, 1)[0]
    constraints = [Constraint("dp", 0.1), Ratio("dp", 0.6), MinimumRate("selection", 0.1)]
    assert model.with_criterion(constraints).with_people(X).certificate_.excess <= 1e-4


def test_what_needs_labelled_posteriors_says_so(model):
    other = model.with_people(draw(1000, 1)[0])
    with pytest.raises(ValueError, match=r"posteriors are not available .*with_people.*; fit again"):
        other.with_tolerance(0.1)
    assert "dp within" in other.report().title
