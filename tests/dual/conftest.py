"""Share small dual problems among the tests of this folder."""

from dataclasses import replace

import numpy as np
import pytest

from optfair import MinimumRate, Ratio
from optfair.dual.problem import DualProblem, TemperedDual
from optfair.dual.settings import SETTINGS
from optfair.utils.parallel import one_blas_thread
from tests.problems import KINDS, compiled, weights

N, A, M = 80, 3, 3
OFFSET = np.random.default_rng(3).normal(scale=0.3, size=(N, M))
CELL_TAU = np.random.default_rng(4).uniform(0.05, 0.3, A * M)
CASES = {
    "plain": {},
    "weights": {"w": weights(0, N)},
    "offset": {"offset": OFFSET},
    "temperatures": {"tau": CELL_TAU},
    "all": {"w": weights(1, N), "offset": OFFSET, "tau": CELL_TAU},
    "aware": {"kind": "aware", "tau": CELL_TAU},
    "one-sided": {"criterion": [Ratio("dp"), MinimumRate("recall", 0.2)], "w": weights(2, N)},
}


@pytest.fixture(scope="session")
def make_dual():
    """Return a function that makes (a problem at its temperatures, its rows)."""

    def make(kind="blind", criterion="eo", tau=0.1, seed=0, n=N, groups=A, classes=M, **options):
        Z = KINDS[kind](seed, n, groups, classes)
        posterior, rows = compiled(Z, criterion, 0.02 if isinstance(criterion, str) else None, **options)
        problem = DualProblem(posterior, rows.matrix(posterior.prior), np.tile(np.eye(classes), (groups, 1)))
        return TemperedDual(problem, np.broadcast_to(tau, groups * classes), np.random.default_rng(0)), rows

    return make


@pytest.fixture(params=CASES)
def make_case(request, make_dual):
    """Return a function that makes one of the cases, new each time."""
    return lambda: make_dual(**CASES[request.param])


@pytest.fixture
def case(make_case):
    """Return (a problem at its temperatures, its rows)."""
    return make_case()


@pytest.fixture
def lam(case):
    """Return multipliers of the rows of the case, at random."""
    return 0.05 * np.random.default_rng(5).standard_normal(len(case[1]))


@pytest.fixture
def small_sketches(monkeypatch):
    """Let sketches have a few hundred rows, so that a few thousand rows are many."""
    settings = replace(SETTINGS, sketch_rows=200, local_rows=500)
    for name in ("posterior", "problem", "solver"):
        monkeypatch.setattr(f"optfair.dual.{name}.SETTINGS", settings)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Limit BLAS once for all tests of a module: to set the limit anew for each pass takes longer than small passes."""
    with one_blas_thread():
        yield
