"""Solve on rows in files: the answer of an array, whatever the files are like, in the memory of a few batches."""

import tracemalloc
from dataclasses import asdict, replace

import numpy as np
import pytest

from optfair import InfeasibleError, MinimumRate, Ratio, frontier, read_parquet, solve
from optfair.dual.measure import RowValues
from optfair.rule.certificate import assess
from optfair.rule.determinism import determinism
from optfair.storage import parts
from tests.problems import aware, blind, compiled, costs, weights
from tests.storage.helpers import CUTS, NAMES, WatchedThreads, cell_names, pa, pq, row_table, write_files

N = 100_000  # so many that local sketches pay
FIGURES = ("accuracy", "value", "upper_bound", "violation", "excess", "residual")


@pytest.fixture(scope="module")
def Z():
    """Return rows whose groups and classes are both uncertain."""
    return blind(5, N, 3, 3)


@pytest.fixture(scope="module")
def table(Z):
    """Return them with weights and offsets."""
    return row_table(Z, weights(5, N), np.random.default_rng(5).normal(0, 0.05, (N, 3)))


@pytest.fixture(scope="module")
def cuts(table, tmp_path_factory):
    """Return the same rows, cut in several ways: (folder, rows of a part)."""
    root = tmp_path_factory.mktemp("cuts")
    return {
        name: (write_files(root / name, table, n_files, group_rows), part_rows)
        for name, (n_files, group_rows, part_rows) in CUTS.items()
    }


def files(cut, **columns):
    folder, part_rows = cut
    return read_parquet(folder, part_rows=part_rows, **columns)


def array_columns(table, columns):
    """The arguments of an array that columns of files stand for."""
    arguments = {"weight": ("sample_weight", ["w"]), "offset": ("offset", ["u_0", "u_1", "u_2"])}
    values = {
        name: np.column_stack([table[column].to_numpy() for column in names])
        for name, names in map(arguments.get, columns)
    }
    return {name: value if name == "offset" else value[:, 0] for name, value in values.items()}


# -- the same answer ---------------------------------------------------------------------------------------------
QUESTIONS = {
    "dp": ({"criterion": "dp", "tolerance": 0.01}, {}),
    "eo, weights": ({"criterion": "eo", "tolerance": 0.02}, {"weight": "w"}),
    "oae, offsets": ({"criterion": "oae", "tolerance": 0.02}, {"offset": "u_*"}),
    "equality, all": ({"criterion": "dp", "tolerance": 0.0}, {"weight": "w", "offset": "u_*"}),
}


@pytest.mark.parametrize("kind", QUESTIONS)
def test_the_answer_does_not_depend_on_how_the_files_are_cut(kind, cuts):
    question, columns = QUESTIONS[kind]
    rules = [solve(files(cut, **columns), **question, random_state=0) for cut in cuts.values()]
    for rule in rules[1:]:
        for name in FIGURES:
            assert getattr(rule.certificate, name) == pytest.approx(getattr(rules[0].certificate, name), abs=1e-11), (
                name
            )
        assert rule.certificate.passes == rules[0].certificate.passes
        np.testing.assert_allclose(
            rule.multipliers["multiplier"], rules[0].multipliers["multiplier"], rtol=1e-7, atol=1e-9
        )
        assert asdict(rule.determinism) == pytest.approx(asdict(rules[0].determinism), abs=1e-9)


def test_the_answer_in_single_precision_does_not_depend_on_the_files(Z, tmp_path):
    table = row_table(Z.astype(np.float32))
    rules = []
    for name, (n_files, group_rows, part_rows) in CUTS.items():
        folder = write_files(tmp_path / name, table, n_files, group_rows)
        rules.append(solve(read_parquet(folder, part_rows=part_rows), "eo", 0.02, random_state=0))
    for rule in rules[1:]:
        assert rule.certificate.upper_bound == pytest.approx(rules[0].certificate.upper_bound, abs=1e-7)
        np.testing.assert_allclose(rule.multipliers["multiplier"], rules[0].multipliers["multiplier"], atol=1e-5)


def test_the_number_of_threads_changes_no_bit(cuts):
    cut = cuts["parts of several row groups"]
    rules = [solve(files(cut, weight="w"), "eo", 0.02, random_state=0, n_jobs=n_jobs) for n_jobs in (1, 2, 5)]
    for rule in rules[1:]:
        np.testing.assert_array_equal(rule.weights, rules[0].weights)
        np.testing.assert_array_equal(rule.multipliers["multiplier"], rules[0].multipliers["multiplier"])
        assert asdict(replace(rule.certificate, seconds=0)) == asdict(replace(rules[0].certificate, seconds=0))
        assert rule.determinism == rules[0].determinism


REQUESTS = {
    "dp": {"criterion": "dp", "tolerance": 0.01},
    "eo": {"criterion": "eo", "tolerance": 0.02},
    "oae": {"criterion": "oae", "tolerance": 0.02},
    "ratio": {"criterion": Ratio("dp", 0.8)},
    "minimum rate": {"criterion": MinimumRate("recall", 0.4)},
    "costs": {"criterion": "dp", "tolerance": 0.01, "costs": costs(3)},
    "merged, with offsets": {"criterion": "dp", "tolerance": 0.01, "offset": "u_*", "weight": "w"},
    "weights": {"criterion": "eo", "tolerance": 0.02, "weight": "w"},
    "temperature": {"criterion": "eo", "tolerance": 0.02, "temperature": 0.01},
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", REQUESTS)
def test_files_get_the_answer_of_an_array(kind, dtype, Z, table, cuts, tmp_path):
    """Both are within their bounds and their gaps, so that neither can be better than the bound of the other."""
    question = dict(REQUESTS[kind])
    columns = {name: question.pop(name) for name in ("weight", "offset") if name in question}
    cut = cuts["parts of several row groups"]
    if dtype == np.float32:
        other = table.cast(
            pa.schema([(field.name, pa.float32() if field.name[0] == "z" else field.type) for field in table.schema])
        )
        cut = write_files(tmp_path / "rows", other, 2, 5_000), 20_000
    rule = solve(files(cut, **columns), **question, random_state=0)
    array = solve(Z.astype(dtype), **question, **NAMES, **array_columns(table, columns), random_state=0)
    mine, theirs = rule.certificate, array.certificate
    assert mine.excess <= 1e-6 and theirs.excess <= 1e-6
    slack = 1e-6 * max(1.0, abs(theirs.value))
    assert mine.value <= theirs.upper_bound + slack and theirs.value <= mine.upper_bound + slack
    assert abs(mine.upper_bound - theirs.upper_bound) <= max(mine.gap, theirs.gap) + slack
    if "temperature" not in question:
        assert max(mine.gap, theirs.gap) <= 1e-3 * max(1.0, np.ptp(costs(3)))


def test_the_path_of_tolerances(Z, cuts):
    paths = [
        frontier(rows, "dp", tolerances=[0.1, 0.03, 0.01], random_state=0, **names).table
        for rows, names in ((Z, NAMES), (files(cuts["one part"]), {}), (files(cuts["files of small row groups"]), {}))
    ]
    for name in ("upper_bound", "value", "violation"):
        np.testing.assert_allclose(paths[1][name], paths[2][name], atol=1e-10)
        np.testing.assert_allclose(paths[0][name], paths[1][name], atol=2 * paths[0]["gap"].max())


def test_infeasible_requests_are_refused_on_files_as_on_arrays(Z, cuts):
    request = {"criterion": ["dp", MinimumRate("recall", 0.95)], "random_state": 0}
    errors = []
    for rows, names in ((Z, NAMES), *((files(cut), {}) for cut in cuts.values())):
        with pytest.raises(InfeasibleError) as caught:
            solve(rows, **request, **names)
        errors.append(caught.value)
    for error in errors[1:]:
        assert sorted(error.rows) == sorted(errors[0].rows)
        assert error.loosening == pytest.approx(errors[0].loosening, rel=1e-3)


def test_the_proof_is_that_of_all_rows(Z, table, cuts):
    """Certificate and determinism, computed again from the array by the rule that was solved on files."""
    rule = solve(files(cuts["files of small row groups"], weight="w"), "eo", 0.02, random_state=0)
    posterior, rows = compiled(Z, "eo", 0.02, table["w"].to_numpy(), **NAMES)
    matrix, lam = rows.matrix(posterior.prior), rule.multipliers["multiplier"].to_numpy()

    def probabilities(Z, offset, scores=None):
        return rule.predict_proba(Z.reshape(-1, 3, 3))

    assessment = assess(posterior, rows, matrix, probabilities, np.tile(np.eye(3), (3, 1)), lam)
    certificate = rule.certificate
    assert assessment.accuracy == pytest.approx(certificate.accuracy, abs=1e-9)
    assert assessment.violation == pytest.approx(certificate.violation, abs=1e-9)
    assert assessment.excess == certificate.excess == 0
    assert assessment.bound == pytest.approx(certificate.upper_bound, abs=1e-9)
    measured = determinism(posterior, rows, matrix, assessment, probabilities)
    assert asdict(rule.determinism) == pytest.approx(asdict(measured), abs=1e-3)


def test_what_needs_all_rows_in_memory_says_so(cuts):
    with pytest.raises(
        ValueError, match=r"^Z: this needs all 100,000 rows in memory, and they are in files; draw a"
    ) as error:
        solve(files(cuts["one part"]), "dp", 0.01, method="lp", random_state=0)
    assert "\n" not in str(error.value)


# -- the two verbs -----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def measures(cuts):
    """Return the measures of the rows with weights and offsets, cut in several ways."""
    return {name: files(cut, weight="w", offset="u_*").as_measure(n_jobs=2) for name, cut in cuts.items()}


def test_sums_are_those_of_numpy(Z, table, measures):
    rows, columns = Z.reshape(N, 9), array_columns(table, {"weight": "w", "offset": "u_*"})
    weight, offset = columns["sample_weight"] / columns["sample_weight"].mean(), columns["offset"]

    def function(block):
        numbers = block.start + np.arange(len(block.Z))
        return (
            block.weights @ block.Z,
            (block.weights[:, None] * block.offset).sum(axis=0),
            float(len(block.Z)),
            numbers @ block.Z,  # every block knows where it is
        )

    for measure in measures.values():
        for width in (None, 4_096):
            sums = measure.sum_blocks(function, width)
            np.testing.assert_allclose(sums[0], weight @ rows, rtol=1e-11)
            np.testing.assert_allclose(sums[1], (weight[:, None] * offset).sum(axis=0), rtol=1e-9)
            assert sums[2] == N
            np.testing.assert_allclose(sums[3], np.arange(N) @ rows, rtol=1e-11)
        assert measure.has_offset and not measure.without_offset().has_offset
        assert measure.without_offset().sum_blocks(lambda block: (int(block.offset is None),))[0] > 0


def test_numbers_of_rows_come_back(measures):
    """What a pass keeps is there in the next draw, with the rows that it belongs to."""
    for measure in measures.values():

        def numbers(block):
            return float(len(block.Z)), (block.start + np.arange(len(block.Z), dtype=np.float32)) / N

        def mass(block):
            np.testing.assert_array_equal(block.row_values, numbers(block)[1])
            return np.where(block.row_values < 0.01, 1.0, 0.0)

        n, kept = measure.sum_blocks(numbers, keep=True)
        assert n == N and isinstance(kept, RowValues) and kept.mean == pytest.approx(0.5, abs=1e-4)
        sample = measure.draw(2_000, mass, np.random.default_rng(0), kept, scale=3.0)
        np.testing.assert_array_equal(sample.Z, measure.draw(2_000, mass, None, kept).Z)
        assert sample.n == 1_000  # no others have any mass, so that all are taken, and each stands for itself
        np.testing.assert_array_equal(sample.prior, measure.prior)


def first_rows(block):
    """A mass for the last hundredth of the rows only."""
    return np.where(block.start + np.arange(len(block.Z)) >= 0.99 * N, 1.0, 1e-9)


def by_group(block):
    return block.Z[:, :3].sum(axis=1) + 0.01


@pytest.mark.parametrize("mass", [by_group, first_rows])
def test_a_sample_is_the_same_however_the_rows_are_cut(mass, measures, Z, table):
    samples = [measure.draw(900, mass, np.random.default_rng(3), scale=2.0) for measure in measures.values()]
    weight = table["w"].to_numpy() / table["w"].to_numpy().mean()
    for sample in samples:
        assert sample.n == 900 and sample.Z.shape == (900, 3, 3)
        for name in ("Z", "offset"):
            np.testing.assert_array_equal(getattr(sample, name), getattr(samples[0], name))
        np.testing.assert_allclose(sample.weight, samples[0].weight, rtol=1e-12)
    rows = np.flatnonzero(np.isin(Z[:, 0, 0], samples[0].Z[:, 0, 0]))
    np.testing.assert_array_equal(Z[rows], samples[0].Z)
    assert (samples[0].weight >= 2.0 * weight[rows] * (1 - 1e-12)).all()  # never expected more than once


def test_parts_that_offered_too_few_rows_are_read_again(cuts):
    """Nearly all of the mass is in the last of twelve parts."""
    for mass, n_readings in ((by_group, 1), (first_rows, 2)):
        client = WatchedThreads()
        measure = files(cuts["a part for each row group"]).on(client).as_measure()
        assert client.n_readings == 1
        measure.draw(900, mass, np.random.default_rng(3))
        assert client.n_readings == 1 + n_readings


def test_weighted_samples_are_unbiased(Z, table, measures):
    measure, weight = measures["one part"], table["w"].to_numpy()
    total = weight @ Z.reshape(N, 9) / weight.sum()
    means = []
    for seed in range(40):
        sample = measure.draw(
            2_000, lambda block: by_group(block) * block.weights, np.random.default_rng(seed), scale=1 / N
        )
        means.append(sample.weight @ sample.Z.reshape(-1, 9))
    error = np.std(means, axis=0) / np.sqrt(len(means))
    assert (np.abs(np.mean(means, axis=0) - total) < 4 * error).all() and (error < 0.01 * total.max()).all()


def test_samples_without_a_mass_are_evenly_spaced(Z, measures):
    for measure in measures.values():
        for size in (1_000, 40_000, 50_000):
            sample = measure.draw(size)
            np.testing.assert_array_equal(sample.Z, Z[:: N // size])
            np.testing.assert_array_equal(sample.prior, measure.prior)


def test_rows_that_were_all_kept_need_not_be_refused(Z, tmp_path):
    """Up to the second row that is evenly spaced the first reading keeps all."""
    measure = read_parquet(write_files(tmp_path / "rows", row_table(Z[:60_000]), 2)).as_measure()
    np.testing.assert_array_equal(measure.draw(60_000).Z, Z[:60_000])
    np.testing.assert_array_equal(measure.draw(10**9).Z, Z[:60_000])


def test_the_sample_for_sketches_speaks_of_rare_cells(cuts):
    measure = files(cuts["one part"]).as_measure()
    measured, sample = measure.with_sample(0)
    leverage = sample.leverage
    inverse = 1 / measure.prior.ravel() / 9
    np.testing.assert_allclose(leverage, sample.Z.reshape(-1, 9) @ inverse, rtol=1e-5)
    assert sample.weight.mean() == pytest.approx(1) and sample.prior == pytest.approx(measure.prior, abs=0.01)
    (mean,) = measured.sum_blocks(lambda block: (float(block.leverage.sum()),))
    assert mean / N == pytest.approx(1.0, rel=1e-5)  # Σ_c P_c / P_c / p


def test_aware_rows_with_an_empty_cell(tmp_path):
    Z = aware(2, 50_000, 3, 3)
    Z[:, 0, 1] += Z[:, 0, 2]
    Z[:, 0, 2] = 0
    rule = solve(read_parquet(write_files(tmp_path / "rows", row_table(Z), 2)), "dp", 0.01, random_state=0)
    assert rule.certificate.excess == 0 and rule.certificate.gap <= 1e-3


# -- memory ------------------------------------------------------------------------------------------------------
class Gauge:
    """The most bytes that Arrow held when a batch was handed over, and the most of NumPy, in millions."""

    def __init__(self, monkeypatch):
        plain, self.arrow = parts.FilePart.batches, 0.0

        def batches(part, *arguments):
            for batch in plain(part, *arguments):
                self.arrow = max(self.arrow, (pa.total_allocated_bytes() - self.before) / 1e6)
                yield batch

        monkeypatch.setattr(parts.FilePart, "batches", batches)

    def __enter__(self):
        self.arrow, self.before = 0.0, pa.total_allocated_bytes()
        tracemalloc.start()
        return self

    def __exit__(self, *error):
        self.numpy = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()


@pytest.mark.parametrize("group_rows", [10**9, 20_000], ids=["one huge row group", "small row groups"])
def test_memory_does_not_grow_with_the_rows(Z, tmp_path, group_rows, monkeypatch):
    monkeypatch.setattr(parts, "BATCH_ROWS", 16_384)
    table, peaks = row_table(Z[:90_000]), []
    for copies in (1, 10):
        folder = write_files(tmp_path / str(copies), pa.concat_tables([table] * copies), 1, group_rows)
        gauge = Gauge(monkeypatch)
        with gauge:
            rule = solve(read_parquet(folder), "dp", 0.01, random_state=0, n_jobs=1)
        assert rule.certificate.excess == 0
        peaks.append(gauge)
    assert 0 < peaks[1].arrow < 1.2 * peaks[0].arrow + 2 and peaks[1].arrow < 900_000 * 72 / 2e6
    assert 0 < peaks[1].numpy < 1.2 * peaks[0].numpy + 2


def test_a_thread_holds_a_batch_at_a_time(Z, tmp_path, monkeypatch):
    """Arrow's memory is that of a batch and of the pages behind it, for each of the threads."""
    monkeypatch.setattr(parts, "BATCH_ROWS", 8_192)
    folder, peaks = write_files(tmp_path / "rows", row_table(Z), 4, 10**9), {}
    for n_jobs in (1, 2):
        with Gauge(monkeypatch) as gauge:
            read_parquet(folder).as_measure(n_jobs=n_jobs)
        peaks[n_jobs] = gauge.arrow
    assert peaks[2] < 2.2 * peaks[1] + 1


def test_names_of_columns_with_dots_and_spaces(Z, tmp_path):
    names = cell_names(["a b", "c.d", "ü"], ["lo.w", "mid dle", "高"], "z.")
    table = row_table(Z[:1_000]).rename_columns(names).append_column("z", pa.array(np.zeros(1_000)))
    pq.write_table(table, tmp_path / "rows.parquet")
    measure = read_parquet(tmp_path / "rows.parquet", "z.*").as_measure()
    assert measure.groups.tolist() == ["a b", "c.d", "ü"] and measure.classes.tolist() == ["lo.w", "mid dle", "高"]
    np.testing.assert_array_equal(measure.Z, Z[:1_000])
