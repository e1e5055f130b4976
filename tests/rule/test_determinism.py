"""Test what deterministic predictions change: every number recomputed by naive code."""

from dataclasses import replace

import numpy as np
import pytest

from optfair import MinimumRate, solve
from optfair.rule.determinism import Determinism
from optfair.rule.keys import new_key
from tests.problems import KINDS, aware, confusion, costs, gaps, true_class_rate, weights


@pytest.mark.parametrize(
    "options", [{}, {"costs": costs(6)}, {"sample_weight": weights(6, 200)}], ids=["plain", "costs", "weights"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_determinism(kind, options):
    Z = KINDS[kind](6, 200)
    w = options.get("sample_weight", np.ones(200))
    rule = solve(Z, "eo", 0.01, temperature=0.02, n_jobs=1, **options)
    d = rule.determinism
    h = rule.predict_proba(Z)
    hard = np.eye(3)[h.argmax(axis=1)]
    for rate, accuracy, violation in (
        (h, d.accuracy_randomised, d.violation_randomised),
        (hard, d.accuracy_argmax, d.violation_argmax),
    ):
        J = confusion(Z, rate, w)
        assert accuracy == pytest.approx(np.trace(J.sum(axis=0)), abs=1e-10)
        assert violation == pytest.approx(np.abs(list(gaps("eo", J, J.sum(axis=2)).values())).max(), abs=1e-10)
    undecided = h.max(axis=1) < 0.99
    assert d.undecided == pytest.approx(np.average(undecided, weights=w), abs=1e-12)
    assert 0 < d.undecided < 1
    assert d.distinct == len(np.unique(Z[undecided].reshape(undecided.sum(), -1), axis=0)) / undecided.sum() == 1.0


def test_distinct_counts_people_with_the_same_row_once():
    Z = np.repeat(aware(7, 60), 5, axis=0)
    d = solve(Z, "eo", 0.01, temperature=0.02, n_jobs=1).determinism
    assert d.distinct == pytest.approx(1 / 5)


def test_rows_that_count_are_found_among_those_that_do_not():
    """Every second row, of which an even draw takes some, has no weight; few rows are distinct."""
    Z = np.repeat(aware(8, 50), 2_000, axis=0)[np.random.default_rng(0).permutation(100_000)]
    weight = np.arange(100_000) % 2
    d = solve(Z, "eo", 0.01, temperature=0.02, sample_weight=weight, n_jobs=1, random_state=0).determinism
    assert d.violation_randomised <= d.violation_hashed < 1 and d.distinct < 0.1


def test_determinism_of_a_plain_argmax():
    Z = aware(7, 60)
    d = solve(Z, "dp", 1.0, n_jobs=1).determinism
    assert (d.undecided, d.distinct) == (0.0, 1.0)
    assert d.accuracy_argmax == d.accuracy_randomised and d.violation_argmax == d.violation_randomised


def test_determinism_with_an_offset_counts_the_rows_the_rule_is_undecided_on():
    Z = np.repeat(aware(8, 60), 5, axis=0)
    Z[0::5] = aware(9, 60)  # one row in five is someone else
    offset = np.zeros((300, 3))
    offset[0::5, 0] = 5.0  # and is decided by its offset
    rule = solve(Z, "eo", 0.01, offset=offset, temperature=0.02, n_jobs=1)
    undecided = rule.predict_proba(Z, offset=offset).max(axis=1) < 0.99
    assert rule.determinism.undecided == pytest.approx(undecided.mean())
    expected = len(np.unique(Z[undecided].reshape(undecided.sum(), -1), axis=0)) / undecided.sum()
    assert rule.determinism.distinct == pytest.approx(expected)


def test_the_excess_of_the_argmax_counts_rows_of_every_kind():
    Z = aware(6, 200)
    rule = solve(Z, MinimumRate("recall", 0.3), temperature=0.05, n_jobs=1)
    hard = np.eye(3)[rule.predict_proba(Z).argmax(axis=1)]
    J = confusion(Z, hard)
    recalls = [true_class_rate(J, J.sum(axis=2), [a], j, j) for a in range(3) for j in range(3)]
    assert rule.determinism.excess_argmax == pytest.approx(max(0.3 - min(recalls), 0), abs=1e-10)
    assert rule.determinism.excess_argmax > 1e-3 and rule.determinism.violation_argmax == 0  # no row is a gap


def test_distinct_rows_stray_no_further_than_the_randomised_rule():
    d = solve(aware(6, 200), "eo", 0.01, temperature=0.02, n_jobs=1).determinism
    assert d.violation_hashed == d.violation_randomised


def test_the_violation_of_hashed_decisions_is_its_quantile_over_keys():
    """Ten people share each row, so that they flip together: predictions without keys, under many secrets."""
    Z = np.repeat(aware(7, 60), 10, axis=0)
    rule = solve(Z, "dp", 0.01, temperature=0.1, n_jobs=1)
    violations = []
    for seed in range(1000):
        J = confusion(Z, np.eye(3)[replace(rule, key=new_key(seed)).predict(Z, n_jobs=1)])
        violations.append(max(map(abs, gaps("dp", J, J.sum(axis=2)).values())))
    low, high = np.quantile(violations, [0.9, 0.98])
    assert low <= rule.determinism.violation_hashed <= high
    assert low > 5 * rule.certificate.violation


def test_the_table_names_what_hashed_decisions_do_where_few_rows_are_distinct():
    repeated, distinct = (
        solve(np.repeat(aware(7, 60), k, axis=0), "eo", 0.01, temperature=0.02, n_jobs=1).determinism for k in (5, 1)
    )
    assert f"violation up to {repeated.violation_hashed:.6f}: only 20.0% of undecided rows" in str(repeated)
    assert "hashed" not in str(distinct)


def test_bounds_of_a_promised_rule_are_said_to_be_tightened():
    parts = dict.fromkeys(("undecided", "distinct", "accuracy_randomised", "violation_randomised"), 0.5)
    parts |= dict.fromkeys(("accuracy_argmax", "violation_argmax", "violation_hashed"), 0.5)
    assert "by 0.001100 (with a promise: the tightened bounds)" in str(Determinism(**parts, excess_argmax=0.0011))
    assert "tightened" not in str(Determinism(**parts, excess_argmax=0.0))
