"""The monitor: what it counts, what it says and how often it is wrong, and what it refuses."""

import numpy as np
import pandas as pd
import pytest

from optfair import Constraint, MinimumRate, Monitor, Ratio, Rows
from optfair.metrics import gaps, group_confusion, violation
from optfair.monitoring.looks import gap_table, latest_starts, start_share
from optfair.monitoring.state import Period
from optfair.monitoring.state import State as MonitorState

CLASSES, GROUPS = ["no", "yes"], ["A", "B", "C"]


def people(n=900, seed=0, gap=0.0):
    """Return (y, prediction, group): "yes" is more frequent for B by `gap`."""
    rng = np.random.default_rng(seed)
    group = rng.choice(GROUPS, n, p=[0.5, 0.3, 0.2])
    y = rng.choice(CLASSES, n)
    answer = np.where(rng.random(n) < 0.4 + gap * (group == "B"), "yes", "no")
    return y, answer, group


def fed(monitor, *batches, labels=True, **options):
    for number, (y, answer, group) in enumerate(batches, 1):
        monitor.update(y if labels else None, answer, sensitive_features=group, period=f"p{number}", **options)
    return monitor


# -- what is counted ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eop", "eo", "meo", "oae"])
@pytest.mark.parametrize("reference", ["overall", "pairwise"])
def test_values_are_those_of_the_metrics(criterion, reference):
    batches = [people(500, seed) for seed in range(3)]
    monitor = fed(Monitor(criterion, 0.1, reference=reference), *batches)
    y, answer, group = (np.concatenate(part) for part in zip(*batches, strict=True))
    table = monitor.check().table
    expected = gaps(y, answer, sensitive_features=group, criterion=criterion, reference=reference)
    assert table.iloc[:, :5].equals(expected.iloc[:, :5])
    np.testing.assert_allclose(table["value"], expected["value"], atol=1e-12)
    assert (table["people"] == expected["n"]).all()
    assert (table["low"] <= table["value"]).all() and (table["value"] <= table["high"]).all()
    assert (table["low"] <= table["surely_from"]).all() and (table["surely_to"] <= table["high"]).all()


def test_probabilities_are_counted():
    rng = np.random.default_rng(0)
    _, _, group = people()
    h = rng.dirichlet([1, 1], 900)
    monitor = Monitor("dp", 0.1, classes=CLASSES).update(None, h, sensitive_features=group)
    expected = violation(None, h, sensitive_features=group, classes=CLASSES)
    assert monitor.check().table["value"].abs().max() == pytest.approx(expected)


def test_several_constraints_and_attributes():
    y, answer, group = people(2000)
    features = pd.DataFrame({"race": group, "sex": np.random.default_rng(1).choice(["f", "m"], 2000)})
    constraints = [
        Constraint("dp", 0.2, attributes="both"),
        Constraint("eo", {("A", "f"): 0.3}),
        Ratio("dp", 0.5, outcomes=["yes"]),
        MinimumRate("recall", 0.1),
    ]
    monitor = Monitor(constraints).update(y, answer, sensitive_features=features)
    table = monitor.check().table
    assert set(table["criterion"]) == {"dp", "eo", "dp ratio", "minimum recall"}
    assert set(table.loc[table["criterion"] == "eo", "group"]) == {("A", "f")}
    turned = Monitor(constraints).update(y, answer, sensitive_features=features)
    turned.update(y, answer, sensitive_features=features[["sex", "race"]])  # by name, in any order
    np.testing.assert_allclose(turned.check(since="2").table["value"], table["value"], atol=1e-12)


def test_labels_may_come_later_or_never():
    y, answer, group = people()
    at_once, later = Monitor("eo", 0.1), Monitor("eo", 0.1)
    at_once.update(y, answer, sensitive_features=group, period="May")
    later.update(None, answer, sensitive_features=group, period="May")
    report = later.check()
    assert not report.flagged and not report.certified and report.n_labelled == 0
    assert report.table["value"].isna().all() and "is unknown" in str(report)
    later.update(y, answer, sensitive_features=group, period="May")
    pd.testing.assert_frame_equal(later.check().table, at_once.check().table)
    assert later.periods.iloc[0].tolist() == ["May", 900, 900, True]


def test_groups_that_are_absent_are_open():
    monitor = Monitor("dp", 0.5, groups=[*GROUPS, "D"])
    report = monitor.update(None, people()[1], sensitive_features=people()[2]).check()
    verdicts = dict(zip(report.table["group"], report.table["verdict"], strict=True))
    assert verdicts == {"A": "within", "B": "within", "C": "within", "D": "open"} and not report.certified


# -- what is said ------------------------------------------------------------------------------------------
def test_a_flag_a_certificate_or_neither():
    for gap, n, words in [
        (0.0, 200, "OPEN: "),
        (0.0, 30_000, "CERTIFIED: all 6 gaps"),
        (0.5, 3000, "FLAGGED: dp: gro"),
    ]:
        report = fed(Monitor("dp", 0.1), people(n, gap=gap)).check()
        assert words in str(report)
        assert (report.flagged, report.certified) == (words[0] == "F", words[0] == "C")
    assert "'B' against overall" in str(report) and "allowed -0.1 to 0.1" in str(report)


def test_never_both():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        batches = [people(int(rng.integers(50, 4000)), seed + 100 * k, rng.choice([0, 0.1, 0.4])) for k in range(5)]
        report = fed(Monitor("dp", 0.1, confidence=0.6), *batches).check()
        assert not (report.flagged and report.certified)
        assert report.flagged == (report.table["verdict"] == "exceeds").any()


def test_a_change_after_a_long_quiet_time_is_seen_soon():
    quiet = [people(3000, seed) for seed in range(12)]
    monitor = fed(Monitor("dp", 0.1), *quiet)
    assert monitor.check().certified
    monitor.update(None, people(3000, 99, gap=0.6)[1], sensitive_features=people(3000, 99)[2], period="bad")
    report = monitor.check()
    assert report.flagged and not report.certified
    worst = report.table[report.table["verdict"] == "exceeds"]
    assert set(worst["since"]) == {"bad"} and (report.table["since"] == "p1").any()
    assert not report.table["value"].abs().max() < 0.1


def test_ratios_are_flagged_and_certified():
    assert fed(Monitor(Ratio("dp", 0.8, outcomes=["yes"])), people(5000, gap=0.5)).check().flagged
    assert fed(Monitor(Ratio("dp", 0.5, outcomes=["yes"])), people(9000)).check().certified


def test_since_and_reset():
    monitor = fed(Monitor("dp", 0.1), people(9000, gap=0.6), people(2000, 1), people(2000, 2))
    assert monitor.check().flagged and not monitor.check(since="p2").flagged
    assert monitor.check(since="p2").n_people == 4000 and monitor.check(since="p3").periods == ["p3"]
    alone = gap_table(fed(Monitor("dp", 0.1), people(2000, 2))._state)
    third = monitor.check(since="p3").table
    assert (third["low"] < alone["low"]).all() and (third["surely_to"] > alone["surely_to"]).all()  # levels are split
    monitor.reset()
    with pytest.raises(ValueError, match=r"^check: nobody is counted since the last reset; update first\.$"):
        monitor.check()
    monitor.update(None, people(2000, 2)[1], sensitive_features=people(2000, 2)[2], period="p4")
    pd.testing.assert_frame_equal(monitor.check().table.drop(columns="since"), alone.drop(columns="since"))
    assert monitor.periods["counted"].tolist() == [False, False, False, True]
    with pytest.raises(ValueError, match=r"^since='p2': is before the last reset; name a period since\.$"):
        monitor.check(since="p2")


# -- what changed ------------------------------------------------------------------------------------------
def test_nothing_changes_without_a_change():
    monitor = fed(Monitor("dp", 0.1), *(people(3000, seed) for seed in range(5)), plain=None)
    report = monitor.check()
    assert not report.changes["changed"].any() and "Nothing has surely changed" in str(report)
    assert set(report.changes["kind"]) == {"who comes", "what the rule does"} and len(report.changes) == 3 + 6
    assert "before people come" in str(fed(Monitor("dp", 0.1), people()).check())


@pytest.mark.parametrize("soft", [False, True])
def test_changes_are_seen_where_they_are(soft):
    rng = np.random.default_rng(0)

    def month(share, says, yes, n=6000):
        group = rng.choice(["A", "B"], n, p=[1 - share, share])
        plain = np.where(rng.random(n) < says, "yes", "no")
        answer = np.where(rng.random(n) < np.where(group == "B", yes, 0.4), "yes", "no")
        h = np.array([plain == "no", plain == "yes"]).T * 0.8 + 0.1
        return answer, group, h if soft else plain

    def changed(*months):
        monitor = Monitor("dp", 0.5, classes=CLASSES)
        for k, (answer, group, plain) in enumerate(months):
            monitor.update(None, answer, sensitive_features=group, plain=plain, period=f"month {k}")
        return monitor.check()

    quiet = month(0.3, 0.5, 0.4)
    for other, kind in [
        (month(0.5, 0.5, 0.4), "who comes"),
        (month(0.3, 0.7, 0.4), "what the model says"),
        (month(0.3, 0.5, 0.7), "what the rule does"),
    ]:
        report = changed(quiet, month(0.3, 0.5, 0.4), other)
        lines = report.changes[report.changes["changed"]]
        assert set(lines["kind"]) == {kind} and set(lines["since"]) <= {"month 1", "month 2"}
        assert f"Changed, {kind}: " in str(report) and "→" in str(report)


def test_the_reference_may_be_named():
    monitor = fed(Monitor("dp", 0.5), people(3000, 0, gap=0.4), people(3000, 1), people(3000, 2), people(3000, 3))
    assert monitor.check().changes["changed"].any()
    assert not monitor.check(reference=["p2", "p3"]).changes["changed"].any()
    assert monitor.check(reference="p4").changes.empty


# -- how often it is wrong ---------------------------------------------------------------------------------
def simulated(rates, sizes, runs, looks, tolerance, seed=0):
    """Return per run the first look that flags, or NaN, and whether any certifies.   rates, sizes: (A,)

    Counts are drawn, not rows; the look is that of the monitor.
    """
    rng = np.random.default_rng(seed)
    state = MonitorState(
        (Constraint("dp", tolerance),), 0.95, "error", pd.Index(range(len(rates))), pd.Index([0, 1])
    )  # fmt: skip
    first, certified = np.full(runs, np.nan), np.zeros(runs, bool)
    for run in range(runs):
        counted = state
        for look in range(looks):
            yes = rng.binomial(sizes, rates).astype(float)
            answers = np.stack([np.asarray(sizes) - yes, yes], axis=1)
            counted = counted.with_period(Period(str(look), np.asarray(sizes, float), answers))
            verdict = gap_table(counted)["verdict"]
            certified[run] |= bool((verdict == "within").all())
            if (verdict == "exceeds").any():
                first[run] = look
                break
    return first, certified


def test_twice_the_tolerance_is_flagged_soon():
    """The gap of B to everybody is 0.1 with a tolerance of 0.05: some two thousand people of a group show it."""
    first, certified = simulated([0.4, 0.6], [200, 200], runs=5, looks=40, tolerance=0.05)
    assert not np.isnan(first).any() and (first * 200 < 6000).all() and not certified.any()


def fast_false_flags(rates, sizes, runs, looks, tolerance):
    """Return how often any of many looks flags, and certifies, by limits of all runs at once; starts as in looks.py."""
    from optfair.monitoring.sequences import rate_limits

    rng = np.random.default_rng(0)
    sizes = np.asarray(sizes, float)
    yes = rng.binomial(sizes.astype(int)[:, None, None], np.asarray(rates)[:, None, None], (2, runs, looks)).cumsum(-1)
    share, n_rows = sizes / sizes.sum(), 4  # two groups, two classes
    flagged, certified = np.zeros(runs, bool), np.zeros(runs, bool)

    def limits(start, look, alpha):
        before = yes[:, :, start - 1] if start else 0
        n = (sizes * (look + 1 - start))[:, None] * np.ones(runs)
        low, high = rate_limits((yes[:, :, look] - before).ravel(), n.ravel(), alpha / 2)
        return low.reshape(2, runs), high.reshape(2, runs)

    for look in range(looks):
        for start in latest_starts(look + 1):
            low, high = limits(start, look, 0.05 * start_share(start) / (2 * n_rows))
            for a, b in ((0, 1), (1, 0)):
                factor = 1 - share[a]
                flagged |= factor * (low[a] - high[b]) > tolerance
        low, high = limits(0, look, 0.05)
        bound = max_gap = np.maximum(high[1] - low[0], high[0] - low[1])
        certified |= (1 - share.min()) * max_gap <= tolerance
        assert bound.shape == (runs,)
    return flagged.mean(), certified.mean()


@pytest.mark.slow
def test_few_of_many_populations_at_the_boundary_are_ever_flagged():
    """400 runs of 50 looks; the gap is the tolerance exactly, 0.05 of B, whose share is a half."""
    flagged, _ = fast_false_flags([0.45, 0.55], [300, 300], 400, 50, 0.05)
    assert flagged <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    _, certified = fast_false_flags([0.4499, 0.5501], [300, 300], 400, 50, 0.05)  # just outside
    assert certified <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_the_fast_look_is_that_of_the_monitor():
    """So that the simulation above is about it: few runs, the same draws of counts in another order."""
    slow = simulated([0.4, 0.6], [200, 200], 20, 12, 0.05)
    fast = fast_false_flags([0.4, 0.6], [200, 200], 400, 12, 0.05)
    share = (~np.isnan(slow[0])).mean()
    assert abs(share - fast[0]) <= 4 * np.sqrt(max(fast[0] * (1 - fast[0]), 0.01) / 20)


def test_levels_of_all_starts_are_a_level():
    assert sum(start_share(s) for s in range(100_000)) == pytest.approx(1, abs=1e-4)
    for n in range(1, 70):
        starts = latest_starts(n)
        assert starts[0] == 0 and starts == sorted(set(starts)) and starts[-1] == n - 1
        for change in range(n):  # some start is no further back than twice the periods since
            assert any(start >= change and n - start > (n - change) / 2 for start in starts) or change == 0


# -- what is refused ---------------------------------------------------------------------------------------
Y, ANSWER, GROUP = people(60)
BEGUN = {"period": "May"}


def begun(**options):
    monitor = Monitor("dp", 0.1, groups=GROUPS, **options)
    return monitor.update(None, ANSWER, sensitive_features=GROUP, period="May")


def update(monitor=None, y=None, answer=ANSWER, group=GROUP, **options):
    return (begun() if monitor is None else monitor).update(y, answer, sensitive_features=group, **options)


BAD_CALLS = {
    "criterion": (lambda: Monitor("fair"), "criterion='fair': unknown"),
    "rows": (lambda: Monitor(Rows(np.ones((1, 2, 2, 2)), upper=1)), "criterion: Rows are no rates of people, whose"),
    "tolerance": (lambda: Monitor("dp", 5), r"tolerance=5: must be a number in \[0, 1\]; did you mean 0.05"),
    "confidence": (lambda: Monitor(confidence=95), r"confidence=95: must be a number in \(0, 1\), e.g. 0.95"),
    "missing": (lambda: Monitor(missing="drop"), "missing='drop': must be one of"),
    "groups": (lambda: Monitor(groups=["A", "A"]), "groups: holds a name twice, 'A'"),
    "classes": (lambda: Monitor(classes="yes"), "classes='yes': must be a list of names"),
    "an outcome": (lambda: Monitor(outcomes=["x"], groups=GROUPS, classes=CLASSES), r"outcomes=\['x'\]: 'x' is not a"),
    "an outcome, later": (lambda: update(Monitor(outcomes=["x"])), r"outcomes=\['x'\]: 'x' is not a class"),
    "another group": (
        lambda: update(group=np.where(GROUP == "A", "Z", GROUP)),
        r"sensitive_features: 'Z' is not among the groups of this monitor, \['A', 'B', 'C'\]; rename it, or begin",
    ),
    "another group in a frame": (
        lambda: update(group=pd.DataFrame({"g": np.where(GROUP == "A", "Z", GROUP)})),
        "sensitive_features: 'Z' is not among the groups of this monitor",
    ),
    "another class": (
        lambda: update(answer=["maybe"] * 60),
        "prediction: 'maybe' is not among the classes of this mon",
    ),
    "another true class": (
        lambda: update(y=["maybe"] * 60),
        "y_true: 'maybe' is not among the classes of this monitor",
    ),
    "another plain class": (lambda: update(plain=["maybe"] * 60), "plain: 'maybe' is not among the classes of this mo"),
    "two attributes": (lambda: update(group=np.c_[GROUP, GROUP]), "sensitive_features: has 2 columns, but the groups"),
    "a missing group": (
        lambda: update(group=[None, *GROUP[1:]]),
        "sensitive_features: 1 of 60 rows have a missing val",
    ),
    "other rows": (lambda: update(group=GROUP[1:]), ".*59.*60|.*60.*59"),
    "names of columns": (lambda: update(Monitor(), answer=np.eye(2)[[0] * 60]), "classes: missing; name the classes"),
    "labels of two types": (lambda: update(Monitor("eo"), y=[0, 1] * 30), "prediction: its labels are of another type"),
    "a period twice": (
        lambda: update(period="May"),
        "period='May': is counted already; give other people another name",
    ),
    "labels twice": (
        lambda: update(update(y=Y, period="May"), y=Y, period="May"),
        "period='May': is counted already; give other people",
    ),
    "too many labels": (
        lambda: update(y=np.tile(Y, 2), answer=np.tile(ANSWER, 2), group=np.tile(GROUP, 2), period="May"),
        "period='May': labels came for 120 people, more than the 60 counted in some group; give labels of the same",
    ),
    "a name of a period": (lambda: update(period=3), "period: must be a text of one line and at most 200 characters"),
    "an empty name": (lambda: update(period=" "), "period: must be a text of one line"),
    "a name of two lines": (lambda: update(period="a\nb"), "period: must be a text of one line"),
    "nobody": (lambda: Monitor().check(), "check: nobody is counted since the last reset; update first"),
    "since": (lambda: begun().check(since="June"), r"since='June': there is no such period; there are \['May'\]"),
    "reference": (lambda: begun().check(reference="June"), "reference='June': there is no such period"),
    "no reference": (lambda: begun().check(reference=[]), "reference: the list is empty; name at least one period"),
}


@pytest.mark.parametrize("kind", BAD_CALLS)
def test_bad_calls_are_told_in_one_line(kind):
    call, message = BAD_CALLS[kind]
    with pytest.raises(ValueError, match=f"^{message}") as error:
        call()
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_what_is_refused_changes_nothing():
    monitor = begun()
    before = monitor.check().table
    with pytest.raises(ValueError, match="is not among the classes"):
        update(monitor, answer=["maybe"] * 60, period="June")
    fresh = Monitor(outcomes=["x"])
    with pytest.raises(ValueError, match="is not a class"):
        update(fresh)
    assert len(monitor.periods) == 1 and monitor.check().table.equals(before)
    assert fresh.groups is None and fresh.classes is None and len(fresh.periods) == 0


def test_a_missing_group_may_be_one():
    group = pd.Series(GROUP).where(np.arange(60) > 5)
    monitor = Monitor("dp", 0.1, missing="group").update(None, ANSWER, sensitive_features=group)
    assert list(monitor.groups) == [*GROUPS, "(missing)"] and monitor.classes.tolist() == CLASSES
    assert monitor.confidence == 0.95 and not monitor.needs_labels and monitor.constraints == [Constraint("dp", 0.1)]
    assert repr(monitor) == "<Monitor of 60 people in 1 periods; see .check()>"


def test_nothing_is_certified_of_nobody():
    """However wide the bounds: without labels nothing is known of equalized odds."""
    _, prediction, group = people()
    monitor = Monitor("eo", 0.9).update(None, prediction, sensitive_features=group)
    report = monitor.check()
    assert not report.certified and set(report.table["verdict"]) == {"open"}


def test_a_period_without_a_name_is_a_new_one():
    y, prediction, group = people()
    monitor = Monitor("dp", 0.1).update(None, prediction, sensitive_features=group, period="2")
    monitor.update(y, prediction, sensitive_features=group)  # not the labels of "2"
    assert [period.name for period in monitor._state.periods] == ["2", "3"]


def test_counts_can_be_summed():
    parts = [group_confusion(*people(300, seed)[:2], sensitive_features=people(300, seed)[2]) for seed in range(3)]
    assert sum(parts).n_people.sum() == 900 and sum(parts).violation("eo") == (
        parts[0] + parts[1] + parts[2]
    ).violation("eo")
    with pytest.raises(TypeError):
        1 + parts[0]
