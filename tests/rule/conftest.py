"""Share data and solved rules among the tests of this folder."""

import numpy as np
import pytest

from optfair import solve
from optfair.constraints import as_constraints
from optfair.dual.posterior import check_posterior
from optfair.rule.options import Options
from optfair.rule.problem import FairProblem
from optfair.utils.parallel import one_blas_thread
from tests.problems import KINDS, blind


@pytest.fixture(scope="session")
def make_tilted():
    """Return a function that makes aware posteriors (n, A, m) whose groups differ more than those of `problems`."""

    def make(n, A, m, seed):
        rng = np.random.default_rng(seed)
        rng.dirichlet(np.full(A * m, 0.4), n)
        group, Q, tilt = rng.integers(0, A, n), rng.dirichlet(np.full(m, 0.5), n), rng.uniform(0.2, 1, (A, m))
        Q = Q * tilt[group]
        Z = np.zeros((n, A, m))
        Z[np.arange(n), group] = Q / Q.sum(axis=1, keepdims=True)
        return Z

    return make


@pytest.fixture(scope="session")
def prepare():
    """Return a function that states a problem; measure : arguments of `check_posterior`."""

    def make(Z, criterion, tolerance=None, costs=None, measure=None, **options):
        posterior = check_posterior(Z, n_jobs=1, **(measure or {}))
        return FairProblem.prepare(posterior, as_constraints(criterion, tolerance), costs, Options(**options))

    return make


@pytest.fixture(scope="session")
def many_rows():
    """Return more rows than are their own sketch, aware and blind."""
    return {kind: make(23, 46_000, 3, 3) for kind, make in KINDS.items()}


@pytest.fixture(scope="session")
def Z():
    """Return the posteriors of `rule`."""
    return blind(0, n=300)


@pytest.fixture(scope="session")
def rule(Z):
    """Return a rule with named groups and classes that is undecided on some rows."""
    return solve(Z, "eo", 0.01, groups=["a", "b", "c"], classes=["low", "mid", "high"], random_state=0, n_jobs=1)


@pytest.fixture
def path(rule, tmp_path):
    """Save `rule`; return its file."""
    path = tmp_path / "rule.json"
    rule.save(path)
    return path


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Limit BLAS once for all tests of a module: to set the limit anew for each pass takes longer than small passes."""
    with one_blas_thread():
        yield
