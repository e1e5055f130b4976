"""Limits of a rate at all times at once: they solve their equation, and few sequences miss them, drifting or not."""

import math
from decimal import Decimal

import numpy as np
import pytest
from scipy import special

from optfair.monitoring.sequences import RATES_OF_GROWTH, rate_limits


def wealth(p, x, n):
    """M_n(p), written a second time, with numbers that do not overflow."""
    terms = [Decimal(t * x - n * math.log(1 - p + p * math.exp(t))).exp() for t in RATES_OF_GROWTH.tolist()]
    return float(min(sum(terms) / len(terms), Decimal("1e300")))


def brute_low(x, n, alpha, steps=4000):
    """The least p of a fine grid that is not excluded."""
    grid = np.linspace(0, 1, steps + 1)[:-1]
    return next(p for p in grid if wealth(p, x, n) < 1 / alpha), 1 / steps


@pytest.mark.parametrize(("x", "n"), [(0, 9), (9, 9), (3, 20), (17.25, 60), (80, 300)])
@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_limits_solve_their_equation(x, n, alpha):
    low, high = rate_limits(np.array([x]), np.array([n]), alpha)
    for limit, hits in ((low[0], x), (1 - high[0], n - x)):
        least, step = brute_low(hits, n, alpha)
        assert least - step - 1e-12 <= limit <= least + 1e-12
        assert limit == 0 or wealth(limit, hits, n) == pytest.approx(1 / alpha, rel=1e-6)


def test_limits_contain_the_rate_and_narrow():
    n = 10.0 ** np.arange(1, 9)
    low, high = rate_limits(0.3 * n, n, 0.01)
    assert (low <= 0.3).all() and (high >= 0.3).all() and (np.diff(high - low) < 0).all()
    wide = rate_limits(0.3 * n, n, 0.0001)
    assert (wide[0] <= low).all() and (wide[1] >= high).all()
    assert rate_limits(np.zeros(1), np.zeros(1), 0.05) == (0, 1)


def test_they_are_no_wider_than_those_of_a_beta_mixture():
    """Robbins' beta mixture, for constant rates only, beyond a thousand people."""
    for n in (3000.0, 1e5, 1e7):
        for p in (0.05, 0.3, 0.5):
            low = rate_limits(np.array([n * p]), np.array([n]), 0.001)[0][0]
            x = n * p
            evidence = special.betaln(0.5 + x, 0.5 + n - x) - special.betaln(0.5, 0.5)
            assert evidence - special.xlogy(x, low) - special.xlog1py(n - x, -low) <= np.log(1 / 0.002)


def misses(draw, runs, looks, alpha=0.05, seed=0):
    """How often a limit is ever on the wrong side of the mean of the p_i. draw : (rng, look) -> n, p, hits (runs,)."""
    rng = np.random.default_rng(seed)
    x, n, mean = np.zeros(runs), 0, 0.0
    missed = np.zeros((2, runs), bool)
    for look in range(looks):
        size, p, hits = draw(rng, look)
        x, n, mean = x + hits, n + size, mean + size * p
        low, high = rate_limits(x, np.full(runs, n), alpha)
        missed |= np.array([low > mean / n, high < mean / n])
    return missed.mean(axis=1)


RUNS = 400


@pytest.mark.parametrize("drift", [0.0, 0.25])
def test_few_sequences_are_ever_outside(drift):
    def draw(rng, look):
        size, p = int(4 * 1.15**look), 0.3 + drift * np.sin(look / 5)
        return size, p, rng.binomial(size, p, RUNS)

    assert (misses(draw, RUNS, 50) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / RUNS)).all()


def test_probabilities_are_covered_too():
    def draw(rng, look):
        return 20, 0.2, rng.beta(0.2, 0.8, (RUNS, 20)).sum(axis=1)

    assert (misses(draw, RUNS, 40) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / RUNS)).all()
