"""The null takes the gaps away and nothing else, and lends a group the weights of all rows where chance allows it."""

import numpy as np
import pandas as pd
import pytest

from optfair.metrics import group_confusion
from optfair.metrics.gaps import gap_rows
from optfair.metrics.null_model import nulls_of, pooled_cells, smoothed_cells, spread, tensor_noise
from tests.metrics.helpers import KINDS, draw_rows, unfair_population
from tests.problems import CRITERIA


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("kind", KINDS)
def test_the_null_keeps_the_overall_rates_and_takes_the_gaps_away(criterion, kind):
    confusion = draw_rows(unfair_population(4, 3), kind, np.random.default_rng(0), 500)
    rows = gap_rows(confusion, criterion)
    nulls = nulls_of(rows, confusion.classes.tolist())
    assert sorted(np.concatenate([null.rows for null in nulls])) == list(range(len(rows)))
    for null in nulls:
        cells = pooled_cells(null, confusion)
        at_null = confusion.prior[..., None] * cells.mean
        np.testing.assert_allclose(rows.values(at_null)[null.rows], 0, atol=1e-12)
        overall = [r for r in range(len(rows.rates(at_null))) if rows.conditions[[r]].sum() >= 4]
        used = [r for r in overall if rows.combination[null.rows][:, [r]].sum() != 0]
        np.testing.assert_allclose(rows.rates(at_null)[used], rows.rates(confusion.tensor)[used], atol=1e-12)
        np.testing.assert_allclose(cells.covariance.sum(-1), 0, atol=1e-12)
        assert np.linalg.eigvalsh(cells.covariance).min() > -1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_replicates_have_mean_zero_and_the_variance_of_their_cells(kind):
    """Check the diagonal of cov(J*[a, i]) = V[a, i] Σw²/(Σw)², and that no replicate changes the size of a cell."""
    confusion = draw_rows(unfair_population(2, 3), kind, np.random.default_rng(0), 600)
    (null,) = nulls_of(gap_rows(confusion, "eo"), confusion.classes.tolist())
    for cells in (pooled_cells(null, confusion), smoothed_cells(confusion)):
        noise = np.concatenate(list(tensor_noise(cells, confusion, 4000, np.random.default_rng(1))), axis=1)
        noise = noise.reshape(2, 3, 3, 4000)
        np.testing.assert_allclose(noise.sum(axis=2), 0, atol=1e-8)  # roots of eigenvalues that round to zero
        scale = np.sqrt(cells.s[..., None] * np.einsum("aijj->aij", cells.covariance))
        np.testing.assert_allclose(noise.mean(axis=-1) / scale, 0, atol=0.08)
        np.testing.assert_allclose(noise.std(axis=-1) / scale, 1, atol=0.08)


# -- weights -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eo", "oae", "meo"])
@pytest.mark.parametrize("kind", ["labels", "soft"])
def test_equal_weights_are_no_weights_to_the_last_bit(kind, criterion):
    rng = np.random.default_rng(11)
    n = 300
    y, a, h = rng.integers(0, 3, n), rng.integers(0, 4, n), rng.dirichlet(np.ones(3), n)
    prediction = h if kind == "soft" else h.argmax(1)
    plain, equal = (
        group_confusion(y, prediction, sensitive_features=a, sample_weight=w) for w in (None, np.full(n, 0.3))
    )
    for pool in ([0, 0, 0], [0, 1, 1], [0, 1, 2]):
        np.testing.assert_array_equal(spread(plain, np.array(pool)), plain.moments.sum((2, 3)))
    pd.testing.assert_frame_equal(
        plain.violation_interval(criterion).table, equal.violation_interval(criterion).table, check_exact=True
    )


@pytest.mark.parametrize("criterion", ["dp", "eo"])
@pytest.mark.parametrize(("scale", "tolerance"), [([1, 1, 1], 0.1), ([1, 0.1, 0.3], 0.1), ([0.1, 1, 5], 0.3)])
def test_weights_independent_of_the_prediction_hardly_change_the_widths(scale, tolerance, criterion, monkeypatch):
    """Check it also where each group has its own scale; the cost is largest where a small group weighs most."""
    rng = np.random.default_rng(12)
    confusions = []
    for _ in range(20):
        a, y, label = rng.choice(3, 1500, p=[0.7, 0.2, 0.1]), *rng.integers(0, 2, (2, 1500))
        w = np.array(scale)[a] * rng.lognormal(0, 0.7, 1500)
        confusions.append(group_confusion(y, label, sensitive_features=a, sample_weight=w))

    def widths():
        tables = [confusion.violation_interval(criterion).table for confusion in confusions]
        return np.mean([table["upper"] - table["value"].abs() for table in tables], axis=0)

    with_spread = widths()
    monkeypatch.setattr("optfair.metrics.null_model.spread", lambda confusion, pool: confusion.moments.sum((2, 3)))
    np.testing.assert_allclose(with_spread, widths(), rtol=tolerance)


@pytest.mark.parametrize(
    ("n", "n_heavy", "expected"),
    [
        (20, 0, "the mean of all rows"),
        (20, 5, 515),  # more than its share of heavy rows: left as observed
        (1000, 0, 1000),  # 100 heavy rows are not absent by chance: the group has other weights
    ],
)
def test_a_group_is_lent_the_weights_of_all_rows_unless_its_own_clearly_differ(n, n_heavy, expected):
    """Check Σw² of n rows, ``n_heavy`` of weight 10, beside 1000 rows of which every tenth weighs 10."""
    w = np.r_[np.tile([10, *[1] * 9], 100), [10] * n_heavy, [1] * (n - n_heavy)].astype(float)
    a = np.repeat([0, 1], [1000, n])
    y = np.zeros(len(a), int)
    confusion = group_confusion(y, (w > 1).astype(int), sensitive_features=a, sample_weight=w, classes=[0, 1])
    large, small = spread(confusion, np.zeros(2, int))[:, 0] * w.sum() ** 2
    if n == 20 and n_heavy == 0:
        assert large == pytest.approx(10_900)
        expected = 20 * np.mean(w**2)
    assert small == pytest.approx(expected)
