"""Standard errors are the spread over data sets and over bootstrap samples, whatever the batches."""

import numpy as np
import pytest

from optfair.constraints import compile_rows
from optfair.metrics import constraint_table, group_confusion
from optfair.metrics.gaps import gap_rows, gap_table
from optfair.metrics.influence import as_rates
from tests.metrics.helpers import KINDS, biased_rows, constraints_of_every_kind, from_counts
from tests.problems import CRITERIA


@pytest.mark.parametrize("kind", KINDS)
def test_standard_errors_are_the_spread_over_data_sets(kind):
    runs, n, values, errors, rows = 300, 1500, [], [], None
    rng = np.random.default_rng(17)
    for _ in range(runs):
        y, a, h = biased_rows(rng, n)
        # Weights depend on the prediction, so that the pairing of w and h matters.
        w = rng.exponential(1 + h[:, 0]) if kind == "weighted" else None
        prediction = h if kind == "soft" else h.argmax(1)
        confusion = group_confusion(y, prediction, sensitive_features=a, sample_weight=w, classes=range(3))
        rows = rows or gap_rows(confusion, CRITERIA)  # no cell is ever empty
        table = gap_table(confusion, rows)
        values.append(table["value"])
        errors.append(table["se"])
    spread, mean_error = np.std(values, axis=0), np.mean(errors, axis=0)
    # A standard deviation over 300 runs is known to 4 %; the delta method is first order.
    np.testing.assert_allclose(mean_error, spread, rtol=0.16)


@pytest.mark.parametrize("kind", KINDS)
def test_the_standard_errors_of_every_kind_are_those_of_the_bootstrap(kind):
    rng = np.random.default_rng(9)
    n = 2000
    y, a, h = biased_rows(rng, n)
    h = h if kind == "soft" else np.eye(3)[h.argmax(1)]
    w = rng.exponential(1 + h[:, 0]) if kind == "weighted" else np.ones(n)
    confusion = group_confusion(y, h, sensitive_features=a, sample_weight=w, classes=range(3))
    error = constraint_table(confusion, constraints_of_every_kind(), n_replicates=20)["se"].to_numpy()
    rows = compile_rows(constraints_of_every_kind(), confusion.groups, confusion.classes, confusion.prior)
    # J of a sample is a mean of w onehot(a, y) ⊗ h over its rows.
    products = (w[:, None, None] * np.eye(9)[3 * a + y][:, :, None] * h[:, None, :]).reshape(n, 27)
    times = np.array([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(800)])
    tensors = (times @ products / (times @ w)[:, None]).reshape(800, 3, 3, 3)
    np.testing.assert_allclose(error, np.std(rows.values(tensors), axis=0), rtol=0.15)


def test_rows_of_the_user_are_rates_among_all_rows():
    """Check that as_rates changes no value, and leaves no row of the user beside the rates."""
    confusion = from_counts(np.random.default_rng(0).integers(1, 50, (3, 3, 3)))
    rows = compile_rows(constraints_of_every_kind(), confusion.groups, confusion.classes, confusion.prior)
    rates = as_rates(rows)
    assert rows.user_rows.nnz > 0 and rates.user_rows.nnz == 0
    np.testing.assert_allclose(rates.values(confusion.tensor), rows.values(confusion.tensor), atol=1e-12)


def test_many_groups_in_bounded_memory(monkeypatch):
    """Batches of replicates and of rows change the memory, and no distribution."""
    confusion = from_counts(np.random.default_rng(6).integers(5, 50, (6, 3, 3)))
    whole = confusion.violation_interval("eo", n_replicates=2000)
    monkeypatch.setattr("optfair.metrics.null_model.MAX_ENTRIES", 500)
    monkeypatch.setattr("optfair.metrics.influence.MAX_ENTRIES", 500)
    parts = confusion.violation_interval("eo", n_replicates=2000)
    np.testing.assert_allclose(parts.table["se"], whole.table["se"])
    assert parts.upper == pytest.approx(whole.upper, rel=0.05)
    assert parts.noise_floor == pytest.approx(whole.noise_floor, rel=0.05)
