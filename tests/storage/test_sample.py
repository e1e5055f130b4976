"""Draw rows by their mass: unbiased, the same whatever the parts are, asked for again where too few were offered."""

import itertools

import numpy as np
import pytest

from optfair.dual.measure import Block
from optfair.storage.sample import choose_rows, cut_parts, join_offers, offer_rows, row_numbers

N = 4_000


def blocks_of(mass, start=0, step=700):
    """Blocks of rows whose only cell is their mass, and their leverage the number of the row."""
    rows = np.arange(start, start + len(mass))
    cuts = [slice(low, low + step) for low in range(0, len(mass), step)]
    return [Block(mass[cut, None], None, None, int(rows[cut][0]), leverage=rows[cut]) for cut in cuts]


def cell_mass(block):
    return block.Z[:, 0]


def offers_of(mass, cuts, seed, limit):
    """The offers of the parts between cuts."""
    edges = [0, *cuts, len(mass)]
    return [
        offer_rows(blocks_of(mass[low:high], low), cell_mass, seed, limit) for low, high in itertools.pairwise(edges)
    ]


def draw(mass, size, seed, cuts=(), limit=10**9):
    return choose_rows(offers_of(mass, cuts, seed, limit), size)


@pytest.fixture(scope="module")
def mass():
    """Return masses that differ by orders of magnitude; some rows have none."""
    rng = np.random.default_rng(0)
    return rng.lognormal(sigma=2.0, size=N) * (rng.random(N) > 0.2)


def test_row_numbers_are_uniform_and_their_own():
    numbers = row_numbers(7, np.arange(200_000))
    assert (numbers > 0).all() and (numbers < 1).all() and len(np.unique(numbers)) == 200_000
    counts = np.histogram(numbers, 100, (0, 1))[0]
    assert ((counts - 2_000) ** 2 / 2_000).sum() < 150  # χ² of 99 degrees of freedom: p > 0.001
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.01
    assert abs(np.corrcoef(numbers, row_numbers(8, np.arange(200_000)))[0, 1]) < 0.01
    far = np.array([0, 2**32, 2**40, 2**62])
    np.testing.assert_array_equal(row_numbers(7, far), [row_numbers(7, far[k : k + 1])[0] for k in range(4)])
    assert len(np.unique(row_numbers(2**63 - 1, far))) == 4


def test_weighted_sums_are_unbiased(mass):
    """Σ_drawn x / π of any column x has the mean Σ x, over seeds; the column need not follow the mass."""
    x, repetitions, size = np.random.default_rng(1).normal(2.0, 1.0, N) * (mass > 0), 400, 300
    totals = []
    for seed in range(repetitions):
        sample, inverse = draw(mass, size, seed)
        assert len(sample.row) == size and (inverse >= 1).all()
        totals.append([(x[sample.row] * inverse).sum(), (mass[sample.row] * inverse).sum(), inverse.sum()])
    expected = np.array([x.sum(), mass.sum(), (mass > 0).sum()])
    error = np.std(totals, axis=0) / np.sqrt(repetitions)
    assert (np.abs(np.mean(totals, axis=0) - expected) < 4 * error).all()
    assert (error < 0.05 * np.abs(expected)).all()  # the test can see a bias


def test_heavy_rows_are_always_drawn(mass):
    heavy = np.argsort(mass)[-3:]
    big = mass.copy()
    big[heavy] = mass.sum()
    for seed in range(50):
        sample, inverse = draw(big, 200, seed)
        assert np.isin(heavy, sample.row).all()
        np.testing.assert_array_equal(inverse[np.isin(sample.row, heavy)], 1.0)


def test_rows_are_drawn_by_their_mass():
    """Two kinds of rows, the second three times as heavy: three times as many of it are drawn."""
    mass = np.where(np.arange(N) % 2, 3.0, 1.0)
    share = np.mean([(draw(mass, 200, seed)[0].row % 2).mean() for seed in range(100)])
    assert share == pytest.approx(0.75, abs=4 * np.sqrt(0.75 * 0.25 / 20_000))


@pytest.mark.parametrize("cuts", [(), (1,), (2_000,), (10, 11, 3_999), tuple(range(100, N, 100))])
@pytest.mark.parametrize("size", [1, 300, 3_000])
def test_the_sample_does_not_depend_on_the_parts(mass, cuts, size):
    whole, inverse = draw(mass, size, 5)
    sample, other = draw(mass, size, 5, cuts)
    np.testing.assert_array_equal(sample.row, whole.row)
    np.testing.assert_array_equal(other, inverse)
    np.testing.assert_array_equal(sample.columns["Z"][:, 0], mass[sample.row])
    np.testing.assert_array_equal(sample.columns["leverage"], sample.row)
    assert sample.columns["weight"] is None and (np.diff(sample.row) > 0).all()


def test_all_rows_are_taken_where_no_more_have_any_mass(mass):
    n_positive = int((mass > 0).sum())
    for size in (n_positive, n_positive + 1, 10 * N):
        sample, inverse = draw(mass, size, 0, (1_000, 3_000))
        np.testing.assert_array_equal(sample.row, np.flatnonzero(mass))
        np.testing.assert_array_equal(inverse, 1.0)
    sample, inverse = draw(mass, n_positive - 1, 0)
    assert len(sample.row) == n_positive - 1 and inverse.max() > 1


def test_no_row_has_any_mass():
    sample, inverse = draw(np.zeros(N), 10, 0, (1_000,))
    assert sample.columns["Z"].shape == (0, 1) and len(inverse) == 0


def test_tiny_and_huge_masses():
    for factor in (1e-300, 1e300):
        mass = np.linspace(1, 2, N)
        sample, inverse = draw(mass * factor, 100, 0)
        whole, expected = draw(mass, 100, 0)
        np.testing.assert_array_equal(sample.row, whole.row)
        np.testing.assert_allclose(inverse, expected)


# -- parts that offer too few ------------------------------------------------------------------------------------
def completed(mass, cuts, seed, size, limit):
    """(offers that are enough for a sample, the parts that were asked twice)"""
    offers = offers_of(mass, cuts, seed, limit)
    short = cut_parts(offers, size)
    edges = [0, *cuts, len(mass)]
    for k in short:
        offers[k] = offer_rows(blocks_of(mass[edges[k] : edges[k + 1]], edges[k]), cell_mass, seed, size + 1)
    assert not cut_parts(offers, size)
    return offers, short


@pytest.mark.parametrize("seed", range(5))
def test_a_part_that_has_most_of_the_mass_is_asked_again(seed):
    mass = np.full(N, 1e-6)
    mass[2_000:2_500] = 1.0
    cuts, size = (1_000, 2_000, 3_000), 400
    offers, short = completed(mass, cuts, seed, size, limit=120)
    assert short == [2]
    sample, inverse = choose_rows(offers, size)
    whole, expected = draw(mass, size, seed)
    np.testing.assert_array_equal(sample.row, whole.row)
    np.testing.assert_array_equal(inverse, expected)


@pytest.mark.parametrize("limit", [1, 20, 150, 350])
@pytest.mark.parametrize("size", [10, 300, 3_000, N])
def test_the_sample_does_not_depend_on_what_is_offered_first(mass, limit, size):
    offers, short = completed(mass, (500, 1_000, 2_500), 3, size, limit)
    sample, inverse = choose_rows(offers, size)
    whole, expected = draw(mass, size, 3)
    np.testing.assert_array_equal(sample.row, whole.row)
    np.testing.assert_array_equal(inverse, expected)
    assert bool(short) == (4 * limit < size or any(part.max() < whole.key.max() for part in first_keys(mass, limit)))


def first_keys(mass, limit):
    """Keys that each part offers first, where it holds some back."""
    return [offer.key for offer in offers_of(mass, (500, 1_000, 2_500), 3, limit) if offer.is_cut]


def test_parts_that_offered_enough_are_left_alone(mass):
    offers = offers_of(mass, (1_000, 2_000, 3_000), 0, 300)
    assert all(offer.is_cut for offer in offers) and cut_parts(offers, 200) == []


def test_offers_add_up(mass):
    offers = offers_of(mass, (1_000,), 0, 50)
    joined = join_offers(offers)
    assert len(joined.key) == 100 and joined.n_positive == (mass > 0).sum() and joined.is_cut
    keys = row_numbers(0, np.flatnonzero(mass)) / mass[mass > 0]
    first = np.flatnonzero(mass) < 1_000
    np.testing.assert_array_equal(np.sort(offers[0].key), np.sort(keys[first])[:50])
