"""Test the comparison of answers before and after: sums, differences of rates, and intervals that hold."""

import numpy as np
import pandas as pd
import pytest

from optfair import audit
from optfair.constraints.events import Event, GroupSet
from optfair.metrics.counts import count_codes
from optfair.reporting.changes import answer_changes, change_facts, paired_change

A, M = 2, 3
GROUPS, CLASSES = pd.Index(["A", "B"]), pd.Index(["x", "y", "z"])
RIGHT = Event((0, 1, 2), ((0, 0), (1, 1), (2, 2)))
WRONG_Z = Event((0, 1), ((0, 2), (1, 2)))


def people(n, seed=0, lost=0.1):
    """Return codes of group, true class, and two answers; of group A some lose a right answer."""
    rng = np.random.default_rng(seed)
    group, label = rng.integers(0, A, n), rng.integers(0, M, n)
    before = np.where(rng.random(n) < 0.6, label, rng.integers(0, M, n))
    moves = (group == 0) & (rng.random(n) < lost)
    return group, label, before, np.where(moves, (label + 1) % M, before)


def facts_of(group, label, before, after, weight=None):
    return change_facts(group, label, before, after, weight, (A, M))


def test_codes_and_their_one_hot_rows_are_counted_alike():
    group, label, before, after = people(500)
    weight = np.random.default_rng(1).random(500) + 0.1
    for w in (None, weight):
        hard = facts_of(group, label, before, after, w)
        soft = facts_of(group, label, np.eye(M)[before], np.eye(M)[after], w)
        for name in ("changes", "paired"):
            np.testing.assert_allclose(hard[name], soft[name], rtol=1e-12)
    table = pd.crosstab([group, before], after).to_numpy().reshape(A, M, M)
    np.testing.assert_array_equal(hard["changes"], table)


def test_people_who_are_not_counted_are_in_no_cell():
    group, label, before, after = people(300)
    group = np.where(np.arange(300) < 100, -1, group)
    facts = facts_of(group, label, before, after)
    assert facts["changes"].sum() == facts["paired"].sum() == 200
    np.testing.assert_array_equal(facts["paired"].sum(axis=1), facts["changes"])
    assert "paired" not in facts_of(group, None, before, after)


@pytest.mark.parametrize("event", [RIGHT, WRONG_Z, Event((1,), ((1, 1),))], ids=["right", "wrong", "recall"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_change_is_the_difference_of_the_rates(event, weighted):
    group, label, before, after = people(800)
    weight = np.random.default_rng(2).random(800) + 0.1 if weighted else None
    counts = count_codes(group, label, after, weight, GROUPS, CLASSES)
    paired = facts_of(group, label, before, after, weight)["paired"]
    for members in ((0,), (1,), (0, 1)):
        rows = np.isin(group, members) & np.isin(label, event.given)
        hits = [
            [(i, j) in event.hits for i, j in zip(label[rows], answer[rows], strict=True)] for answer in (before, after)
        ]
        w = np.ones(rows.sum()) if weight is None else weight[rows]
        expected = np.average(hits[1], weights=w) - np.average(hits[0], weights=w)
        change, low, high = paired_change(paired, counts, GroupSet("", members), event, 0.95)
        assert change == pytest.approx(expected, abs=1e-12) and low <= change <= high


def test_the_interval_holds_the_truth_as_often_as_it_says_and_is_narrower_than_that_of_two_samples():
    missed, widths = 0, []
    for seed in range(400):
        group, label, before, after = people(300, seed)
        counts = count_codes(group, label, after, None, GROUPS, CLASSES)
        paired = facts_of(group, label, before, after)["paired"]
        _, low, high = paired_change(paired, counts, GroupSet("", (0,)), RIGHT, 0.95)
        truth = -0.1 * (0.6 + 0.4 / M)  # who loses is drawn regardless of the answer before
        missed += not low <= truth <= high
        widths.append(high - low)
    assert missed <= 400 * 0.05 + 3 * np.sqrt(400 * 0.05 * 0.95)
    n, p = 150, 0.6 + 0.4 / M
    assert np.mean(widths) < 0.7 * 2 * 1.96 * np.sqrt(2 * p * (1 - p) / n)


def test_nobody_has_no_change():
    group, label, before, after = (codes[:0] for codes in people(10))
    counts = count_codes(*(codes for codes in people(50)[:2]), people(50)[3], None, GROUPS, CLASSES)
    paired = np.zeros((A, M, M, M))
    assert np.isnan(paired_change(paired, counts, GroupSet("", (0,)), RIGHT, 0.95)).all()
    assert answer_changes(group, before, after, A, M).sum() == label.sum() == 0


def test_a_loss_is_marked_where_intervals_of_the_rates_overlap():
    """The same people before and after: a loss of a few per cent of the answers is clear, and no other is marked."""
    group, label, before, after = people(2000, lost=0.05)
    names = np.array(["x", "y", "z"])
    groups = np.array(["A", "B"])[group]
    report = audit(names[label], names[after], before=names[before], sensitive_features=groups)
    lines = {line["group"]: line for line in report.to_dict()["quality"] if line["rate"] == "accuracy"}
    assert lines["A"]["change"][2] < 0 and lines["A"]["after"][2] > lines["A"]["before"][1]
    assert lines["B"]["change"][0] == 0 and lines["B"]["change"][1] < 0 < lines["B"]["change"][2]
    finding = next(finding for finding in report.findings if finding.code == "OF008")
    assert "clearly fell" in finding.sentence and "“A”" in finding.sentence
