"""Test sampling with unequal probabilities."""

import numpy as np
import pytest

from optfair.utils.sampling import systematic_draw


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def mass(rng):
    """Masses of 200 rows, a fifth of them zero."""
    return rng.exponential(size=200) * (rng.random(200) > 0.2)


def test_a_systematic_draw_has_the_right_expectation(mass, rng):
    """Each row is expected size·mass/Σmass times, and weighs the inverse: weighted sums are unbiased."""
    values = rng.random(200)
    counts, estimate = np.zeros(200), 0.0
    draws = 400
    for _ in range(draws):
        index, weight = systematic_draw(mass, 50, rng)
        np.add.at(counts, index, 1)
        estimate += (weight * values[index]).sum() / draws
    expected = 50 * mass / mass.sum()
    assert (counts[mass == 0] == 0).all()
    # equal distances: a row is drawn ⌊e⌋ or ⌈e⌉ times, so its variance is below 1/4
    assert np.abs(counts / draws - expected).max() < 5 * 0.5 / np.sqrt(draws)
    assert estimate == pytest.approx(values[mass > 0].sum(), rel=0.02)


def test_a_row_is_drawn_as_often_as_expected_up_to_rounding(mass, rng):
    expected = 50 * mass / mass.sum()
    for _ in range(20):
        counts = np.bincount(systematic_draw(mass, 50, rng)[0], minlength=200)
        assert (counts >= np.floor(expected)).all() and (counts <= np.ceil(expected)).all()
        assert counts.sum() == 50


def test_where_few_rows_have_mass_all_of_them_are_taken_once(mass, rng):
    positive = np.flatnonzero(mass)
    for size in (len(positive), 200, 10_000):
        index, weight = systematic_draw(mass, size, rng)
        np.testing.assert_array_equal(index, positive)
        np.testing.assert_array_equal(weight, np.ones(len(positive)))
    index, weight = systematic_draw(np.zeros(5), 3, rng)
    assert len(index) == len(weight) == 0


def test_single_precision_masses_of_many_rows_lose_no_row(rng):
    """The running sum is kept in float64: in float32 it would stop growing."""
    n = 300_000
    mass = np.full(n, 1e-3, dtype=np.float32)
    mass[0] = 1e5
    index, weight = systematic_draw(mass, 2000, rng)
    assert len(index) == 2000
    assert (weight * mass[index]).sum() == pytest.approx(mass.sum(dtype=np.float64), rel=1e-6)
