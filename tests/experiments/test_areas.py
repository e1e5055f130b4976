"""Check the area under a frontier by theorems about its envelope, and the intervals of means."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from experiments.areas import Mean, area, envelope, mean

# Hundredths: far enough from each other for slopes to differ.
SHARES = st.integers(0, 100).map(lambda k: k / 100)
POINTS = st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=12)


@given(POINTS)
def test_the_envelope_is_concave_never_falls_and_is_above_all_points(points):
    v, f = envelope(points)
    slopes = np.diff(f) / np.diff(v)
    assert (np.diff(v) > 0).all() and (slopes > 0).all()
    assert (np.diff(slopes) < 1e-9).all()
    for violation, accuracy in points:
        assert np.interp(violation, v, f) >= accuracy - 1e-9


@given(POINTS)
def test_every_corner_of_the_envelope_is_a_point(points):
    v, f = envelope(points)
    assert set(zip(v, f, strict=True)) <= set(points)


def test_areas_of_known_triangles():
    # A line from (0, 0.5) to (1, 1): the mean is halfway.
    assert area([(1.0, 1.0)], 1.0, 0.5) == pytest.approx(0.75)
    # As accurate as plain training without any violation: a rectangle.
    assert area([(0.0, 1.0), (1.0, 1.0)], 1.0, 0.5) == pytest.approx(1.0)
    # Up to 0.9 at a quarter, then to 1.0: two trapezia.
    by_hand = 0.25 * (0.5 + 0.9) / 2 + 0.75 * (0.9 + 1.0) / 2
    assert area([(0.25, 0.9), (1.0, 1.0)], 1.0, 0.5) == pytest.approx(by_hand)
    # In units of the largest violation.
    assert area([(0.025, 0.9), (0.1, 1.0)], 0.1, 0.5) == pytest.approx(by_hand)


def test_a_rule_less_fair_than_plain_counts_as_far_as_it_lifts_the_envelope():
    assert area([(2.0, 0.8), (1.0, 1.0)], 1.0, 0.5) == pytest.approx(0.75)
    lifted = area([(2.0, 2.0), (1.0, 1.0)], 1.0, 0.5)  # the line to (2, 2) is at 1.25 above plain
    assert lifted == pytest.approx((0.5 + 1.25) / 2)


def test_where_plain_has_no_violation_the_best_fair_rule_counts():
    assert area([(0.0, 0.7), (0.1, 0.9), (0.0, 0.6)], 0.0, 0.5) == 0.7


@given(POINTS, st.tuples(SHARES, SHARES), SHARES, SHARES)
def test_another_rule_never_lowers_the_area(points, extra, v_max, constant):
    assert area([*points, extra], v_max, constant) >= area(points, v_max, constant) - 1e-9


@given(POINTS, SHARES, SHARES, st.randoms(use_true_random=False))
def test_the_order_of_the_rules_does_not_matter(points, v_max, constant, random):
    shuffled = random.sample(points, len(points))
    assert area(shuffled, v_max, constant) == area(points, v_max, constant)


@given(POINTS, SHARES, SHARES)
def test_the_area_is_between_the_constant_answer_and_the_best_rule(points, v_max, constant):
    best = max(constant, *(accuracy for _, accuracy in points))
    assert constant - 1e-9 <= area(points, v_max, constant) <= best + 1e-9


def test_below_the_floor_nothing_is_gained_or_lost():
    # The same line from the floor on, however it was reached.
    assert area([(0.1, 0.8), (1.0, 1.0)], 1.0, 0.5, 0.2) == area([(0.1, 0.8), (1.0, 1.0)], 1.0, 0.75, 0.2)
    # A line from (0, 0.5) to (1, 1), from 0.2 on.
    assert area([(1.0, 1.0)], 1.0, 0.5, 0.2) == pytest.approx((0.6 + 1.0) / 2)
    # Where plain itself is below the floor, its accuracy, or that of a fairer rule that is better.
    assert area([(0.05, 0.7), (0.1, 0.9)], 0.1, 0.5, 0.2) == 0.9


@given(POINTS, SHARES, SHARES, SHARES)
def test_the_area_from_the_floor_is_the_mean_of_the_envelope(points, v_max, constant, floor):
    v, f = envelope([(0.0, constant), *points])
    width = v_max - floor
    grid = floor + width * (np.arange(4000) + 0.5) / 4000 if width > 0 else v_max
    assert area(points, v_max, constant, floor) == pytest.approx(np.interp(grid, v, f).mean(), abs=2e-4)


def test_the_interval_is_students():
    values = [0.1, 0.3, 0.2]
    result = mean(values)
    low, high = student.interval(0.90, 2, loc=0.2, scale=np.std(values, ddof=1) / np.sqrt(3))
    assert result.value == pytest.approx(0.2)
    assert (result.value - result.half, result.value + result.half) == pytest.approx((low, high))


def test_one_seed_has_no_interval_and_no_verdict():
    result = mean([0.4])
    assert np.isnan(result.half) and result.n == 1
    assert result.verdict == "within noise"


@pytest.mark.parametrize(
    ("value", "half", "verdict"),
    [(0.2, 0.1, "won"), (-0.2, 0.1, "lost"), (0.1, 0.2, "within noise"), (-0.1, 0.2, "within noise")],
)
def test_verdicts(value, half, verdict):
    assert Mean(value, half, 3).verdict == verdict


def test_intervals_widened_for_splits_that_overlap():
    result = mean([0.1, 0.3, 0.2, 0.25, 0.15])
    assert result.widened(0.0) == result
    # Nadeau and Bengio: the variance of the mean is (1/n + test/train) s².
    spread = np.std([0.1, 0.3, 0.2, 0.25, 0.15], ddof=1)
    by_hand = student.ppf(0.95, 4) * spread * np.sqrt(1 / 5 + 2 / 3)
    assert result.widened(2 / 3).half == pytest.approx(by_hand)
    assert result.widened(2 / 3).value == result.value


@pytest.mark.parametrize("seeds", [3, 5])
def test_equal_methods_differ_too_often_unless_the_interval_is_widened(seeds):
    """Compare two methods with the same error rate; the test part of each seed is 40 % of the same rows."""
    rng = np.random.default_rng(0)
    plain = widened = 0
    for _ in range(400):
        gain = rng.choice([-1.0, 0.0, 1.0], 1000, p=[0.1, 0.8, 0.1])  # of each row: right − right
        result = mean([float(rng.permutation(gain)[:400].mean()) for _ in range(seeds)])
        plain += result.verdict != "within noise"
        widened += result.widened(0.4 / 0.6).verdict != "within noise"
    assert plain / 400 > 0.14 and 0.02 < widened / 400 < 0.14
