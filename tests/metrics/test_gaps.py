"""Tables of gaps and rates: weights, order, people behind each row, and empty cells as facts."""

import numpy as np
import pandas as pd
import pytest

from optfair.constraints import Constraint
from optfair.errors import OptFairWarning
from optfair.metrics import gaps, group_confusion, group_rates
from optfair.metrics.gaps import gap_rows, gap_table, largest_gap, rate_table
from tests.metrics.helpers import empty_cell, random_rows
from tests.problems import CRITERIA


# -- weights and order ---------------------------------------------------------------------------------------
def test_weight_two_is_the_row_twice_for_values_but_not_for_errors():
    y, label, _, a, _ = random_rows(3)
    times = np.random.default_rng(0).integers(1, 4, len(y))
    weighted = gaps(y, label, sensitive_features=a, criterion="eo", sample_weight=times)
    repeated = gaps(*(np.repeat(x, times) for x in (y, label)), sensitive_features=np.repeat(a, times), criterion="eo")
    np.testing.assert_allclose(weighted["value"], repeated["value"], atol=1e-12)
    # A weight says how much one row counts; copies count as that many independent rows.
    assert (weighted["se"] > repeated["se"]).all()
    # A common factor of the weights changes nothing; k copies of all rows have standard errors smaller by √k.
    plain = gaps(y, label, sensitive_features=a, criterion="eo")
    tripled = gaps(y, label, sensitive_features=a, criterion="eo", sample_weight=np.full(len(y), 3.0))
    pd.testing.assert_frame_equal(plain, tripled)
    thrice = gaps(*(np.tile(x, 3) for x in (y, label)), sensitive_features=np.tile(a, 3), criterion="eo")
    np.testing.assert_allclose(thrice["se"] * np.sqrt(3), plain["se"], atol=1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_zero_weights_are_absent_rows(criterion):
    y, _, h, a, w = random_rows(4)
    mask = w > 0
    pd.testing.assert_frame_equal(
        gaps(y, h, sensitive_features=a, criterion=criterion, sample_weight=w),
        gaps(y[mask], h[mask], sensitive_features=a[mask], criterion=criterion, sample_weight=w[mask]),
    )


@pytest.mark.parametrize("criterion", CRITERIA)
def test_order_of_rows_classes_and_groups_does_not_matter(criterion):
    y, _, h, a, w = random_rows(5)
    base = gaps(y, h, sensitive_features=a, criterion=criterion, sample_weight=w)
    order = np.random.default_rng(0).permutation(len(y))
    permuted = gaps(y[order], h[order], sensitive_features=a[order], criterion=criterion, sample_weight=w[order])
    pd.testing.assert_frame_equal(base, permuted)
    names = np.array([2, 0, 1])
    renamed = gaps(
        names[y],
        h[:, np.argsort(names)],
        sensitive_features=names[a],
        criterion=criterion,
        sample_weight=w,
        classes=range(3),
    )
    for column in ("group", "given", "outcome"):
        base[column] = [names[x] if isinstance(x, int) else x for x in base[column]]
    key = ["group", "given", "outcome"]
    base, renamed = (
        t.assign(**{k: t[k].astype(str) for k in key}).sort_values(key, ignore_index=True) for t in (base, renamed)
    )
    pd.testing.assert_frame_equal(base[[*key, "value", "n", "se"]], renamed[[*key, "value", "n", "se"]])


# -- values --------------------------------------------------------------------------------------------------
def test_mean_equalized_odds_is_the_mean_of_the_two_absolute_differences():
    y, label, _, a, _ = random_rows(6, m=4)
    table = gaps(y, label, sensitive_features=a, criterion="meo")
    for (group, j), rows in table.groupby(["group", "outcome"]):
        tpr, fpr = (np.mean(label[(a == group) & side] == j) - np.mean(label[side] == j) for side in (y == j, y != j))
        assert rows["value"].abs().max() == pytest.approx((abs(tpr) + abs(fpr)) / 2)


def test_n_is_the_people_behind_the_smaller_side():
    y, label, _, a, _ = random_rows(16)
    for row in gaps(y, label, sensitive_features=a, criterion="eo", reference="pairwise").itertuples():
        assert row.n == min(np.sum((a == g) & (y == row.given)) for g in (row.group, row.against))
    for row in gaps(y, label, sensitive_features=a, criterion="dp").itertuples():
        assert row.n == np.sum(a == row.group)


def test_the_largest_gap_is_that_of_the_table():
    y, label, _, a, w = random_rows(17)
    confusion = group_confusion(y, label, sensitive_features=a, sample_weight=w)
    rows = gap_rows(confusion, ["dp", "eo"])
    assert largest_gap(confusion, rows) == gap_table(confusion, rows)["value"].abs().max()


def test_group_rates_are_frequencies():
    y, label, _, a, w = random_rows(12)
    table = group_rates(y, label, sensitive_features=a, sample_weight=w)
    assert list(table.columns) == ["rate", "group", "given", "outcome", "value", "n"]
    assert len(table) == 4 * (3 + 9 + 1)
    for row in table.itertuples():
        mask = np.ones(len(y), bool) if row.group == "overall" else a == row.group
        mask = mask if row.given is None else mask & (y == row.given)
        hit = label == (y if row.rate == "accuracy" else row.outcome)
        assert row.value == pytest.approx(np.average(hit[mask], weights=w[mask]))
        assert row.n == np.sum(mask & (w > 0))


# -- references ----------------------------------------------------------------------------------------------
def test_no_reference_means_overall():
    y, label, _, a, _ = random_rows(8)
    confusion = group_confusion(y, label, sensitive_features=a)
    plain, overall, pairwise = (
        gap_rows(confusion, "eo", reference=reference) for reference in (None, "overall", "pairwise")
    )
    pd.testing.assert_frame_equal(plain.table, overall.table)
    assert set(plain.table["against"]) == {"overall"} and "overall" not in set(pairwise.table["against"])
    # A constraint object says its own reference; criteria by name beside it take the argument.
    mixed = gap_rows(confusion, ["dp", Constraint("oae", 0.1)], reference="pairwise").table
    assert set(mixed.loc[mixed["criterion"] == "oae", "against"]) == {"overall"}
    assert "overall" not in set(mixed.loc[mixed["criterion"] == "dp", "against"])


@pytest.mark.parametrize(
    "argument",
    [{"reference": "overall"}, {"reference": "pairwise"}, {"outcomes": [1]}, {"attributes": "intersections"}],
    ids=str,
)
def test_arguments_beside_constraint_objects_are_refused(argument):
    """Check that an explicit value is refused also where it is the default."""
    y, label, _, a, _ = random_rows(8)
    message = f"^{next(iter(argument))}: already set in the constraint objects; leave it out here.$"
    for criterion in (Constraint("dp", 0.1), [Constraint("dp", 0.1), Constraint("eo", 0.1, "pairwise")]):
        with pytest.raises(ValueError, match=message):
            gaps(y, label, sensitive_features=a, criterion=criterion, **argument)


# -- empty cells ---------------------------------------------------------------------------------------------
def test_empty_cells_are_named_in_one_warning():
    y, label, a = empty_cell()
    with pytest.warns(OptFairWarning) as record:
        table = gaps(y, label, sensitive_features=a, criterion="eo")
    assert len(record) == 1 and "2 rates are left out" in str(record[0].message)
    assert "eo: group 'm' against overall, given 1, outcome 0" in str(record[0].message)
    assert len(table) == 6
    # The overall rate is over the rows of all groups.
    assert table["value"].abs().max() == pytest.approx(1 / 3)


@pytest.mark.filterwarnings("error")
def test_functions_below_the_doors_return_empty_cells_as_facts():
    y, label, a = empty_cell()
    confusion = group_confusion(y, label, sensitive_features=a)
    rows = gap_rows(confusion, "eo")
    assert rows.dropped == tuple(f"eo: group 'm' against overall, given 1, outcome {j}" for j in (0, 1))
    assert largest_gap(confusion, rows) == pytest.approx(1 / 3) and len(gap_table(confusion, rows)) == 6
    table, empty = rate_table(confusion)
    assert empty == ["conditional of 'm' given 1"] and len(table) == 3 * (2 + 4 + 1) - 2
