"""Test the measure: its prior, and the two verbs that run over all rows, summing blocks and drawing samples."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from optfair.dual.measure import RowValues
from optfair.dual.posterior import as_rows, check_posterior, make_posterior, training_posterior
from optfair.dual.settings import SETTINGS
from optfair.inputs.training_data import TrainingData
from tests.problems import KINDS, aware, blind

N = 1000
WEIGHT = np.random.default_rng(0).random(N) * (np.random.default_rng(1).random(N) > 0.1)
OFFSET = np.random.default_rng(2).standard_normal((N, 3))
CELL = np.random.default_rng(3).integers(0, 9, N)


@pytest.fixture(params=["float64", "float32", "weights", "offset", "fortran"])
def posterior(request):
    """Return a measure of 1000 rows with observed cells."""
    Z = blind(2, N, dtype=np.float32 if request.param == "float32" else np.float64)
    options = {"weights": {"sample_weight": WEIGHT}, "offset": {"offset": OFFSET}}.get(request.param, {})
    measure = check_posterior(np.asfortranarray(Z) if request.param == "fortran" else Z, n_jobs=1, **options)
    return replace(measure, cell=CELL)


def weights_of(posterior):
    return np.ones(posterior.n) if posterior.weight is None else posterior.weight


def moments(block):
    """Return some sums over a block: a number, a vector and a matrix."""
    Z = block.Z.astype(np.float64)
    return float(block.weights.sum()), block.weights @ Z, (Z.T * block.weights) @ Z


# -- the measure -------------------------------------------------------------------------------------------
def test_the_prior_is_the_weighted_mean(small_blocks):
    for dtype, weight in ((np.float32, WEIGHT), (np.float64, None), (np.float16, WEIGHT)):
        Z = blind(2, N, dtype=dtype)
        prior = check_posterior(Z, sample_weight=weight, n_jobs=2).prior
        mean = np.average(Z.astype(float), axis=0, weights=weight)
        np.testing.assert_allclose(prior, mean, atol=1e-14)


def test_facts_of_the_measure(posterior):
    assert (posterior.n, posterior.n_cells, posterior.n_classes) == (N, 9, 3)
    single = posterior.Z.dtype == np.float32
    assert posterior.dtype == (np.float32 if single else np.float64)
    assert posterior.value_noise == (SETTINGS.value_noise_single if single else SETTINGS.value_noise_double)
    assert weights_of(posterior).mean() == pytest.approx(1, abs=1e-12)


def test_blocks_are_views_of_the_rows():
    Z = blind(2, N)
    posterior = replace(check_posterior(Z, sample_weight=WEIGHT, offset=OFFSET), leverage=WEIGHT, cell=CELL)
    block = posterior.block(slice(100, 300), RowValues(CELL, CELL.mean()))
    assert np.shares_memory(block.Z, Z) and block.Z.shape == (200, 9) and block.start == 100
    for part, whole in (
        (block.weight, posterior.weight),
        (block.offset, OFFSET),
        (block.leverage, WEIGHT),
        (block.cell, CELL),
        (block.row_values, CELL),
    ):
        np.testing.assert_array_equal(part, whole[100:300])
    plain = check_posterior(Z).block(slice(None))
    assert plain.weight is None and plain.offset is None and plain.leverage is None and plain.cell is None
    np.testing.assert_array_equal(plain.weights, np.ones(N))


def test_the_posterior_of_training_rows_has_their_weights_and_cells():
    rng = np.random.default_rng(0)
    Z, a, y, weight = aware(0, 50, 2, 3), rng.integers(0, 2, 50), rng.integers(0, 3, 50), rng.random(50)
    names = {"groups": pd.Index(["f", "m"]), "classes": np.array(["x", "y", "z"])}
    data = TrainingData(X=None, a=a, y=y, weight=weight, positions=np.arange(50), n_given=50, **names)
    posterior = training_posterior(Z, data)
    np.testing.assert_array_equal(posterior.cell, a * 3 + y)
    np.testing.assert_allclose(posterior.weight, weight / weight.mean())
    np.testing.assert_allclose(posterior.prior, np.average(Z, axis=0, weights=weight))
    assert posterior.groups.tolist() == ["f", "m"] and posterior.classes.tolist() == ["x", "y", "z"]
    assert training_posterior(Z, replace(data, weight=None)).weight is None


# -- sums over blocks --------------------------------------------------------------------------------------
def test_sums_do_not_depend_on_the_number_of_blocks(posterior, request):
    whole = posterior.sum_blocks(moments)
    Z, w = as_rows(posterior.Z).astype(float), weights_of(posterior)
    for total, expected in zip(whole, (w.sum(), w @ Z, (Z.T * w) @ Z), strict=True):
        np.testing.assert_allclose(total, expected, rtol=1e-12)
    request.getfixturevalue("small_blocks")
    counts = {width: posterior.sum_blocks(lambda block: (1,), width)[0] for width in (None, 9, 4096)}
    assert counts == {None: 4, 9: 4, 4096: 4}
    for total, expected in zip(posterior.sum_blocks(moments), whole, strict=True):
        np.testing.assert_allclose(total, expected, rtol=1e-12)


def test_a_wider_row_makes_shorter_blocks():
    posterior = check_posterior(blind(2, 5000))
    assert posterior.sum_blocks(lambda block: (1,))[0] == 1
    assert posterior.sum_blocks(lambda block: (1,), 1024)[0] == 5


def test_the_number_of_threads_changes_no_bit_of_a_sum(posterior, small_blocks):
    first, second, third = (replace(posterior, n_jobs=k).sum_blocks(moments) for k in (1, 2, 4))
    for one_thread, two_threads, four_threads in zip(first, second, third, strict=True):
        assert np.array_equal(one_thread, two_threads) and np.array_equal(one_thread, four_threads)


def test_sums_are_taken_in_the_order_of_the_blocks(small_blocks):
    """Addition of floats is not associative: the order is part of the answer."""
    posterior = check_posterior(blind(2, N), n_jobs=4)
    parts = {0: 1.0, 256: 1e16, 512: -1e16, 768: 1.0}
    assert posterior.sum_blocks(lambda block: (parts[block.start],)) == (((1.0 + 1e16) - 1e16) + 1.0,)


def test_what_a_pass_keeps_has_one_number_per_row_in_their_order(posterior, small_blocks):
    def first_cell(block):
        return 1, block.Z[:, 0].astype(np.float32)

    count, values = replace(posterior, n_jobs=2).sum_blocks(first_cell, keep=True)
    assert count == 4 and values.numbers.shape == (N,) and values.numbers.dtype == np.float32
    np.testing.assert_array_equal(values.numbers, as_rows(posterior.Z)[:, 0].astype(np.float32))
    assert values.mean == pytest.approx(as_rows(posterior.Z)[:, 0].mean(), rel=1e-6)
    (alone,) = posterior.sum_blocks(lambda block: first_cell(block)[1:], keep=True)
    np.testing.assert_array_equal(alone.numbers, values.numbers)


# -- samples -----------------------------------------------------------------------------------------------
def test_without_a_mass_rows_are_evenly_spaced(posterior):
    for size, step in ((100, 10), (99, 10), (300, 3), (600, 1), (N, 1), (5 * N, 1)):
        sample = posterior.draw(size)
        np.testing.assert_array_equal(sample.Z, posterior.Z[::step])
        np.testing.assert_array_equal(weights_of(sample), weights_of(posterior)[::step])
        assert sample.prior is posterior.prior  # the sample keeps the measure's prior


def test_a_drawn_row_brings_all_that_belongs_to_it(posterior):
    sample = posterior.draw(100, lambda block: block.Z[:, 0].astype(float), np.random.default_rng(0))
    rows = {z.tobytes(): index for index, z in enumerate(as_rows(posterior.Z))}
    index = [rows[z.tobytes()] for z in as_rows(sample.Z)]
    assert sample.n == len(index) == 100 and index == sorted(index)
    np.testing.assert_array_equal(sample.cell, CELL[index])
    if posterior.offset is not None:
        np.testing.assert_array_equal(sample.offset, OFFSET[index])


def test_totals_of_a_sample_are_unbiased(posterior, small_blocks):
    """A row weighs its own weight over how often it was expected: by simulation."""
    rng = np.random.default_rng(0)
    values = (rng.exponential(size=N) * (rng.random(N) > 0.3)).astype(np.float32)
    exact = replace(posterior, weight=weights_of(posterior) * (values > 0)).sum_blocks(moments)
    kept = RowValues(values, values.mean())
    draws = [posterior.draw(200, lambda block: np.asarray(block.row_values), rng, kept, 3.0) for _ in range(100)]
    for k in range(2):
        totals = np.array([np.atleast_1d(sample.sum_blocks(moments)[k]) for sample in draws])
        error = np.abs(totals.mean(axis=0) - 3.0 * exact[k])
        assert (error <= 5 * totals.std(axis=0) / np.sqrt(len(draws)) + 1e-9).all()
        assert (error <= 0.1 * 3.0 * exact[k]).all()  # and the simulation is long enough to tell


def test_where_few_rows_have_mass_all_of_them_are_taken(posterior):
    values = np.zeros(N, dtype=np.float32)
    values[::20] = 1 + np.arange(50)
    kept, rng = RowValues(values, values.mean()), np.random.default_rng(0)
    sample = posterior.draw(50, lambda block: np.asarray(block.row_values), rng, kept, 0.5)
    np.testing.assert_array_equal(sample.Z, posterior.Z[::20])
    np.testing.assert_array_equal(sample.weight, 0.5 * weights_of(posterior)[::20])
    nothing = posterior.draw(50, lambda block: np.zeros(len(block.Z)), np.random.default_rng(0))
    assert nothing.n == 0


def test_the_same_seed_draws_the_same_rows_whatever_the_threads(posterior, small_blocks):
    def draw(n_jobs):
        return replace(posterior, n_jobs=n_jobs).draw(77, lambda block: block.Z[:, 0] + 0.1, np.random.default_rng(5))

    first, second = draw(1), draw(4)
    np.testing.assert_array_equal(first.Z, second.Z)
    np.testing.assert_array_equal(first.weight, second.weight)
    assert first.n == 77


def test_normalised_rows_are_a_measure_of_their_own(posterior):
    sample = posterior.draw(100, lambda block: block.Z[:, 0].astype(float), np.random.default_rng(0))
    measure = sample.normalised().with_prior()
    assert measure.weight.mean() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(measure.weight / measure.weight[0], sample.weight / sample.weight[0], rtol=1e-12)
    Z = as_rows(measure.Z).astype(float).reshape(-1, 3, 3)
    np.testing.assert_allclose(measure.prior, np.average(Z, axis=0, weights=sample.weight), atol=1e-14)
    np.testing.assert_array_equal(measure.Z, sample.Z)
    assert np.abs(sample.prior - measure.prior).max() > 1e-3  # it was not the sample's before
    np.testing.assert_allclose(measure.normalised().weight, measure.weight, rtol=1e-12)
    np.testing.assert_allclose(measure.normalised().with_prior().prior, measure.prior, rtol=1e-12)


def test_a_measure_that_is_normalised_stays_as_it_is(posterior):
    measure = posterior.normalised().with_prior()
    np.testing.assert_allclose(measure.prior, posterior.prior, atol=1e-14)
    np.testing.assert_allclose(measure.weight, weights_of(posterior), rtol=1e-12)


# -- sketches ----------------------------------------------------------------------------------------------
def test_few_rows_are_their_own_sketch(posterior):
    assert posterior.with_sample(0) == (posterior, posterior)


@pytest.mark.parametrize("n, is_sampled", [(300, False), (301, True)])
def test_rows_are_sampled_beyond_one_and_a_half_sketches(small_sketches, n, is_sampled):
    whole, sample = check_posterior(blind(2, n)).with_sample(0)
    assert (sample is not whole) == is_sampled


@pytest.mark.parametrize("kind", KINDS)
def test_the_leverage_is_the_mean_over_cells_of_z_over_their_prior(small_sketches, kind):
    Z = KINDS[kind](2, N)
    Z[:, 1, 2] = 0  # a cell without mass counts for nothing
    Z /= np.maximum(Z.sum((1, 2), keepdims=True), 1e-300)
    Z = Z[Z.sum((1, 2)) > 0]
    posterior, _ = check_posterior(Z).with_sample(0)
    prior = posterior.prior.ravel()
    cells = prior > 0
    expected = (Z.reshape(len(Z), -1)[:, cells] / prior[cells]).mean(axis=1)
    assert cells.sum() == 8
    np.testing.assert_allclose(posterior.leverage, expected, rtol=1e-5)
    assert posterior.leverage.mean() == pytest.approx(1, rel=1e-5)


def test_a_sketch_is_a_measure_that_stands_for_all_rows(posterior, small_sketches):
    """Over seeds its prior, which is a ratio of two unbiased sums, averages to that of the measure."""
    priors = []
    for seed in range(60):
        whole, sample = posterior.with_sample(seed)
        assert whole.n == N and sample.n == 200
        assert sample.weight.mean() == pytest.approx(1, abs=1e-12)
        priors.append(sample.prior)
    error = np.abs(np.mean(priors, axis=0) - posterior.prior)
    assert (error <= 5 * np.std(priors, axis=0) / np.sqrt(60) + 2e-3).all()


def test_a_sketch_has_more_rows_of_rare_cells(small_sketches):
    Z = aware(3, 5000, 3, 2, share=[0.69, 0.3, 0.01])
    posterior, sample = check_posterior(Z).with_sample(0)
    rare = (sample.Z[:, 2].sum(axis=1) > 0.5).sum()
    assert rare > 20  # two would come by chance
    assert sample.prior[2].sum() == pytest.approx(posterior.prior[2].sum(), rel=0.3)


def test_rows_without_weight_are_not_drawn(small_sketches):
    measure = check_posterior(blind(2, N), sample_weight=np.arange(N) % 2)
    sample = measure.with_sample(0)[1]
    odd = {z.tobytes() for z in measure.Z[1::2]}
    assert all(z.tobytes() in odd for z in sample.Z)


# -- rows that are not probabilities -----------------------------------------------------------------------
def test_the_rows_are_checked_in_the_pass_for_the_prior():
    Z = blind(2, 5)
    with pytest.raises(ValueError, match=r"^Z: row 2 sums to 2; each row"):
        make_posterior(Z * np.array([1, 1, 2, 1, 1])[:, None, None], pd.RangeIndex(3), pd.RangeIndex(3))
