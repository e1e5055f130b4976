"""The report says what was asked for, what was reached and what it cost; its numbers are those of other routes."""

import numpy as np
import pandas as pd
import pytest
from problems import blind, confusion, costs, gaps, linear_program, linear_rows
from sklearn.linear_model import LogisticRegression

import optfair
from optfair import OptFairPost
from optfair.constraints import Constraint, MinimumRate, Ratio, Rows
from optfair.errors import OptFairWarning
from optfair.metrics import group_confusion
from optfair.report import make_report, prices, small_cells

A, M, N = 3, 3, 600
GROUPS, CLASSES = ["a", "b", "c"], ["low", "mid", "high"]
TIMES = {"models": 1.0, "calibration": 0.25, "solve": 0.5}


def labelled(seed=0, n=N):
    """Z, and labels drawn from it: (Z, group, y)."""
    rng = np.random.default_rng(seed)
    Z = blind(seed, n, A, M)
    cell = (Z.reshape(n, -1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return Z, cell // M, cell % M


def reported(wishes, seed=0, n=N, weight=None, fitted=True, **options):
    """(report of the rule for ``wishes``, Z, group, y, rule)."""
    Z, group, y = labelled(seed, n)
    rule = optfair.solve(Z, wishes, groups=GROUPS, classes=CLASSES, random_state=0, sample_weight=weight, **options)
    plain = np.eye(M)[Z.sum(axis=1).argmax(axis=1)]
    answers = {"plain model": plain, "fair rule": rule.predict_proba(Z)}
    more = {"seconds": TIMES, "n_base_fits": 6} if fitted else {}
    return make_report("title", rule, wishes, answers, y, group, weight, **more), Z, group, y, rule


def counted(n_people):
    """A GroupConfusion with these numbers of people, (A, m), all answered 0."""
    n_people = np.asarray(n_people)
    group, y = (np.repeat(code.ravel(), n_people.ravel()) for code in np.indices(n_people.shape))
    return group_confusion(
        y, np.eye(n_people.shape[1])[np.zeros(len(y), int)], sensitive_features=group, classes=range(n_people.shape[1])
    )


# -- prices -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_prices_bound_what_more_tolerance_can_gain(criterion):
    """Σ prices = ‖λ‖₁, and no rule within ξ + t is better than the certified bound + t‖λ‖₁: see the linear program."""
    xi = 0.02
    Z, _, _ = labelled(1, 150)
    rule = optfair.solve(Z, criterion, xi)
    total = prices(rule)["price"].sum()
    np.testing.assert_allclose(total, rule.multipliers["multiplier"].abs().sum())
    assert total > 0.01
    D = linear_rows(lambda J, P: gaps(criterion, J, P).values(), Z.mean(axis=0))
    for t in (0.0, 0.01, 0.05):
        best = linear_program(Z, D, -xi - t, xi + t).value
        assert best <= rule.certificate.upper_bound + t * total + 1e-9
    gained = linear_program(Z, D, -xi - 0.01, xi + 0.01).value - linear_program(Z, D, -xi, xi).value
    assert 0 < gained <= 0.01 * total + rule.certificate.gap


def test_prices_are_sums_over_the_rows_of_a_group():
    report, *_, rule = reported([Constraint("eo", 0.02)])
    table = rule.multipliers
    assert report.prices["group"].tolist() == GROUPS
    for line in report.prices.itertuples():
        mine = table[table["group"] == line.group]
        np.testing.assert_allclose(line.price, mine["multiplier"].abs().sum())
        np.testing.assert_allclose(line.price, mine["price"])


def test_every_kind_of_constraint_has_its_price():
    own = Rows(np.random.default_rng(2).normal(size=(2, A, M, M)), upper=5.0, names=["mine", "yours"])
    wishes = [Constraint("dp", 0.02), Ratio("dp", 0.8), MinimumRate("recall", 0.1), own]
    report, *_, rule = reported(wishes)
    assert set(report.prices["criterion"]) == {"dp", "dp ratio", "minimum recall", "mine", "yours"}
    np.testing.assert_allclose(report.prices["price"].sum(), rule.multipliers["multiplier"].abs().sum())


def test_groups_of_several_attributes_have_prices_each():
    names = pd.MultiIndex.from_product([["F", "M"], ["old", "young"]], names=["sex", "age"])
    Z = blind(3, 300, 4, 2)
    rule = optfair.solve(Z, Constraint("dp", 0.01, attributes="both"), groups=names)
    np.testing.assert_allclose(prices(rule)["price"].sum(), rule.multipliers["multiplier"].abs().sum())


# -- measured with labels -----------------------------------------------------------------------------------
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("criterion", ["dp", "eo", "oae"])
def test_measured_values_are_those_of_the_definition(criterion, weighted):
    weight = np.random.default_rng(4).uniform(0.5, 2, N) if weighted else None
    report, Z, group, y, rule = reported([Constraint(criterion, 0.05)], weight=weight)
    onehot = np.eye(A * M)[group * M + y].reshape(N, A, M)
    for one, h in zip(report.measured, (np.eye(M)[Z.sum(axis=1).argmax(axis=1)], rule.predict_proba(Z)), strict=True):
        J = confusion(onehot, h, weight)
        values = gaps(criterion, J, J.sum(axis=2))
        assert one.accuracy == pytest.approx(np.average(h[np.arange(N), y], weights=weight))
        assert one.interval.value == pytest.approx(max(map(abs, values.values())))
        assert one.interval.lower <= one.interval.value <= one.interval.upper
    # The table is of the last rule, the fair one.
    np.testing.assert_allclose(report.constraints["value"], list(values.values()), atol=1e-12)
    assert (report.constraints["upper"] == 0.05).all() and (report.constraints["lower"] == -0.05).all()


def test_a_rule_without_gaps_has_no_violation_to_measure():
    report, *_ = reported([MinimumRate("recall", 0.2)])
    assert [one.interval for one in report.measured] == [None, None]
    assert (report.constraints["lower"] == 0.2).all()
    assert "at least 0.2" in str(report)


def test_cells_without_people_are_named_once():
    Z, group, y = labelled(5)
    wishes = [Constraint("eo", 0.05)]
    rule = optfair.solve(Z, wishes, groups=GROUPS, classes=CLASSES)
    there = (group != 2) | (y != 1)
    h = rule.predict_proba(Z[there])
    with pytest.warns(OptFairWarning, match="group 'c' against overall, given 'mid'") as caught:
        report = make_report("t", rule, wishes, {"plain model": h, "fair rule": h}, y[there], group[there])
    assert len(caught) == 1
    table = report.constraints
    assert not ((table["group"] == "c") & (table["given"] == "mid")).any()
    assert ("c", "mid", 0) in list(report.small.itertuples(index=False, name=None))


# -- small cells --------------------------------------------------------------------------------------------
def test_a_cell_is_small_where_chance_exceeds_the_tolerance():
    """1.96 √(¼/n) > ξ."""
    n = [[50, 400], [96, 97], [3, 1000]]
    found = small_cells(counted(n), [Constraint("eo", 0.1)])
    expected = sorted((k, a, i) for a, row in enumerate(n) for i, k in enumerate(row) if 1.96 * np.sqrt(0.25 / k) > 0.1)
    assert [(n, a, i) for a, i, n in found.itertuples(index=False, name=None)] == expected
    assert [row[0] for row in expected] == [3, 50, 96]


@pytest.mark.parametrize("criterion", ["dp", "oae"])
def test_criteria_of_whole_groups_have_small_groups(criterion):
    found = small_cells(counted([[50, 60], [30, 40], [0, 5]]), [Constraint(criterion, 0.1)])
    assert list(found.itertuples(index=False, name=None)) == [(2, None, 5), (1, None, 70)]


def test_the_smallest_tolerance_decides():
    n = counted([[50, 60], [500, 400], [900, 800]])
    loose, tight = Constraint("eo", 0.5), Constraint("dp", 0.05)
    assert small_cells(n, [loose]).empty
    assert len(small_cells(n, [loose, tight])) == 2  # 0.98/√n > 0.05 below 385 people
    assert len(small_cells(n, [Constraint("eop", 0.0)])) == 6


@pytest.mark.parametrize(
    "wish",
    [Ratio("dp", 0.8), MinimumRate("recall", 0.3), Rows(np.eye(12)[:1], upper=1.0)],
    ids=["ratio", "minimum", "own"],
)
def test_without_a_tolerance_no_cell_is_small(wish):
    n = counted([[5, 6], [5, 4], [9, 8]])
    assert small_cells(n, [wish]).empty
    assert len(small_cells(n, [wish, Constraint("dp", {0: 0.1, 1: 0.25})])) == 3  # the smallest of a mapping counts


# -- in words -----------------------------------------------------------------------------------------------
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
    assert f"(people): {first.group!r}, {first.given!r}: {first.n};" in text
    for one in report.measured:
        i = one.interval
        numbers = f"{one.accuracy:.4f}    {i.value:.4f}     {i.lower:.4f} to {i.upper:.4f}  {i.noise_floor:.4f}"
        assert f"  {one.name:<22} {numbers}" in text


def test_the_text_counts_and_shows_the_worst_rows_first():
    report, *_ = reported([Constraint("eo", 0.01)])
    table, lines = report.constraints, str(report).splitlines()
    outside = int((table["value"].abs() > 0.01).sum())
    surely = int(((table["low"] > 0.01) | (table["high"] < -0.01)).sum())
    (start,) = [k for k, line in enumerate(lines) if line.startswith("Constraints with labels")]
    met = int(((table["low"] >= table["lower"]) & (table["high"] <= table["upper"])).sum())
    head = f"{len(table) - outside} of {len(table)} values within bounds; surely met {met}, surely missed {surely},"
    assert head in lines[start]
    worst = table.loc[table["value"].abs().idxmax()]
    name = f"eo {worst.group!r} given {worst.given!r} -> {worst.outcome!r}"
    interval = f"{worst.low:+.4f} to {worst.high:+.4f}; n={worst.n}"
    assert " ".join(lines[start + 1].split()) == f"{name} {worst.value:+.4f} (allowed -0.01 to +0.01; {interval})"


def test_on_new_people_only_what_was_measured_is_said():
    report, *_ = reported([Constraint("eo", 0.03)], fitted=False)
    text = str(report)
    assert "With labels" in text and "Constraints with labels" in text
    assert "Certificate" not in text and "Price" not in text and "Took" not in text


def test_without_labels_only_what_was_proven_is_said():
    Z, _, _ = labelled()
    wishes = [Constraint("eo", 0.03)]
    rule = optfair.solve(Z, wishes)
    report = make_report("title", rule, wishes, {}, seconds=TIMES, n_base_fits=6)
    assert report.constraints is None and report.small.empty and report.measured == ()
    assert "Certificate" in str(report) and "labels" not in str(report)


@pytest.mark.parametrize(
    "wishes, options, shown",
    [
        ([Ratio("dp", 0.8)], {}, "dp ratio 'a'"),
        ([MinimumRate("accuracy", 0.2, by="overall")], {}, "minimum accuracy 'overall'"),
        pytest.param([Rows(np.eye(A * M * M)[:2], upper=[0.05, 0.5], names=["mine", "yours"])], {}, "at most 0.05"),
        ([Constraint("dp", {"a": 0.01, "c": 0.2})], {}, "dp 'a' -> 'low'"),
        ([Constraint("dp", 0.9)], {}, "Prices: no constraint binds; the rule costs nothing."),
        ([Constraint("eo", 0.05), MinimumRate("recall", 0.1), Ratio("dp", 0.5)], {"costs": costs(1)}, "value"),
        ([Constraint("oae", 0.02, reference="pairwise")], {}, "oae 'a'"),
    ],
    ids=["ratio", "minimum", "own", "mapping", "nothing binds", "costs", "pairwise"],
)
def test_every_request_can_be_reported(wishes, options, shown):
    report, *_, rule = reported(wishes, **options)
    text = str(report)
    assert shown in text and "nan" not in text
    assert len(report.constraints) == len(rule.multipliers)


def test_one_group_is_compared_with_itself():
    rng = np.random.default_rng(6)
    Z = rng.dirichlet(np.ones(M), (200, 1))
    y = rng.integers(0, M, 200)
    wishes = [Constraint("eo", 0.05)]
    rule = optfair.solve(Z, wishes)
    report = make_report("t", rule, wishes, {"fair rule": rule.predict_proba(Z)}, y, np.zeros(200, int), seconds=TIMES)
    np.testing.assert_allclose(report.constraints["value"], 0, atol=1e-12)
    assert report.measured[0].interval.value == pytest.approx(0)
    assert "no constraint binds" in str(report)


# -- of a fitted model --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def fitted_model():
    rng = np.random.default_rng(7)
    a, y = rng.choice(["x", "y"], 500, p=[0.9, 0.1]), rng.integers(0, 2, 500)
    X = rng.normal(size=(500, 2)) + np.column_stack([a == "x", y + (a == "x")])
    y = np.array(["no", "yes"])[y]
    model = OptFairPost(LogisticRegression(), criterion="eo", tolerance=0.02, cv=3, random_state=0)
    return model.fit(X, y, sensitive_features=a), X, y, a


def test_the_report_of_the_people_fitted_on_is_out_of_fold(fitted_model):
    model = fitted_model[0]
    report = model.report()
    text = str(report)
    assert "eo within 0.02 of overall, blind: 2 groups, 2 classes; 500 people fitted on, out of fold" in text
    assert f"({model.n_base_fits_} model fits)" in text and model.n_base_fits_ == 4
    assert [one.name for one in report.measured] == ["unconstrained, joint", "fair rule"]
    assert report.small["group"].tolist()[:2] == ["y", "y"]
    assert report.rule is model.rule_


def test_the_report_of_others_measures_what_they_are_answered(fitted_model):
    model, X, y, a = fitted_model
    report = model.report(X[:300], y[:300], sensitive_features=a[:300])
    names = {one.name: one.accuracy for one in report.measured}
    assert list(names) == ["unconstrained, joint", "decisions (hashed)", "fair rule"]
    assert names["decisions (hashed)"] == pytest.approx(np.mean(model.predict(X[:300]) == y[:300]))
    h = model.predict_proba(X[:300])
    assert names["fair rule"] == pytest.approx(h[np.arange(300), (y[:300] == "yes").astype(int)].mean())
    assert "300 people given" in str(report)
