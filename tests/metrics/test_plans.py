"""Plans: the people they ask for are those that simulated audits need; numbers by hand; every refusal."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import optfair
from optfair import Constraint, OptFairWarning
from optfair.constraints import compile_rows
from optfair.metrics import group_confusion
from optfair.metrics.bounds import row_limits
from optfair.metrics.counts import ConfusionCounts

SHARES = {"A": 0.4, "B": 0.3, "C": 0.2, "D": 0.1}
COUNTS = {"A": 1200, "B": 300}
CRITERIA = ["dp", "eop", "eo", "meo", "oae"]


def audit_power(shares, m, criterion, n, runs, reference="overall", tolerance=0.05, gap=0.0, rate=None):
    """Return how often an audit of n random people passes; predictions are uniform, but for a gap of the last group.

    rate : of the second of two classes, if they are not.
    """
    rng, A = np.random.default_rng(0), len(shares)
    groups, classes, prior = pd.RangeIndex(A), pd.RangeIndex(m), np.outer(shares, np.full(m, 1 / m))
    rows = compile_rows([Constraint(criterion, tolerance, reference)], groups, classes, prior)
    h = np.full((A, m, m), 1 / m)
    if rate is not None:
        h[:] = 1 - rate, rate
    h[-1, :, :2] += np.array([1, -1]) * gap / (1 - shares[-1])
    passes = 0
    for _ in range(runs):
        counts = rng.multinomial(n, (prior[..., None] * h).ravel()).reshape(A, m, m)
        confusion = ConfusionCounts(counts / n, groups, classes, counts.sum(2), True, counts / n**2)
        low, high = row_limits(confusion, rows, 0.95)
        passes += max(high.max(), -low.min()) <= tolerance
    return passes / runs


SETTINGS = {
    "dp, two groups and classes": ([0.8, 0.2], 2, "dp", {}),
    "dp": ([0.4, 0.3, 0.2, 0.1], 3, "dp", {}),
    "dp, a true gap": ([0.4, 0.3, 0.2, 0.1], 3, "dp", {"gap": 0.02}),
    "dp, ten groups": ([0.98 / 9] * 9 + [0.02], 5, "dp", {}),
    "dp, pairwise": ([0.4, 0.3, 0.2, 0.1], 3, "dp", {"reference": "pairwise"}),
    "eop": ([0.4, 0.3, 0.2, 0.1], 3, "eop", {}),
    "eo": ([0.4, 0.3, 0.2, 0.1], 3, "eo", {}),
    "eo, pairwise": ([0.7, 0.2, 0.1], 2, "eo", {"reference": "pairwise"}),
    "meo": ([0.4, 0.3, 0.2, 0.1], 3, "meo", {}),
    "oae": ([0.4, 0.3, 0.2, 0.1], 3, "oae", {}),
}


def people_to_audit(shares, m, criterion, options):
    return optfair.plan(dict(enumerate(shares)), m, criterion, rate=1 / m, **options).total["audit"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_simulated_audits_need_the_people_planned_within_a_fifth(name):
    shares, m, criterion, options = SETTINGS[name]
    n, runs = people_to_audit(shares, m, criterion, options), 500
    noise = 2.5 * np.sqrt(0.16 / runs)
    assert audit_power(shares, m, criterion, round(1.2 * n), runs, **options) >= 0.8 - noise
    assert audit_power(shares, m, criterion, round(n / 1.2), runs, **options) <= 0.8 + noise


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "tolerance"), [(0.02, 0.02), (0.05, 0.05), (0.9, 0.1)])
def test_rare_outcomes_need_at_most_a_fifth_more(rate, tolerance):
    shares, options = [0.7, 0.2, 0.1], {"rate": rate, "tolerance": tolerance}
    n = optfair.plan(dict(enumerate(shares)), 2, **options).total["audit"]
    assert audit_power(shares, 2, "dp", round(1.2 * n), 500, **options) >= 0.8 - 2.5 * np.sqrt(0.16 / 500)


@pytest.mark.parametrize("name", ["dp, two groups and classes", "eo"])
def test_a_simulated_audit_passes_with_the_power_planned(name):
    shares, m, criterion, options = SETTINGS[name]
    n = people_to_audit(shares, m, criterion, options)
    assert 0.7 <= audit_power(shares, m, criterion, n, 150, **options) <= 0.93


# -- by hand -----------------------------------------------------------------------------------------------
def test_the_example_of_a_promise_by_hand():
    """dp, 5 classes × 4 groups, ξ=.02, ρ=.01, p=.2: z=3.02, 14,600 (1 − ω) people in each group."""
    plan = optfair.plan(dict.fromkeys("ABCD", 0.25), 5, tolerance=0.02)
    by_hand = 0.16 * 0.75 * (stats.norm.isf(0.05 / 40) / 0.01) ** 2
    assert plan.table["to_promise"].tolist() == [int(np.ceil(by_hand))] * 4
    assert by_hand == pytest.approx(14_600 * 0.75, rel=0.01)


@pytest.mark.parametrize(("n", "printed"), [(5000, 0.057), (10_000, 0.041), (20_000, 0.029)])
def test_smallest_tolerances_are_those_of_the_study(n, printed):
    assert optfair.plan(SHARES, 3, n_people=n).smallest["promise"] == pytest.approx(printed, abs=0.001)


def test_audits_need_about_the_people_of_the_study():
    """dp 4 × 3, smallest group 10 %, the other shares not known: 9,500 people, and 19,400 with a gap of .02."""
    assert optfair.plan(SHARES, 3).total["audit"] == pytest.approx(9500, rel=0.05)
    assert optfair.plan(SHARES, 3, gap=0.02).total["audit"] == pytest.approx(19_400, rel=0.05)


@pytest.mark.parametrize(("reference", "factor"), [("overall", 0.8 / 0.2), ("pairwise", 1 / 0.8 + 1 / 0.2)])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_variances_of_two_groups_by_hand(criterion, reference, factor):
    """p(1 − p)(1 − ω)/n_k or p(1 − p)(1/n_a + 1/n_b); with two classes dp and oae are one row, the others two."""
    n, p = 4000, 0.3
    plan = optfair.plan({"A": 0.8, "B": 0.2}, 2, criterion, rate=p, reference=reference, n_people=n)
    part = {"dp": 1, "oae": 1, "eop": 2, "eo": 2, "meo": (2 + 2) / 4}[criterion]
    K = 1 if criterion in ("dp", "oae") else 2
    expected = stats.norm.isf(0.025 / K) * np.sqrt(p * (1 - p) * factor * part / n)
    assert plan.smallest["promise"] == pytest.approx(expected)


@pytest.mark.parametrize("reference", ["overall", "pairwise"])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_people_and_tolerance_are_inverse(criterion, reference):
    first = optfair.plan(SHARES, 3, criterion, 0.07, gap=0.02, reference=reference)
    again = optfair.plan(SHARES, 3, criterion, 0.3, gap=0.02, reference=reference, n_people=first.total["audit"])
    assert again.smallest["audit"] == pytest.approx(0.07, rel=1e-3)
    assert again.table["audit_tolerance"].max() <= again.smallest["audit"] + 1e-9
    assert again.table["promise_tolerance"].max() == pytest.approx(again.smallest["promise"])
    strict = optfair.plan(SHARES, 3, criterion, 0.07, room=0.0, reference=reference)
    again = optfair.plan(SHARES, 3, criterion, 0.07, reference=reference, n_people=strict.total["promise"])
    assert again.smallest["promise"] == pytest.approx(0.07, rel=1e-3)


def test_more_is_asked_more_people_are_needed():
    plain = optfair.plan(SHARES, 3).total
    for option in ({"tolerance": 0.04}, {"confidence": 0.99}, {"rate": 0.5}, {"reference": "pairwise"}):
        more = optfair.plan(SHARES, 3, **option).total
        assert more["audit"] > plain["audit"] and more["promise"] > plain["promise"], option
    for option in ({"power": 0.9}, {"gap": 0.01}):
        more = optfair.plan(SHARES, 3, **option).total
        assert more["audit"] > plain["audit"] and more["promise"] == plain["promise"], option
    assert optfair.plan(SHARES, 3, "eo").total["audit"] > optfair.plan(SHARES, 3, "eop").total["audit"]


# -- what a plan says --------------------------------------------------------------------------------------
def test_the_table_has_a_line_per_cell():
    plan = optfair.plan(COUNTS, {"no": 0.75, "yes": 0.25}, "eo")
    assert list(zip(plan.table["group"], plan.table["given"], strict=True)) == [
        ("A", "no"), ("A", "yes"), ("B", "no"), ("B", "yes")
    ]  # fmt: skip
    assert plan.table["people"].tolist() == [900, 300, 225, 75] and plan.n_people == 1500
    assert 0 <= plan.table["to_audit"].sum() - plan.total["audit"] < 4
    text = str(plan)
    assert f"{plan.total['audit']:,} people" in text and f"{plan.smallest['audit']:.3f} for an audit" in text
    assert "'B' with true class 'yes', 5.00% of all" in text and len(text.splitlines()) == 4
    assert repr(plan).startswith("<Plan of 4 cells, eo within 0.05: ") and "\n" not in repr(plan)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("reference", ["overall", "pairwise"])
def test_people_of_one_group_alone_are_those_of_a_plan_in_which_the_others_are_many(criterion, reference):
    if criterion in ("dp", "oae"):
        table = optfair.plan({"A": 0.9995, "B": 0.0005}, 2, criterion, reference=reference).table
    else:  # those of one true class alone
        people = pd.DataFrame({"no": [500_000, 500_000], "yes": [500_000, 250]}, index=["A", "B"])
        table = optfair.plan({"A": 1_000_000, "B": 500_250}, people, criterion, reference=reference).table
    least = table.loc[table["share"].idxmin()]
    np.testing.assert_allclose(least["to_audit"], least["to_audit_alone"], rtol=0.02)
    even = optfair.plan({"A": 0.5, "B": 0.5}, 2, criterion, reference=reference).table
    assert even["to_audit_alone"].tolist() == [least["to_audit_alone"]] * len(even)  # whatever the shares are


def test_no_tolerance_is_one_or_more():
    plan = optfair.plan({"A": 4000, "B": 7, "C": 1}, 2, "dp")
    table = plan.table.set_index("group")
    assert np.isinf(table["promise_tolerance"]["C"]) and np.isinf(plan.smallest["promise"])
    assert table["audit_tolerance"]["B"] < 1 and "none below 1 for a promise" in str(plan)


def test_shares_alone_have_no_people():
    plan = optfair.plan(SHARES, 3)
    assert plan.smallest == {} and plan.n_people is None and plan.table["people"].isna().all()
    assert plan.table["given"].tolist() == [None] * 4 and len(str(plan).splitlines()) == 3


def test_the_curve_goes_through_the_plan():
    plan = optfair.plan(SHARES, 3, gap=0.02)
    curve = plan.curve([0.01, 0.05, 0.1])
    assert np.isinf(curve["audit"][0]) and curve["audit"][1] == plan.total["audit"] > curve["audit"][2]
    assert curve["promise"][1] == plan.total["promise"]
    with pytest.raises(ValueError, match=r"tolerances=5: must be a number in \(0, 1\); did you mean 0.05\?"):
        plan.curve([5])


@pytest.mark.parametrize("groups", [COUNTS, SHARES])
def test_the_picture(groups, tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib")
    pyplot.switch_backend("Agg")
    plan = optfair.plan(groups, 3)
    axes = plan.plot(tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    assert f"{plan.total['audit']:,}" in [text.get_text() for text in axes.texts]
    assert plan.plot(ax=axes) is axes
    pyplot.close("all")
    with pytest.raises(ValueError, match=r"path='plan.gif': the name of a picture must end in .png, .svg, .pdf"):
        plan.plot("plan.gif")


def test_the_picture_needs_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'Plan.plot needs matplotlib: pip install "optfair\[plot\]"'):
        optfair.plan(COUNTS, 2).plot()


# -- who there is ------------------------------------------------------------------------------------------
def labels():
    group = np.repeat(["A", "B"], [60, 40])
    return group, np.where(np.arange(100) % 4 == 0, "yes", "no")


def test_all_ways_to_say_who_there_is_agree():
    group, y = labels()
    table = pd.crosstab(group, y)
    plans = [
        optfair.plan(group, y, "eo"),
        optfair.plan(pd.Series(group), pd.Series(y), "eo"),
        optfair.plan({"A": 60, "B": 40}, table, "eo"),
        optfair.plan({"B": 40, "A": 60}, table, "eo"),
        optfair.plan({"A": 0.6, "B": 0.4}, table / 100, "eo", n_people=100),
        optfair.plan(group_confusion(y, y, sensitive_features=group), criterion="eo"),
    ]
    first = plans[0].table.sort_values(["group", "given"], ignore_index=True)
    for plan in plans[1:]:
        pd.testing.assert_frame_equal(plan.table.sort_values(["group", "given"], ignore_index=True), first)
    bare = optfair.plan({"A": 60, "B": 40}, table.to_numpy(), "eo")
    assert bare.table["given"].tolist() == [0, 1, 0, 1] and bare.total == plans[0].total
    sizes = pd.Series(group).value_counts()
    assert optfair.plan(sizes, 2).total == optfair.plan(group, 2).total == optfair.plan({"A": 60, "B": 40}, 2).total
    shares = pd.Series(y).value_counts(normalize=True)
    assert optfair.plan(sizes, shares).total == optfair.plan(sizes, {"no": 75, "yes": 25}).total


def test_people_without_labels_can_be_planned_for_parity():
    group, y = labels()
    confusion = group_confusion(None, y, sensitive_features=group)
    assert optfair.plan(confusion).total == optfair.plan(group, 2).total
    with pytest.raises(ValueError, match="criterion='eo': speaks of true classes, which groups= does not know"):
        optfair.plan(confusion, criterion="eo")


def test_several_attributes():
    group, y = labels()
    features = pd.DataFrame({"sex": group, "age": np.where(np.arange(100) % 3, "old", "young")})
    plan = optfair.plan(group_confusion(y, y, sensitive_features=features))
    assert plan.table["group"].tolist()[0] == ("A", "old") and len(plan.table) == 4


def test_cells_without_people_are_named_and_left_out():
    with pytest.warns(OptFairWarning, match="nobody is in the group and class: eop: group 'B'"):
        plan = optfair.plan({"A": 60, "B": 40, "C": 10}, [[30, 30], [40, 0], [5, 5]], "eop")
    assert len(plan.table) == 5
    with (
        pytest.raises(ValueError, match="groups: no two of them have people of the same class"),
        pytest.warns(OptFairWarning),
    ):
        optfair.plan({"A": 60, "B": 40}, [[60, 0], [0, 40]], "eop")


REFUSED = {
    "one group": (lambda: optfair.plan({"A": 1.0}, 2), "groups: there is one group; at least two are needed."),
    "one class": (lambda: optfair.plan(COUNTS, {"a": 1.0}), "classes: there is one class; at least two are needed."),
    "shares": (
        lambda: optfair.plan({"A": 0.5, "B": 0.3}, 2),
        "groups: sum to 0.8; give shares that sum to 1, or whole",
    ),
    "fractions": (lambda: optfair.plan({"A": 0.8, "B": 0.7}, 2), "groups: sum to 1.5; give shares that sum to 1"),
    "nobody": (lambda: optfair.plan({"A": 5, "B": 0}, 2), r"groups\['B'\]=0: must be a positive number, or left out."),
    "a text": (lambda: optfair.plan({"A": 5, "B": "3"}, 2), r"groups\['B'\]='3': must be a positive number"),
    "less than nobody": (
        lambda: optfair.plan(COUNTS, [[1200, 0], [301, -1]]),
        r"classes\[\('B', 1\)\]=-1.0: must be a number >= 0.",
    ),
    "overall": (lambda: optfair.plan({"overall": 5, "B": 3}, 2), "groups: a group is named 'overall'"),
    "no classes": (lambda: optfair.plan(COUNTS), "classes: missing; give a number of classes >= 2, a mapping"),
    "a class": (lambda: optfair.plan(COUNTS, 1), "classes=1: must be a number of classes >= 2, a mapping"),
    "names": (lambda: optfair.plan(COUNTS, ["a", "b"]), r"classes=\['a', 'b'\]: must be a number of classes >= 2"),
    "lines": (lambda: optfair.plan(COUNTS, [[5, 5]]), "classes: a table of groups by classes must have 2 lines of num"),
    "texts": (lambda: optfair.plan(COUNTS, [["a"], ["b"]]), "classes: a table of groups by classes must have 2 lines"),
    "other groups": (
        lambda: optfair.plan(COUNTS, pd.DataFrame([[1, 2], [3, 4]], index=["A", "C"])),
        r"classes: its lines are \['A', 'C'\], the groups \['A', 'B'\]; a table",
    ),
    "other sizes": (
        lambda: optfair.plan(COUNTS, [[600, 600], [200, 200]]),
        "classes: has a share of 0.75 in group 'A', groups= says 0.8; they must agree.",
    ),
    "people twice": (lambda: optfair.plan(COUNTS, 2, n_people=9), "n_people=9: there are 1500 people by the counts gi"),
    "no people": (lambda: optfair.plan(SHARES, 2, n_people=0), "n_people=0: must be an integer >= 1."),
    "lengths": (
        lambda: optfair.plan(["A", "B"], [0, 1, 1]),
        "classes: has 3 labels for 2 people; give one per person.",
    ),
    "two columns": (lambda: optfair.plan([["A", "x"], ["B", "y"]], 2), r"groups: has shape \(2, 2\); must be 1-d"),
    "classes twice": (
        lambda: optfair.plan(group_confusion([0, 1], [0, 1], sensitive_features=[0, 1]), 2),
        "classes: groups are counts that know their classes; leave it out.",
    ),
    "tolerance": (
        lambda: optfair.plan(COUNTS, 2, tolerance=5),
        r"tolerance=5: must be a number in \[0.0001, 1\); did",
    ),
    "tolerance 0": (
        lambda: optfair.plan(COUNTS, 2, tolerance=0.0),
        r"tolerance=0.0: must be a number in \[0.0001",
    ),
    "confidence": (
        lambda: optfair.plan(COUNTS, 2, confidence=95),
        r"confidence=95: must be a number in \(0.5, 1\); did",
    ),
    "power": (lambda: optfair.plan(COUNTS, 2, power=80), r"power=80: must be a number in \(0, 1\); did you mean 0.8\?"),
    "gap": (lambda: optfair.plan(COUNTS, 2, gap=0.05), r"gap=0.05: must be a number in \[0, 0.05\), below the toler"),
    "room": (
        lambda: optfair.plan(COUNTS, 2, room=-1),
        r"room=-1: must be a number in \[0, 0.05\), below the tolerance",
    ),
    "rate": (lambda: optfair.plan(COUNTS, 2, rate=50), r"rate=50: must be a number in \(0, 1\); did you mean 0.5\?"),
    "criterion": (lambda: optfair.plan(COUNTS, 2, "fair"), "criterion='fair': unknown. Use one of dp, eop, eo, meo"),
    "reference": (lambda: optfair.plan(COUNTS, 2, reference="all"), "reference='all': must be one of 'overall', 'pair"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_line_says_what_is_wrong(case):
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=f"^{message}") as error:
        call()
    assert "\n" not in str(error.value) and len(str(error.value)) <= 300


def test_the_two_numbers_of_a_promise_say_what_they_leave_to_accuracy():
    text = str(optfair.plan({"A": 0.6, "B": 0.3, "C": 0.1}, classes=4, tolerance=0.05, room=0.02, n_people=3000))
    assert "which leaves 40% of the tolerance to accuracy" in text
    assert "a promise that leaves nothing to accuracy" in text
