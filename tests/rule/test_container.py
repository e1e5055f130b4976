"""Solve where rows are kept in files: whatever has the two verbs of a `Measure` gets the answer of an array."""

import itertools
from dataclasses import asdict, replace
from functools import reduce
from operator import add

import numpy as np
import pytest

from optfair import InfeasibleError, MinimumRate
from optfair.constraints import as_constraints
from optfair.dual.measure import Block, RowValues
from optfair.dual.posterior import as_rows, check_posterior, make_posterior
from optfair.dual.settings import SETTINGS
from optfair.rule.driver import solve_problem
from optfair.rule.options import Options
from optfair.rule.problem import FairProblem
from optfair.rule.tolerance_path import loosest_constraints, tolerance_path, with_tolerance
from optfair.utils.parallel import BLOCK_ROWS
from optfair.utils.sampling import systematic_draw
from tests.problems import blind

N = 100_000
NUMBER = itertools.count()  # of the files that hold a number per row


class FileMeasure:
    """Rows in .npz files, of which one is in memory at a time; numbers of the rows are files too."""

    def __init__(self, folder, measure, leverage=None):
        self.folder, self.measure, self.leverage = folder, measure, leverage
        for name in ("n", "n_cells", "n_classes", "prior", "groups", "classes", "dtype", "value_noise", "has_offset"):
            setattr(self, name, getattr(measure, name))
        self.n_reads = self.most_rows = 0

    def parts(self, width=None, row_values=None):
        """Yield blocks, file by file."""
        for start in range(0, self.n, BLOCK_ROWS):
            part = np.load(self.folder / f"{start}.npz")
            rows = {name: part[name] if name in part.files else None for name in ("weight", "offset", "cell")}
            kept = None if row_values is None else np.load(self.folder / f"{row_values.numbers}-{start}.npy")
            leverage = None if self.leverage is None else np.load(self.folder / f"{self.leverage}-{start}.npy")
            Z = as_rows(part["Z"])
            step = max(256, min(BLOCK_ROWS, 1_048_576 // (width or self.n_cells)))  # as arrays are cut into blocks
            for low in range(0, len(Z), step):
                cut = slice(low, low + step)
                columns = (rows["weight"], rows["offset"], leverage, rows["cell"], kept)
                weight, offset, lever, cell, values = (None if c is None else c[cut] for c in columns)
                self.n_reads, self.most_rows = self.n_reads + 1, max(self.most_rows, len(Z[cut]))
                yield Block(Z[cut], weight, offset, start + low, lever, cell, values)

    def sum_blocks(self, function, width=None, *, keep=False):
        results = [function(block) for block in self.parts(width)]
        *columns, last = zip(*results, strict=True)
        sums = [reduce(add, column) for column in columns]
        if not keep:
            return (*sums, reduce(add, last))
        name, numbers = f"values{next(NUMBER)}", np.concatenate(last)
        for start in range(0, self.n, BLOCK_ROWS):
            np.save(self.folder / f"{name}-{start}.npy", numbers[start : start + BLOCK_ROWS])
        return (*sums, RowValues(name, numbers.mean()))

    def draw(self, size, mass=None, rng=None, row_values=None, scale=1.0):
        if mass is None:
            index, inverse = np.arange(0, self.n, max(self.n // size, 1)), None
        else:
            masses = np.concatenate([mass(block) for block in self.parts(row_values=row_values)])
            index, inverse = systematic_draw(masses, size, rng)
        rows = []
        for block in self.parts():
            here = index[(index >= block.start) & (index < block.start + len(block.Z))] - block.start
            columns = (block.Z, block.weight, block.offset, block.leverage, block.cell)
            rows.append([None if c is None else c[here] for c in columns])
        Z, weight, offset, leverage, cell = (
            None if column[0] is None else np.concatenate(column) for column in zip(*rows, strict=True)
        )
        Z = Z.reshape(-1, *self.prior.shape)
        sample = make_posterior(Z, self.groups, self.classes, weight, offset, 1, cell)
        if inverse is not None:
            weight = (scale * (np.ones(len(Z)) if weight is None else weight)) * inverse
        return replace(sample, prior=self.prior, weight=weight, leverage=leverage)

    def with_sample(self, seed):
        prior = self.prior.ravel()
        inverse = np.divide(1.0, prior, out=np.zeros(self.n_cells), where=prior > 0) / np.count_nonzero(prior)

        def leverage(block):
            return ((block.Z @ inverse.astype(block.Z.dtype)).astype(np.float32),)

        def mass(block):
            product = 0.5 + 0.5 * np.asarray(block.leverage)
            return product if block.weight is None else product * block.weight

        (kept,) = self.sum_blocks(leverage, keep=True)
        measure = FileMeasure(self.folder, self.measure, kept.numbers)
        sample = measure.draw(SETTINGS.sketch_rows, mass, np.random.default_rng(seed))
        return measure, sample.normalised().with_prior()

    def without_offset(self):
        return self  # there is none here


@pytest.fixture(scope="module")
def measures(tmp_path_factory):
    """Return the same rows as an array and as files, with weights."""
    Z, folder = blind(5, N, 3, 3), tmp_path_factory.mktemp("parts")
    array = check_posterior(Z, sample_weight=np.random.default_rng(0).random(N), n_jobs=1)
    for start in range(0, N, BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        np.savez(folder / f"{start}.npz", Z=Z[rows], weight=array.weight[rows])
    return array, FileMeasure(folder, array)


def state(measures, criterion, tolerance=None):
    constraints, options = as_constraints(criterion, tolerance), Options(random_state=0)
    return [FairProblem.prepare(measure, constraints, None, options) for measure in measures]


def assert_same(rule, other):
    np.testing.assert_array_equal(rule.weights, other.weights)
    np.testing.assert_array_equal(rule.multipliers["multiplier"], other.multipliers["multiplier"])
    assert asdict(replace(rule.certificate, seconds=0)) == asdict(replace(other.certificate, seconds=0))
    assert rule.determinism == other.determinism


@pytest.mark.parametrize("criterion, tolerance", [("dp", 0.01), ("eo", 0.02), ("oae", 0.5)])
def test_files_get_the_answer_of_an_array_bit_by_bit(measures, criterion, tolerance):
    in_memory, in_files = (solve_problem(problem).rule for problem in state(measures, criterion, tolerance))
    assert_same(in_memory, in_files)
    assert in_files.certificate.excess == 0 and in_files.certificate.gap <= 1e-3


def test_the_path_of_tolerances_runs_on_files(measures):
    constraints = as_constraints("dp")
    problems = state(measures, loosest_constraints(constraints))
    paths = [tolerance_path(problem, [0.05, 0.01]) for problem in problems]
    for rule, other in zip(*(path.rules for path in paths), strict=True):
        assert_same(rule, other)


def test_infeasible_requests_are_refused_on_files(measures):
    request = [*with_tolerance(as_constraints("dp"), 0.01), MinimumRate("recall", 0.95)]
    errors = []
    for problem in state(measures, request):
        with pytest.raises(InfeasibleError) as caught:
            solve_problem(problem)
        errors.append(caught.value)
    assert errors[0].rows == errors[1].rows
    assert errors[0].loosening == errors[1].loosening


def test_no_more_than_a_block_is_read_at_a_time(measures):
    problem = state(measures[1:], "dp", 0.01)[0]
    passes = solve_problem(problem).rule.certificate.passes
    assert problem.posterior.n_reads > passes > 0 and problem.posterior.most_rows <= BLOCK_ROWS < N / 3
