"""Check that a report says what was asked for, reached and paid; its numbers are those of other routes."""

import numpy as np
import pandas as pd
import pytest

import optfair
from optfair.constraints import Constraint, MinimumRate, Ratio, Rows
from optfair.errors import OptFairWarning
from optfair.metrics.counts import count_codes
from optfair.reporting.evidence import price_table
from optfair.reporting.measuring import make_report, normalise_rows
from tests.problems import blind, confusion, costs, gaps, linear_program, linear_rows

A, M, N = 3, 3, 600
GROUPS, CLASSES = ["a", "b", "c"], ["low", "mid", "high"]
FITTING = {"seconds": {"models": 1.0, "calibration": 0.25, "solve": 0.5}, "n_fits": 6}


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
    facts = FITTING if facts is None else facts
    return make_report("title", constraints, counts, rule=rule, **facts), Z, group, y, rule


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
    total = price_table(rule.multipliers)["price"].sum()
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
    np.testing.assert_allclose(price_table(rule.multipliers)["price"].sum(), rule.multipliers["multiplier"].abs().sum())


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
    assert "at least 20.00 %" in str(report)


def test_cells_without_rows_are_one_warning():
    Z, group, y = labelled(5)
    constraints = [Constraint("eo", 0.05)]
    rule = optfair.solve(Z, constraints, groups=GROUPS, classes=CLASSES)
    present = (group != 2) | (y != 1)
    h = normalise_rows(rule.predict_proba(Z[present]))
    counts = count(rule, group[present], y[present], {"plain model": h, "fair rule": h})
    with pytest.warns(OptFairWarning, match="group 'c' against overall, given 'mid'") as caught:
        report = make_report("title", constraints, counts, rule=rule)
    assert len(caught) == 1
    table = report.constraints
    assert not ((table["group"] == "c") & (table["given"] == "mid")).any()
    assert ("c", "mid") not in {(row.group, row.given) for row in report.small.itertuples()}  # no row, no verdict


def test_one_group_is_compared_with_itself():
    rng = np.random.default_rng(6)
    Z, y = rng.dirichlet(np.ones(M), (200, 1)), rng.integers(0, M, 200)
    constraints = [Constraint("eo", 0.05)]
    rule = optfair.solve(Z, constraints)
    counts = count(rule, np.zeros(200, int), y, {"fair rule": normalise_rows(rule.predict_proba(Z))})
    report = make_report("title", constraints, counts, rule=rule, **FITTING)
    np.testing.assert_allclose(report.constraints["value"], 0, atol=1e-12)
    assert report.measured[0].interval.value == pytest.approx(0)
    assert "no constraint binds" in str(report)


# -- too few people ------------------------------------------------------------------------------------------
def few_rows(report):
    """Return (group, given) of the rows with too few people, each once."""
    return {(row.group, row.given) for row in report.small.itertuples()}


@pytest.mark.parametrize("criterion", ["eo", "dp", "oae"])
def test_there_are_few_people_where_half_of_the_tolerance_could_not_be_told(criterion):
    """Check that |value| + width > ξ alone is not enough: the width itself must exceed ξ/2."""
    rng = np.random.default_rng(3)
    n = [40, 400, 4000]
    group = np.repeat(GROUPS, n)
    y, answer = rng.choice(CLASSES, len(group)), rng.choice(CLASSES, len(group))
    for tolerance in (0.02, 0.08, 0.2):
        report = optfair.audit(y, answer, sensitive_features=group, criterion=criterion, tolerance=tolerance)
        table = report.constraints
        width = np.maximum(table["high"] - table["value"], table["value"] - table["low"])
        is_few = (table["state"] == "unknown") & (width > tolerance / 2)
        assert len(report.small) == is_few.sum()
        assert few_rows(report) == {(row.group, row.given) for row in table[is_few].itertuples()}
        assert report.small["n"].is_monotonic_increasing


def test_each_tolerance_decides_about_its_own_rows():
    counts = counts_of([[50, 60], [500, 400], [900, 800]])
    rule = optfair.solve(blind(0, 100, 3, 2), Constraint("dp", 0.5))

    def small(*constraints):
        return make_report("title", constraints, {"fair rule": counts}, rule=rule).small

    assert small(Constraint("eo", 0.9)).empty
    both = small(Constraint("eo", 0.9), Constraint("dp", 0.01))
    assert set(both["criterion"]) == {"dp"} and set(both["group"]) <= {0, 1, 2}


@pytest.mark.parametrize("constraint", [MinimumRate("recall", 0.3), Rows(np.eye(12)[:1], upper=1.0)], ids=str)
def test_where_nothing_is_compared_no_people_are_too_few(constraint):
    counts = counts_of([[5, 6], [5, 4], [9, 8]])
    rule = optfair.solve(blind(0, 100, 3, 2), Constraint("dp", 0.5))
    assert make_report("title", [constraint], {"fair rule": counts}, rule=rule).small.empty
    by_group = Constraint("dp", {0: 0.1, 1: 0.25})  # of the two groups that it names
    report = make_report("title", [constraint, by_group], {"fair rule": counts}, rule=rule)
    assert set(report.small["criterion"]) == {"dp"} and set(report.small["group"]) == {0, 1}


# -- in words ------------------------------------------------------------------------------------------------
def words(text):
    """Return a text in one line, with single spaces."""
    return " ".join(text.split())


def test_the_text_says_what_was_asked_for_reached_and_paid():
    report, *_, rule = reported([Constraint("eo", 0.03)])
    text, c, d = str(report), rule.certificate, rule.determinism
    assert text.startswith("title\n")
    for part in (
        "tolerance 0.03",
        f"violation {c.violation:.6f}",
        f"upper bound {c.upper_bound:.6f}",
        "Price of determinism",
        f"always the likeliest {d.accuracy_argmax:.5f}",
        f"{d.undecided:.2%}".replace("%", " % of people get an answer by lot"),
        "Took: models 1.00 s, calibration 0.25 s, solve 0.50 s (6 model fits)",
    ):
        assert part in words(text)
    dearest = report.prices.loc[report.prices["price"].idxmax()]
    assert f"Prices (accuracy gained per unit of tolerance) eo, {dearest.group} {dearest.price:.4f}" in words(text)
    first = report.to_dict()["small"][0]
    assert first["group"] == report.small["group"].iloc[0] and first["given"] == report.small["given"].iloc[0]
    assert f"half of what is allowed: {first['group']}, {first['given']}" in words(text)
    for metrics in report.measured:
        i = metrics.interval
        ends = f"{100 * i.lower:.2f} to {100 * i.upper:.2f} {100 * i.bound:.2f} {100 * i.noise_floor:.2f}"
        assert f"{metrics.name} {100 * metrics.accuracy:.2f} % {100 * i.value:.2f} {ends}" in words(text)
    assert repr(report) == text


def test_the_text_counts_comparisons_and_shows_the_furthest_out_first():
    report, *_ = reported([Constraint("eo", 0.01)], facts={})
    table, lines = report.constraints, str(report).splitlines()
    beyond = int(((table["low"] > 0.01) | (table["high"] < -0.01)).sum())
    within = int(((table["low"] >= table["lower"]) & (table["high"] <= table["upper"])).sum())
    (start,) = [k for k, line in enumerate(lines) if line.startswith(f"{len(table)} comparisons")]
    head = f"{len(table)} comparisons: {within} surely within what is allowed, {beyond} surely beyond, "
    assert words(" ".join(lines[start : start + 2])).startswith(f"{head}{len(table) - within - beyond} cannot be told")
    worst = table.loc[table["value"].abs().idxmax()]
    first = lines[next(k for k in range(start, len(lines)) if lines[k].endswith("verdict")) + 1].strip()
    assert first.startswith(f"{worst.group}, true class “{worst.given}”, answer “{worst.outcome}”")
    assert f" {worst.n:.0f} " in first
    assert f"{100 * abs(worst.value):.2f}" in first and "−1.00 to +1.00" in first


def test_both_groups_of_a_pair_are_named_and_share_its_price():
    report, *_, rule = reported([Constraint("dp", 0.02, reference="pairwise")])
    document = report.to_dict()
    assert {frozenset((line["group"], line["against"])) for line in document["prices"]} <= {
        frozenset(pair) for pair in (("a", "b"), ("a", "c"), ("b", "c"))
    }
    total = rule.multipliers["multiplier"].abs().sum()
    for lines in (document["prices"], document["group_prices"]):
        np.testing.assert_allclose(sum(line["price"] for line in lines), total, atol=1e-4)
    dearest = document["prices"][0]
    assert f"dp, {dearest['group']} and {dearest['against']}" in str(report)
    worst = document["gaps"][0]
    assert f"{worst['group']} against {worst['against']}, answer" in str(report)


def test_a_note_says_where_labels_and_posteriors_disagree():
    """Check that a difference of three standard errors of the accuracy is told, and a smaller one is not."""
    Z, group, y = labelled(7)
    constraints = [Constraint("dp", 0.05)]
    rule = optfair.solve(Z, constraints, groups=GROUPS, classes=CLASSES)
    h = normalise_rows(rule.predict_proba(Z))
    observed = float(h[np.arange(N), y].mean())
    difference = abs(rule.certificate.accuracy - observed)
    limit = 9 * observed * (1 - observed) / difference**2 / N  # repetitions at which it is three standard errors
    assert limit > 2
    sentence = f"z(x) puts the accuracy at {rule.certificate.accuracy:.4f}, labels at {observed:.4f}"
    for times, is_told in ((int(limit), False), (int(limit) + 1, True)):
        counts = count(rule, np.tile(group, times), np.tile(y, times), {"fair rule": np.tile(h, (times, 1))})
        findings = make_report("title", constraints, counts, rule=rule, **FITTING).findings
        assert any(f.code == "OF013" and sentence in f.sentence for f in findings) == is_told
    assert "OF013" not in {f.code for f in make_report("title", constraints, counts, rule=rule).findings}


def test_on_new_rows_only_what_was_measured_is_said():
    report, *_ = reported([Constraint("eo", 0.03)], facts={})
    text = str(report)
    assert "With labels" in text and "comparisons: " in text
    assert "Certificate" not in text and "Price" not in text and "Took" not in text


def test_without_labels_only_what_was_proven_is_said():
    constraints = [Constraint("eo", 0.03)]
    rule = optfair.solve(labelled()[0], constraints)
    report = make_report("title", constraints, {}, rule=rule, **FITTING)
    assert report.constraints is None and report.small.empty and report.measured == ()
    assert "Certificate" in str(report) and "labels" not in str(report)


@pytest.mark.parametrize(
    "constraints, options, part",
    [
        ([Ratio("dp", 0.8)], {}, "at least 80.00 %"),
        ([MinimumRate("accuracy", 0.2, by="overall")], {}, "everybody's rate"),
        ([Rows(np.eye(A * M * M)[:2], upper=[0.05, 0.5], names=["mine", "yours"])], {}, "at most 5.00 %"),
        ([Constraint("dp", {"a": 0.01, "c": 0.2})], {}, "a, answer “low”"),
        (
            [Constraint("dp", 0.9)],
            {},
            "Prices: no constraint binds by the model's estimates; by these the rule costs nothing.",
        ),
        ([Constraint("eo", 0.05), MinimumRate("recall", 0.1), Ratio("dp", 0.5)], {"costs": costs(1)}, "value"),
        ([Constraint("oae", 0.02, reference="pairwise")], {}, "a against"),
    ],
    ids=["ratio", "minimum", "own", "mapping", "nothing binds", "costs", "pairwise"],
)
def test_every_kind_of_constraint_can_be_reported(constraints, options, part):
    report, *_, rule = reported(constraints, **options)
    text = str(report)
    assert part in text and "nan" not in text
    assert len(report.constraints) == len(rule.multipliers)
