"""Check bounds of single gaps and of the largest: exact special cases, and how often they fail."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from optfair import Constraint, MinimumRate, Ratio, Rows
from optfair.constraints import compile_rows
from optfair.metrics import group_confusion, violation_bound, violation_interval
from optfair.metrics.bounds import rate_interval, row_limits
from optfair.metrics.influence import as_rates
from optfair.metrics.strata import split_strata

CRITERIA = ["dp", "eop", "eo", "meo", "oae"]


def people(n=3000, seed=0, shares=(0.55, 0.3, 0.15), m=3):
    rng = np.random.default_rng(seed)
    group = rng.choice(len(shares), n, p=shares)
    y, prediction = rng.integers(0, m, n), rng.integers(0, m, n)
    return y, np.where(rng.random(n) < 0.4, y, prediction), group


def compiled(counts, constraints):
    return compile_rows(constraints, counts.groups, counts.classes, counts.prior)


EVERY_KIND = [
    *(Constraint(c, 0.05, reference=r) for c in CRITERIA for r in ("overall", "pairwise")),
    Ratio("dp"),
    Ratio("dp", reference="overall"),
    Ratio("eo", 0.5),
    MinimumRate("recall", 0.2),
    MinimumRate("accuracy", 0.2),
    MinimumRate("selection", 0.1, by="overall"),
    Rows(np.random.default_rng(0).normal(size=(2, 3, 3, 3)), lower=-5.0),
]


# -- strata ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("constraint", EVERY_KIND, ids=repr)
def test_strata_of_a_row_are_other_people_and_give_its_value(constraint):
    y, prediction, group = people()
    counts = group_confusion(y, prediction, sensitive_features=group)
    rows = as_rates(compiled(counts, [constraint]))
    strata = split_strata(rows, counts.prior)
    rates = (strata.hits @ counts.tensor.ravel()) / (strata.conditions @ counts.prior.ravel())
    np.testing.assert_allclose(strata.combination @ rates, rows.values(counts.tensor), atol=1e-12)
    used = abs(strata.combination).sign() @ strata.conditions
    assert used.max() <= 1 + 1e-12  # no cell twice in one row


def test_strata_of_marginal_groups():
    y, prediction, group = people(shares=(0.3, 0.3, 0.2, 0.2))
    features = pd.DataFrame({"sex": group % 2, "age": group // 2})
    counts = group_confusion(y, prediction, sensitive_features=features)
    rows = compiled(counts, [Constraint("eo", 0.05, attributes="both")])
    strata = split_strata(rows, counts.prior)
    rates = (strata.hits @ counts.tensor.ravel()) / (strata.conditions @ counts.prior.ravel())
    np.testing.assert_allclose(strata.combination @ rates, rows.values(counts.tensor), atol=1e-12)


# -- limits ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("hits", "n"), [(0, 7), (7, 7), (3, 40), (39, 40)])
def test_limits_of_a_rate_are_those_of_clopper_and_pearson(hits, n):
    low, high = rate_interval(np.array([hits / n]), np.array([float(n)]), 0.05)
    for side, limit in (("greater", low), ("less", high)):
        exact = stats.binomtest(hits, n, alternative=side).proportion_ci(0.95, method="exact")
        assert limit[0] == pytest.approx(exact.low if side == "greater" else exact.high, abs=1e-12)


def test_a_minimum_rate_has_the_limits_of_a_rate():
    y, prediction, group = people()
    counts = group_confusion(y, prediction, sensitive_features=group)
    rows = compiled(counts, [MinimumRate("selection", 0.1)])
    low, high = row_limits(counts, rows, 0.9)
    for k, (a, j) in enumerate(zip(rows.table["group"], rows.table["outcome"], strict=True)):
        hits, n = int(((group == a) & (prediction == j)).sum()), int((group == a).sum())
        exact = [stats.binomtest(hits, n, alternative=s).proportion_ci(0.9) for s in ("greater", "less")]
        assert (low[k], high[k]) == pytest.approx((exact[0].low, exact[1].high))


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("reference", ["overall", "pairwise"])
def test_the_bound_is_above_the_violation_and_below_the_simultaneous_one(criterion, reference):
    y, prediction, group = people()
    question = {"sensitive_features": group, "criterion": criterion, "reference": reference}
    bound, interval = violation_bound(y, prediction, **question), violation_interval(y, prediction, **question)
    assert interval.value == bound.value <= bound.bound == interval.bound < interval.upper
    higher = violation_bound(y, prediction, level=0.99, **question)
    assert (higher.table["high"] >= bound.table["high"]).all() and higher.bound > bound.bound
    assert f"{bound.bound:.4f}" in str(bound) and "95%" in str(bound)


def test_rows_that_are_certain_have_no_width():
    y, prediction, group = people()
    counts = group_confusion(y, np.zeros_like(prediction), sensitive_features=group, classes=[0, 1, 2])
    low, high = row_limits(counts, compiled(counts, [Constraint("dp", 0.1)]), 0.95)
    assert (low >= -1).all() and (high <= 1).all() and (high > 0).all()  # no hit among n people is not certainty
    sure = Rows(np.ones((1, 3, 3, 3)), upper=1.0)  # the sum of all shares
    assert row_limits(counts, compiled(counts, [sure]), 0.95) == (pytest.approx(1), pytest.approx(1))


def test_equal_weights_are_no_weights_and_others_widen():
    y, prediction, group = people()
    question = {"sensitive_features": group, "criterion": "eo"}
    plain = violation_bound(y, prediction, **question)
    assert violation_bound(y, prediction, sample_weight=np.full(len(y), 3.0), **question).bound == plain.bound
    weight = np.random.default_rng(1).lognormal(size=len(y))
    assert violation_bound(y, prediction, sample_weight=weight, **question).table["n"].equals(plain.table["n"])
    width = [violation_bound(y, prediction, sample_weight=w, **question).table for w in (None, weight)]
    assert ((width[1]["high"] - width[1]["value"]) > (width[0]["high"] - width[0]["value"])).mean() > 0.9


# -- people with several rows ------------------------------------------------------------------------------
@pytest.mark.parametrize("soft", [False, True])
def test_a_person_written_twice_is_one_person(soft):
    y, prediction, group = people(900)
    h = np.eye(3)[prediction] * 0.6 + 0.4 / 3 if soft else prediction
    once = group_confusion(y, h, sensitive_features=group, classes=[0, 1, 2])
    twice = group_confusion(
        *(np.repeat(x, 2, axis=0) for x in (y, h)), sensitive_features=np.repeat(group, 2), classes=[0, 1, 2],
        cluster=np.repeat(np.arange(len(y)), 2),
    )  # fmt: skip
    np.testing.assert_allclose(twice.second_moment, once.second_moment)
    conditions = np.eye(9)
    np.testing.assert_allclose(twice.effective_people(conditions), once.effective_people(conditions))
    assert not twice.equal_weights and not twice.hard
    single = group_confusion(y, h, sensitive_features=group, classes=[0, 1, 2], cluster=np.arange(len(y)))
    assert single.equal_weights and np.array_equal(single.second_moment, once.second_moment)


def test_variances_of_clusters_are_no_smaller_than_the_true_ones():
    rng = np.random.default_rng(0)
    cluster, group = np.repeat(np.arange(300), 4), np.repeat(rng.integers(0, 2, 300), 4)
    y = rng.integers(0, 2, 1200)
    counts = group_confusion(y, y, sensitive_features=group, cluster=cluster)
    effect = rng.normal(size=(2, 2, 2))  # of a row of group a and true class i with prediction j
    rows = effect[group, y, y]
    true = np.square(np.bincount(cluster, rows)).sum() / 1200**2
    assert (effect**2 * counts.second_moment).sum() >= true


# -- no labels ---------------------------------------------------------------------------------------------
def test_parity_needs_no_labels():
    y, prediction, group = people()
    question = {"sensitive_features": group}
    without, with_labels = (violation_bound(labels, prediction, **question) for labels in (None, y))
    assert without.bound == pytest.approx(with_labels.bound, abs=1e-12)
    rates = group_confusion(None, prediction, sensitive_features=group).group_rates()
    assert set(rates["rate"]) == {"selection"}
    h = np.eye(3)[prediction]
    assert violation_bound(None, h, classes=[0, 1, 2], **question).bound == pytest.approx(without.bound, abs=1e-12)


@pytest.mark.parametrize("criterion", ["eop", "eo", "meo", "oae"])
def test_other_criteria_need_labels(criterion):
    _, prediction, group = people()
    with pytest.raises(ValueError, match=f"y_true=None: '{criterion}' speaks of true classes"):
        violation_bound(None, prediction, sensitive_features=group, criterion=criterion)


def test_probabilities_without_labels_need_names():
    _, prediction, group = people()
    with pytest.raises(ValueError, match=r"classes: missing; without y_true, name the classes"):
        violation_bound(None, np.eye(3)[prediction], sensitive_features=group)


def test_a_level_must_be_a_probability():
    y, prediction, group = people()
    with pytest.raises(ValueError, match=r"level=95: must be a number in \(0, 1\), e.g. 0.95"):
        violation_bound(y, prediction, sensitive_features=group, level=95)


# -- how often they fail -----------------------------------------------------------------------------------
def misses(n_group, n_rest, rate, gap, runs=4000, seed=0):
    """Return how often the upper limit of a dp gap of a group is below the truth, with sizes of groups random."""
    rng = np.random.default_rng(seed)
    share = n_group / (n_group + n_rest)
    top = rate + gap / (1 - share)  # the rate of the group, so that its gap to everybody is `gap`
    n = rng.binomial(n_group + n_rest, share, runs)
    hits, rest = rng.binomial(n, top), rng.binomial(n_group + n_rest - n, rate)
    failed = 0
    for size, a, b in zip(n, hits, rest, strict=True):
        counts = np.array([[size - a, a], [n_group + n_rest - size - b, b]])
        group, prediction = np.repeat([0, 0, 1, 1], counts.ravel()), np.repeat([0, 1, 0, 1], counts.ravel())
        confusion = group_confusion(None, prediction, sensitive_features=group, classes=[0, 1])
        rows = compiled(confusion, [Constraint("dp", 0.5, outcomes=[1])])
        failed += row_limits(confusion, rows, 0.95)[1][0] < gap
    return failed / runs


@pytest.mark.parametrize(("n_group", "rate", "gap"), [(30, 0.05, 0.1), (60, 0.3, 0.05), (200, 0.02, 0.02)])
def test_a_limit_is_missed_by_few_samples(n_group, rate, gap):
    assert misses(n_group, 1500, rate, gap, runs=600) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 600)


def test_no_pass_where_the_simultaneous_interval_fails():
    for seed in range(40):
        y, prediction, group = people(400, seed)
        for criterion in CRITERIA:
            interval = violation_interval(y, prediction, sensitive_features=group, criterion=criterion)
            assert interval.lower <= interval.value <= interval.bound  # PASS needs bound ≤ tolerance < lower
