"""Check that a report says what was asked for, reached and paid; its numbers are those of other routes."""

import numpy as np
import pandas as pd
import pytest

import optfair
from optfair.constraints import Constraint, MinimumRate, Ratio, Rows
from optfair.errors import OptFairWarning
from optfair.estimators.report import make_report, normalise_rows, prices, small_cells
from optfair.metrics.counts import count_codes
from tests.problems import blind, confusion, costs, gaps, linear_program, linear_rows

A, M, N = 3, 3, 600
GROUPS, CLASSES = ["a", "b", "c"], ["low", "mid", "high"]
FITTING = {"seconds": {"models": 1.0, "calibration": 0.25, "solve": 0.5}, "n_base_fits": 6}


def labelled(seed=0, n=N):
    """Return posteriors Z, and the group and the class of each row, drawn from Z."""
    rng = np.random.default_rng(seed)
    Z = blind(seed, n, A, M)
    cell = (Z.reshape(n, -1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return Z, cell // M, cell % M


def count(rule, group, y, predictions, weight=None):
    """Return the counts of each of the named predictions, as a report takes them."""
    return {name: count_codes(group, y, h, weight, rule.groups, rule.classes) for name, h in predictions.items()}


def reported(constraints, weight=None, facts=None, **options):
    """Return (report of the rule for these constraints, Z, group, y, rule)."""
    Z, group, y = labelled()
    names = {"groups": GROUPS, "classes": CLASSES}
    rule = optfair.solve(Z, constraints, random_state=0, sample_weight=weight, **names, **options)
    predictions = {"plain model": Z.sum(axis=1).argmax(axis=1), "fair rule": normalise_rows(rule.predict_proba(Z))}
    counts = count(rule, group, y, predictions, weight)
    facts = FITTING | {"n_people": N} if facts is None else facts
    return make_report("title", rule, constraints, counts, **facts), Z, group, y, rule


def counts_of(n_people):
    """Return the counts of these numbers of rows per group and class, (A, m), all predicted as class 0."""
    n_people = np.asarray(n_people)
    group, y = (np.repeat(code.ravel(), n_people.ravel()) for code in np.indices(n_people.shape))
    names = (pd.RangeIndex(size) for size in n_people.shape)
    return count_codes(group, y, np.zeros(len(y), dtype=int), None, *names)


def tuples(frame):
    """Return the rows of a frame as tuples."""
    return list(frame.itertuples(index=False, name=None))


# -- prices --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_prices_bound_what_more_tolerance_can_gain(criterion):
    """Check Σ prices = ‖λ‖₁, and that no rule within ξ + t is better than the certified bound + t‖λ‖₁, by LP."""
    xi = 0.02
    Z, _, _ = labelled(1, 150)
    rule = optfair.solve(Z, criterion, xi)
    total = prices(rule)["price"].sum()
    np.testing.assert_allclose(total, rule.multipliers["multiplier"].abs().sum())
    assert total > 0.01
    D = linear_rows(lambda J, P: gaps(criterion, J, P).values(), Z.mean(axis=0))
    best = {t: linear_program(Z, D, -xi - t, xi + t).value for t in (0.0, 0.01, 0.05)}
    for t, value in best.items():
        assert value <= rule.certificate.upper_bound + t * total + 1e-9
    assert 0 < best[0.01] - best[0.0] <= 0.01 * total + rule.certificate.gap


def test_prices_are_sums_over_the_rows_of_a_group():
    report, *_, rule = reported([Constraint("eo", 0.02)])
    table = rule.multipliers
    assert report.prices["group"].tolist() == GROUPS
    for line in report.prices.itertuples():
        rows = table[table["group"] == line.group]
        np.testing.assert_allclose(line.price, rows["multiplier"].abs().sum())
        np.testing.assert_allclose(line.price, rows["price"])


def test_every_kind_of_constraint_has_its_price():
    own = Rows(np.random.default_rng(2).normal(size=(2, A, M, M)), upper=5.0, names=["mine", "yours"])
    constraints = [Constraint("dp", 0.02), Ratio("dp", 0.8), MinimumRate("recall", 0.1), own]
    report, *_, rule = reported(constraints)
    assert set(report.prices["criterion"]) == {"dp", "dp ratio", "minimum recall", "mine", "yours"}
    np.testing.assert_allclose(report.prices["price"].sum(), rule.multipliers["multiplier"].abs().sum())


def test_groups_of_several_attributes_have_prices_each():
    names = pd.MultiIndex.from_product([["F", "M"], ["old", "young"]], names=["sex", "age"])
    rule = optfair.solve(blind(3, 300, 4, 2), Constraint("dp", 0.01, attributes="both"), groups=names)
    np.testing.assert_allclose(prices(rule)["price"].sum(), rule.multipliers["multiplier"].abs().sum())


# -- measured with labels ------------------------------------------------------------------------------------
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("criterion", ["dp", "eo", "oae"])
def test_measured_values_are_those_of_the_definition(criterion, weighted):
    weight = np.random.default_rng(4).uniform(0.5, 2, N) if weighted else None
    report, Z, group, y, rule = reported([Constraint(criterion, 0.05)], weight=weight)
    onehot = np.eye(A * M)[group * M + y].reshape(N, A, M)
    rules = np.eye(M)[Z.sum(axis=1).argmax(axis=1)], rule.predict_proba(Z)
    for metrics, h in zip(report.measured, rules, strict=True):
        J = confusion(onehot, h, weight)
        values = gaps(criterion, J, J.sum(axis=2))
        assert metrics.accuracy == pytest.approx(np.average(h[np.arange(N), y], weights=weight))
        assert metrics.interval.value == pytest.approx(max(map(abs, values.values())))
        assert metrics.interval.lower <= metrics.interval.value <= metrics.interval.upper
    # The table is of the last rule, the fair one.
    np.testing.assert_allclose(report.constraints["value"], list(values.values()), atol=1e-12)
    assert (report.constraints["upper"] == 0.05).all() and (report.constraints["lower"] == -0.05).all()


def test_without_gaps_there_is_no_violation_to_measure():
    report, *_ = reported([MinimumRate("recall", 0.2)])
    assert [metrics.interval for metrics in report.measured] == [None, None]
    assert (report.constraints["lower"] == 0.2).all()
    assert "at least 0.2" in str(report)


def test_cells_without_rows_are_one_warning():
    Z, group, y = labelled(5)
    constraints = [Constraint("eo", 0.05)]
    rule = optfair.solve(Z, constraints, groups=GROUPS, classes=CLASSES)
    present = (group != 2) | (y != 1)
    h = normalise_rows(rule.predict_proba(Z[present]))
    counts = count(rule, group[present], y[present], {"plain model": h, "fair rule": h})
    with pytest.warns(OptFairWarning, match="group 'c' against overall, given 'mid'") as caught:
        report = make_report("title", rule, constraints, counts)
    assert len(caught) == 1
    table = report.constraints
    assert not ((table["group"] == "c") & (table["given"] == "mid")).any()
    assert ("c", "mid", 0) in tuples(report.small)


def test_one_group_is_compared_with_itself():
    rng = np.random.default_rng(6)
    Z, y = rng.dirichlet(np.ones(M), (200, 1)), rng.integers(0, M, 200)
    constraints = [Constraint("eo", 0.05)]
    rule = optfair.solve(Z, constraints)
    counts = count(rule, np.zeros(200, int), y, {"fair rule": normalise_rows(rule.predict_proba(Z))})
    report = make_report("title", rule, constraints, counts, **FITTING)
    np.testing.assert_allclose(report.constraints["value"], 0, atol=1e-12)
    assert report.measured[0].interval.value == pytest.approx(0)
    assert "no constraint binds" in str(report)


# -- small cells ---------------------------------------------------------------------------------------------
def test_a_cell_is_small_where_chance_exceeds_the_tolerance():
    """Check 1.96 √(¼/n) > ξ."""
    n = [[50, 400], [96, 97], [3, 1000]]
    small = small_cells(counts_of(n), [Constraint("eo", 0.1)])
    expected = sorted((k, a, i) for a, row in enumerate(n) for i, k in enumerate(row) if 1.96 * np.sqrt(0.25 / k) > 0.1)
    assert [(k, a, i) for a, i, k in tuples(small)] == expected
    assert [row[0] for row in expected] == [3, 50, 96]


@pytest.mark.parametrize("criterion", ["dp", "oae"])
def test_criteria_of_whole_groups_have_small_groups(criterion):
    small = small_cells(counts_of([[50, 60], [30, 40], [0, 5]]), [Constraint(criterion, 0.1)])
    assert tuples(small) == [(2, None, 5), (1, None, 70)]


def test_the_smallest_tolerance_decides():
    counts = counts_of([[50, 60], [500, 400], [900, 800]])
    loose, tight = Constraint("eo", 0.5), Constraint("dp", 0.05)
    assert small_cells(counts, [loose]).empty
    assert len(small_cells(counts, [loose, tight])) == 2  # 0.98/√n > 0.05 below 385 rows
    assert len(small_cells(counts, [Constraint("eop", 0.0)])) == 6


@pytest.mark.parametrize(
    "constraint",
    [Ratio("dp", 0.8), MinimumRate("recall", 0.3), Rows(np.eye(12)[:1], upper=1.0)],
    ids=["ratio", "minimum", "own"],
)
def test_without_a_tolerance_no_cell_is_small(constraint):
    counts = counts_of([[5, 6], [5, 4], [9, 8]])
    rule = optfair.solve(blind(0, 100, 3, 2), Constraint("dp", 0.5))
    assert make_report("title", rule, [constraint], {"fair rule": counts}).small.empty
    by_group = Constraint("dp", {0: 0.1, 1: 0.25})  # the smallest of a mapping counts
    assert len(make_report("title", rule, [constraint, by_group], {"fair rule": counts}).small) == 3


# -- in words ------------------------------------------------------------------------------------------------
def test_the_text_says_what_was_asked_for_reached_and_paid():
    report, *_, rule = reported([Constraint("eo", 0.03)])
    text, c, d = str(report), rule.certificate, rule.determinism
    assert text.startswith("title\n")
    for part in (
        "tolerance     0.03",
        f"violation     {c.violation:.6f}",
        f"upper bound   {c.upper_bound:.6f}",
        "Price of determinism",
        f"argmax       {d.accuracy_argmax:.6f}  {d.violation_argmax:.6f}",
        f"undecided    {d.undecided:.2%} of people",
        "Took: models 1.00 s, calibration 0.25 s, solve 0.50 s (6 model fits)",
    ):
        assert part in text
    dearest = report.prices.loc[report.prices["price"].idxmax()]
    assert f"Prices (accuracy gained per unit of tolerance)\n  eo, {dearest.group!r}: {dearest.price:.4f}" in text
    first = report.small.iloc[0]
    assert f"than the tolerance: {first.group!r}, {first.given!r}: {first.n} people;" in text
    for metrics in report.measured:
        i = metrics.interval
        numbers = f"{metrics.accuracy:.4f}    {i.value:.4f}     {i.lower:.4f} to {i.upper:.4f}  {i.noise_floor:.4f}"
        assert f"  {metrics.name:<22} {numbers}" in text
    assert repr(report) == text


def test_the_text_counts_rows_and_shows_the_worst_first():
    report, *_ = reported([Constraint("eo", 0.01)])
    table, lines = report.constraints, str(report).splitlines()
    outside = int((table["value"].abs() > 0.01).sum())
    surely_missed = int(((table["low"] > 0.01) | (table["high"] < -0.01)).sum())
    surely_met = int(((table["low"] >= table["lower"]) & (table["high"] <= table["upper"])).sum())
    (start,) = [k for k, line in enumerate(lines) if line.startswith("Constraints with labels")]
    head = f"{len(table) - outside} of {len(table)} values within bounds; surely met {surely_met}, surely missed"
    assert f"{head} {surely_missed}," in lines[start]
    worst = table.loc[table["value"].abs().idxmax()]
    name = f"eo {worst.group!r} given {worst.given!r} -> {worst.outcome!r}"
    interval = f"{worst.low:+.4f} to {worst.high:+.4f}; n={worst.n}"
    assert " ".join(lines[start + 1].split()) == f"{name} {worst.value:+.4f} (allowed -0.01 to +0.01; {interval})"


def test_a_note_says_where_labels_and_posteriors_disagree():
    """Check that a difference of three standard errors of the accuracy is told, and a smaller one is not."""
    Z, group, y = labelled()
    constraints = [Constraint("dp", 0.05)]
    rule = optfair.solve(Z, constraints, groups=GROUPS, classes=CLASSES)
    counts = count(rule, group, y, {"fair rule": normalise_rows(rule.predict_proba(Z))})
    observed = make_report("title", rule, constraints, counts, **FITTING).measured[-1].accuracy
    difference = abs(rule.certificate.accuracy - observed)
    limit = 9 * observed * (1 - observed) / difference**2  # rows at which it is three standard errors
    note = f"NOTE: z(x) puts the accuracy at {rule.certificate.accuracy:.4f}, labels at {observed:.4f}"
    for n_people, said in ((int(limit * 0.9), False), (int(limit * 1.1) + 1, True)):
        report = make_report("title", rule, constraints, counts, n_people=n_people, **FITTING)
        assert (note in str(report)) == said
    on_new_rows = make_report("title", rule, constraints, counts, n_people=int(limit * 1.1) + 1)
    assert "NOTE" not in str(on_new_rows)


def test_on_new_rows_only_what_was_measured_is_said():
    report, *_ = reported([Constraint("eo", 0.03)], facts={"n_people": N})
    text = str(report)
    assert "With labels" in text and "Constraints with labels" in text
    assert "Certificate" not in text and "Price" not in text and "Took" not in text


def test_without_labels_only_what_was_proven_is_said():
    constraints = [Constraint("eo", 0.03)]
    rule = optfair.solve(labelled()[0], constraints)
    report = make_report("title", rule, constraints, {}, **FITTING)
    assert report.constraints is None and report.small.empty and report.measured == ()
    assert "Certificate" in str(report) and "labels" not in str(report)


@pytest.mark.parametrize(
    "constraints, options, shown",
    [
        ([Ratio("dp", 0.8)], {}, "dp ratio 'a'"),
        ([MinimumRate("accuracy", 0.2, by="overall")], {}, "minimum accuracy 'overall'"),
        ([Rows(np.eye(A * M * M)[:2], upper=[0.05, 0.5], names=["mine", "yours"])], {}, "at most 0.05"),
        ([Constraint("dp", {"a": 0.01, "c": 0.2})], {}, "dp 'a' -> 'low'"),
        ([Constraint("dp", 0.9)], {}, "Prices: no constraint binds; the rule costs nothing."),
        ([Constraint("eo", 0.05), MinimumRate("recall", 0.1), Ratio("dp", 0.5)], {"costs": costs(1)}, "value"),
        ([Constraint("oae", 0.02, reference="pairwise")], {}, "oae 'a'"),
    ],
    ids=["ratio", "minimum", "own", "mapping", "nothing binds", "costs", "pairwise"],
)
def test_every_kind_of_constraint_can_be_reported(constraints, options, shown):
    report, *_, rule = reported(constraints, **options)
    text = str(report)
    assert shown in text and "nan" not in text
    assert len(report.constraints) == len(rule.multipliers)
