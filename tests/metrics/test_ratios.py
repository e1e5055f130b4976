"""Check the interval of a ratio of rates by simulation and at its limits, and its tests against SciPy's."""

import numpy as np
import pytest
from scipy import stats

from optfair.metrics.ratios import rate_ratio


@pytest.mark.parametrize("rates", [(0.1, 0.3), (0.4, 0.5), (0.05, 0.05), (0.9, 0.95)])
@pytest.mark.parametrize("people", [(40, 60), (200, 300), (50, 5000)])
def test_the_interval_covers(rates, people):
    """Check coverage of at least the level, up to the noise of 600 draws (three standard errors)."""
    rng, level, draws = np.random.default_rng(0), 0.9, 600
    truth = rates[0] / rates[1]
    covered = []
    for _ in range(draws):
        hits = rng.binomial(people, rates)
        ratio = rate_ratio(tuple(hits / people), people, level, exact=True)
        covered.append(ratio.low <= truth <= ratio.high)
    assert np.mean(covered) >= level - 3 * np.sqrt(level * (1 - level) / draws)


def test_with_many_people_the_interval_is_that_of_the_delta_method():
    """log(p₁/p₂) has variance (1 − p₁)/(n₁p₁) + (1 − p₂)/(n₂p₂)."""
    p, n = (0.3, 0.5), (400_000, 700_000)
    ratio = rate_ratio(p, n, 0.95, exact=False)
    width = 1.959964 * np.sqrt(sum((1 - rate) / (k * rate) for rate, k in zip(p, n, strict=True)))
    assert np.log([ratio.low, ratio.high]) == pytest.approx(np.log(0.6) + np.array([-width, width]), abs=2e-5)


@pytest.mark.parametrize(
    "hits, people", [((3, 30), (40, 90)), ((0, 5), (20, 25)), ((7, 7), (7, 30)), ((10, 0), (20, 8))]
)
def test_tests_are_those_of_scipy(hits, people):
    rates = tuple(h / n for h, n in zip(hits, people, strict=True))
    table = np.array([[h, n - h] for h, n in zip(hits, people, strict=True)])
    exact = rate_ratio(rates, people, 0.95, exact=True)
    assert exact.is_exact and exact.p_value == pytest.approx(stats.fisher_exact(table).pvalue)
    score = rate_ratio(rates, people, 0.95, exact=False)
    assert not score.is_exact
    assert score.p_value == pytest.approx(stats.chi2_contingency(table, correction=False).pvalue)


def test_limits():
    nobody = rate_ratio((0.0, 0.4), (30, 50), 0.95, exact=True)
    assert (nobody.value, nobody.low) == (0, 0) and 0 < nobody.high < 1
    unknown = rate_ratio((0.4, 0.0), (30, 50), 0.95, exact=True)
    assert np.isnan(unknown.value) and unknown.high == np.inf
    neither = rate_ratio((0.0, 0.0), (30, 50), 0.95, exact=False)
    assert neither.p_value == 1 and neither.low == 0 and neither.high == np.inf
    one = rate_ratio((1.0, 1.0), (30, 50), 0.95, exact=True)
    assert one.low < 1 < one.high and one.p_value == pytest.approx(1)
    ordered = [rate_ratio((0.3, 0.5), (n, n), 0.95, exact=False) for n in (20, 200, 2000)]
    widths = [ratio.high - ratio.low for ratio in ordered]
    assert widths == sorted(widths, reverse=True)
