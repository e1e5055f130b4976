"""Check the worlds of the comparison of speed: their posteriors are true, and a criterion costs something in them."""

import numpy as np
import pytest

from experiments.bench.worlds import SMALLEST, World, group_sizes, make_posteriors, unconstrained_gap


@pytest.mark.parametrize("A", [1, 2, 5, 200])
def test_groups_fall_in_size_to_a_fifth_of_a_mean_group(A):
    sizes = group_sizes(A)
    assert sizes.sum() == pytest.approx(1) and (np.diff(sizes) < 0).all()
    assert sizes[-1] * A == pytest.approx(1 if A == 1 else SMALLEST)


def test_posteriors_are_those_of_the_people():
    """Means of indicators and of posteriors agree, over all people and over those with a large x: Bayes' formula."""
    n, A, m = 200_000, 3, 4
    Z = make_posteriors(n, A, m, seed=5)
    X, a, y = World.of(A, m, seed=5).people(n)
    assert Z.dtype == np.float32 and np.abs(Z.sum(axis=(1, 2)) - 1).max() < 1e-5
    for part in (np.ones(n, bool), X[:, 0] > 0.5, Z[:, 2].sum(axis=1) > 0.2):
        seen = np.bincount((a * m + y)[part], minlength=A * m) / part.sum()
        expected = Z[part].reshape(-1, A * m).mean(axis=0)
        assert np.abs(seen - expected).max() < 5 * np.sqrt(0.25 / part.sum())


def test_a_smaller_sample_is_the_beginning_of_a_larger_one(tmp_path):
    file = np.lib.format.open_memmap(tmp_path / "Z.npy", "w+", np.float32, (40_000, 2, 3))
    large = make_posteriors(40_000, 2, 3, seed=1, out=file)
    assert np.array_equal(make_posteriors(33_000, 2, 3, seed=1), large[:33_000])
    assert not np.array_equal(make_posteriors(10, 2, 3, seed=2), large[:10])
    X, a, y = World.of(2, 3, seed=1).people(40_000)
    for small, whole in zip(World.of(2, 3, seed=1).people(33_000), (X, a, y), strict=True):
        assert np.array_equal(small, whole[:33_000])


@pytest.mark.parametrize(("A", "m"), [(2, 2), (5, 5), (100, 3), (2, 100)])
def test_demographic_parity_costs_something(A, m):
    assert unconstrained_gap(make_posteriors(20_000, A, m)) > 0.05


def test_the_gap_is_that_of_the_definition():
    Z = np.array([[[0.5, 0.1], [0.4, 0.0]], [[0.1, 0.3], [0.1, 0.5]]])  # the first is given class 0, the second class 1
    assert unconstrained_gap(Z) == pytest.approx(max(abs(0.6 / 1.0 - 0.5), abs(0.4 / 1.0 - 0.5)))
