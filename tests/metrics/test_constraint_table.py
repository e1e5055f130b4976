"""Constraints of every kind are measured by their definitions, with intervals that hold together."""

import numpy as np
import pandas as pd
import pytest

from optfair.constraints import Constraint, MinimumRate, Ratio, Rows, as_constraints, compile_rows
from optfair.errors import OptFairWarning
from optfair.metrics import constraint_table, group_confusion
from optfair.metrics.constraint_table import measure_constraints
from tests.metrics.helpers import (
    KEY,
    KINDS,
    ROUNDING,
    constraints_of_every_kind,
    draw_confusion,
    draw_rows,
    empty_cell,
    fair_population,
    from_counts,
    rate,
    slow,
    unfair_population,
)
from tests.problems import CRITERIA


# -- values --------------------------------------------------------------------------------------------------
def value_by_definition(row, y, h, a, w, D, factor):
    """Return the value of one line of the table, from the rows of the data."""
    if row.group is None:
        k = ["any", "dp", "share"].index(row.criterion)
        return np.average(np.einsum("nj,nj->n", D[k, a, y], h), weights=w)

    def side(group):
        group = None if group == "overall" else group
        if row.criterion == "meo":
            sign = {"TPR+FPR": 1, "TPR-FPR": -1}[row.given]
            negatives = [i for i in range(3) if i != row.outcome]
            tpr, fpr = (rate(y, h, a, w, group, classes, row.outcome) for classes in ([row.outcome], negatives))
            return (tpr + sign * fpr) / 2
        return rate(y, h, a, w, group, None if row.given is None else [row.given], row.outcome)

    return side(row.group) - (0 if row.against is None else factor * side(row.against))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_row_is_its_definition(kind):
    rng = np.random.default_rng(8)
    n = 300
    y, label, a = (rng.integers(0, 3, n) for _ in range(3))
    w = rng.random(n) if kind == "weighted" else None
    h = rng.dirichlet(np.ones(3), n) if kind == "soft" else np.eye(3)[label]
    confusion = group_confusion(y, h, sensitive_features=a, sample_weight=w, classes=range(3))
    constraints = constraints_of_every_kind()
    table = constraint_table(confusion, constraints, n_replicates=50)
    columns = ["value", "lower", "upper", "n", "se", "excess", "low", "high"]
    assert list(table.columns) == [*KEY, *columns]
    assert len(table) == 27 + 6 + 18 + 9 + 6 + 9 + 3 + 1 + 3
    factors = {"dp ratio": 0.8, "eop ratio": 0.5, "oae ratio": 0.9}
    D = constraints[-1].D.toarray().reshape(3, 3, 3, 3)
    for row in table.itertuples():
        value = value_by_definition(row, y, h, a, np.ones(n) if w is None else w, D, factors.get(row.criterion, 1))
        assert row.value == pytest.approx(value, abs=1e-12)
        assert row.excess == pytest.approx(max(value - row.upper, row.lower - value, 0), abs=1e-12)
    assert (table["low"] <= table["value"]).all() and (table["value"] <= table["high"]).all()
    bounds = table.set_index("criterion")[["lower", "upper"]]
    assert (bounds.loc["eo"] == [-0.1, 0.1]).all(axis=None) and (bounds.loc["dp ratio"] == [0, np.inf]).all(axis=None)
    assert (bounds.loc["minimum recall"] == [0.6, np.inf]).all(axis=None)
    assert (bounds.loc["share"] == [0.2, 0.3]).all()
    n_people = table.set_index("criterion")["n"]
    assert n_people["any"] == n_people["minimum accuracy"] == n
    assert n_people["dp"] == np.sum((a == 2) & (y == 0)) and n_people["share"] == np.sum(a == 2)


def test_the_same_question_in_two_forms_has_the_same_value():
    """A minimum accuracy of all rows can also be written as a row of the user."""
    confusion = from_counts(np.random.default_rng(10).integers(5, 50, (2, 3, 3)))
    two_forms = [MinimumRate("accuracy", 0.5, by="overall"), Rows(np.eye(3)[None, None].repeat(2, 1), lower=0.5)]
    table = constraint_table(confusion, two_forms)
    numbers = ["value", "lower", "n", "se", "excess"]
    np.testing.assert_allclose(*table[numbers].to_numpy(float), atol=1e-12)
    # The null of accuracy equality can be wider, never narrower.
    assert table["high"][0] - table["low"][0] >= table["high"][1] - table["low"][1] - 1e-12
    constant = constraint_table(confusion, Rows(np.full((1, 2, 3, 3), 2.0), upper=1)).iloc[0]
    assert (constant["value"], constant["excess"]) == pytest.approx((2, 1))
    assert (constant["low"], constant["high"], constant["se"]) == pytest.approx((2, 2, 0), abs=1e-7)


# -- intervals -----------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore::optfair.errors.OptFairWarning")  # cells can be empty
@pytest.mark.parametrize(
    ("J", "n", "kind", "subset"),
    [
        slow(unfair_population(3, 3, [0.6, 0.3, 0.1]), 400, "labels", slice(None)),
        slow(fair_population("eo", 3, 3), 400, "labels", slice(2, 5)),  # ratios only
        slow(unfair_population(3, 3), 500, "weighted", slice(5, 8)),  # minima only
        (unfair_population(3, 3), 500, "soft", slice(8, 9)),  # rows of the user only
    ],
)
def test_the_intervals_of_every_kind_cover_together(J, n, kind, subset):
    constraints, rng = constraints_of_every_kind()[subset], np.random.default_rng(1)
    rows = compile_rows(constraints, pd.Index(range(3)), pd.Index(range(3)), J.sum(-1))
    names = rows.table.itertuples(index=False, name=None)
    truth, covered = dict(zip(names, rows.values(J), strict=True)), []
    for run in range(200):
        confusion = draw_confusion(J, kind, rng, n)
        table = constraint_table(confusion, constraints, n_replicates=150, random_state=run)
        values = np.array([truth[row] for row in table[KEY].itertuples(index=False, name=None)])
        covered.append(((table["low"] <= values + ROUNDING) & (values <= table["high"] + ROUNDING)).all())
    assert np.mean(covered) >= 0.92  # 0.95 is promised; 200 runs know it to 0.015


@pytest.mark.parametrize("reference", ["overall", "pairwise"])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("kind", KINDS)
def test_gaps_have_the_intervals_of_the_violation(criterion, reference, kind):
    confusion = draw_rows(unfair_population(4, 3), kind, np.random.default_rng(0), 500)
    interval = confusion.violation_interval(criterion, reference=reference, random_state=3)
    table = constraint_table(confusion, [Constraint(criterion, 0.05, reference)], random_state=3)
    pd.testing.assert_frame_equal(table[[*KEY, "value", "n", "se"]], confusion.gaps(criterion, reference=reference))
    nearest = np.maximum(0, np.maximum(table["low"], -table["high"]))
    np.testing.assert_allclose(nearest, interval.table["lower"], atol=1e-12)
    np.testing.assert_allclose(np.maximum(-table["low"], table["high"]), interval.table["upper"], atol=1e-12)


def test_intervals_of_rates_end_where_rates_do_and_small_cells_are_uncertain():
    counts = np.array([[[10, 0], [0, 10]], [[1000, 0], [0, 1000]]])
    table = constraint_table(from_counts(counts), [MinimumRate("recall", 0.9), Ratio("eop", 0.8)])
    assert (table["se"] == 0).all() and (table["excess"] == 0).all()
    recall = table[table["criterion"] == "minimum recall"]
    assert (recall["high"] == 1).all() and (recall["low"] <= [0.75, 0.75, 0.999, 0.999]).all()
    ratio = table[table["criterion"] == "eop ratio"]
    assert (ratio["low"] >= -0.8).all() and (ratio["high"] <= 1).all()


# -- empty cells and errors ----------------------------------------------------------------------------------
def test_rows_of_empty_cells_are_left_out_with_one_warning():
    y, label, a = empty_cell()
    confusion = group_confusion(y, label, sensitive_features=a)
    constraints = [MinimumRate("recall", 0.5), Ratio("eop"), Rows(np.ones((1, 8)), upper=1)]
    with pytest.warns(OptFairWarning) as record:
        table = constraint_table(confusion, constraints)
    assert len(record) == 1 and "3 rates are left out" in str(record[0].message)
    assert record[0].filename == __file__
    assert len(table) == 3 + 2 + 1


@pytest.mark.filterwarnings("error")
def test_below_the_door_empty_cells_are_facts():
    y, label, a = empty_cell()
    confusion = group_confusion(y, label, sensitive_features=a)
    table, dropped = measure_constraints(confusion, as_constraints([MinimumRate("recall", 0.5), Ratio("eop")]))
    assert len(table) == 3 + 2 and dropped[0] == "minimum recall: group 'm', given 1, outcome 1" and len(dropped) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "criterion: the list is empty"),
        ((Rows(np.ones((1, 7)), upper=1),), "Rows: D has 7 columns"),
        (("ppv",), "criterion='ppv'"),
    ],
)
def test_errors_of_the_table_name_the_argument(arguments, message):
    confusion = from_counts(np.ones((2, 2, 2), int))
    with pytest.raises(ValueError, match=message):
        constraint_table(confusion, *arguments)
    with pytest.raises(ValueError, match=r"level=2: must be a number in \(0, 1\)"):
        constraint_table(confusion, "dp", level=2)
