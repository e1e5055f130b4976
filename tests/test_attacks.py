"""Ways the core was once broken, each with what must hold instead."""

import os
import threading
import time

import numpy as np
import pytest

from optfair import Constraint, InfeasibleError, MinimumRate, Ratio, Rows, RuleFileError, frontier, load_rule, solve
from optfair.parallel import map_blocks, one_blas_thread


def aware(n, A, m, seed):
    rng = np.random.default_rng(seed)
    rng.dirichlet(np.full(A * m, 0.4), n)
    group, Q, tilt = rng.integers(0, A, n), rng.dirichlet(np.full(m, 0.5), n), rng.uniform(0.2, 1, (A, m))
    Q = Q * tilt[group]
    Z = np.zeros((n, A, m))
    Z[np.arange(n), group] = Q / Q.sum(axis=1, keepdims=True)
    return Z


@pytest.mark.parametrize("mass", [1 - 9e-4, 1.0, 1 + 9e-4])
def test_the_cost_is_that_of_the_rule_even_if_rows_do_not_quite_sum_to_one(mass):
    Z, costs = aware(2000, 3, 3, 1) * mass, 1000 + (1 - np.eye(3))
    rule = solve(Z, "dp", 0.01, costs=costs, n_jobs=1)
    expected = -np.einsum("xai,xj,ij->", Z, rule.predict_proba(Z), costs) / len(Z)
    assert rule.certificate.value == pytest.approx(expected, abs=1e-8)
    assert rule.certificate.upper_bound >= expected


def test_the_exact_multipliers_have_the_signs_their_bounds_allow():
    Z = aware(300, 3, 3, 11)
    exact = solve(Z, Ratio("eo", 0.9965, "overall"), method="lp", random_state=0)
    dual = solve(Z, Ratio("eo", 0.9965, "overall"), random_state=0)
    assert (exact.multipliers["multiplier"] <= 0).all()
    assert exact.certificate.accuracy == pytest.approx(dual.certificate.accuracy, abs=2e-3)
    assert dual.certificate.upper_bound >= exact.certificate.upper_bound - 1e-9


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_not_stuck_behind_its_parents_pass():
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            map_blocks(lambda block: 0, 10, 1, 1)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                map_blocks(lambda block: 0, 10, 1, 1)
                os._exit(0)
            deadline = time.monotonic() + 20
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    os.kill(child, 9)
                    os.waitpid(child, 0)
                    pytest.fail("the child hangs")
                time.sleep(0.01)
    finally:
        stop.set()
        thread.join()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_limit_that_cannot_be_set_does_not_stop_anybody(monkeypatch):
    def broken():
        raise RuntimeError("no limit here")

    monkeypatch.setattr(one_blas_thread, "limit", broken)
    with one_blas_thread():
        pass


def test_only_its_own_key_opens_a_rule(tmp_path):
    Z = aware(500, 2, 3, 0)
    one, other = solve(Z, "eo", 0.01, n_jobs=1), solve(Z, "eo", 0.01, n_jobs=1)
    one.save(tmp_path / "rule.json")
    with pytest.raises(RuleFileError, match="not the 32-byte key"):
        load_rule(tmp_path / "rule.json", key=other.key)
    text = (tmp_path / "rule.json.key").read_text()
    (tmp_path / "rule.json.key").unlink()
    for key in (one.key, text, f"{text}0123456789abcdef {other.key.hex()}\n"):
        assert load_rule(tmp_path / "rule.json", key=key).key == one.key


def test_max_multiplier_is_kept():
    Z = aware(2000, 3, 3, 1)
    free = solve(Z, "dp", 0.001, n_jobs=1)
    held = solve(Z, "dp", 0.001, max_multiplier=1e-3, start=free, n_jobs=1)
    several = solve(
        aware(200, 3, 2, 10), [Constraint("eo", 0.0), Constraint("dp", 0.01)], max_multiplier=0.05, n_jobs=1
    )
    assert free.multipliers["multiplier"].abs().sum() > 0.1
    assert held.multipliers["multiplier"].abs().sum() <= 1e-3 * (1 + 1e-6)
    assert "max_multiplier is active" in held.certificate.status
    assert several.multipliers["multiplier"].abs().sum() <= 0.05 * (1 + 1e-6)
    with pytest.raises(ValueError, match=r"^max_multiplier: .* use method='dual'\.$"):
        solve(Z, "dp", 0.01, max_multiplier=1.0, method="lp")


def test_a_row_no_rule_can_move_does_not_hide_the_rest_of_the_conflict():
    Z = aware(500, 3, 3, 1)
    D = np.zeros((1, 3, 3, 3))
    D[0, 0] = 1
    share = Z.mean(axis=0).sum(axis=1)[0]

    def wishes(wider):
        return [Rows(D, lower=share + 0.01 - wider), MinimumRate("recall", 0.95 - wider)]

    with pytest.raises(InfeasibleError) as error:
        solve(Z, wishes(0.0), n_jobs=1)
    solve(Z, wishes(error.value.loosening * 1.01), n_jobs=1)
    with pytest.raises(InfeasibleError):
        solve(Z, wishes(error.value.lower_bound * 0.95), n_jobs=1)
    with pytest.raises(InfeasibleError, match=r"Widening every bound by \d"):
        solve(Z, MinimumRate("recall", 0.95), method="lp", n_jobs=1)


def test_tolerance_zero_is_met_to_a_millionth():
    assert solve(aware(2000, 3, 3, 1), "dp", 0.0, n_jobs=1).certificate.excess <= 2e-6


def test_a_tolerance_per_group_does_not_move_along_a_frontier():
    with pytest.raises(ValueError, match="does not move along a frontier"):
        frontier(aware(200, 3, 3, 1), Constraint("dp", {0: 0.01}), [0.05])
