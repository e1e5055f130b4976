"""`make bench-solver`: how fast and how well `optfair.solve` solves, beside HiGHS and the paper's proximal gradient.

Every time is also given in *reads*: one read is ``Z.sum()``, best of five, in the same run. A solve is the whole call
(validation, sketch, polish, certificate, determinism), best of ``--repeat``. Memory is the peak of the resident
anonymous memory above what it was with Z in place.

    python benchmarks/solver.py [--small] [--repeat 3]        ACS rows need $OPTFAIR_DATA
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import optfair
from optfair.constraints import Constraint, compile_rows
from optfair.dual.exact import solve_exact
from optfair.dual.penalty import Box
from optfair.dual.problem import DualProblem
from optfair.parallel import n_threads
from optfair.posterior import check_posterior


def synthetic(n: int, A: int, m: int, seed: int = 0) -> np.ndarray:
    """Z (n, A, m) float32: a multinomial logistic model of six Gaussian features."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 6), dtype=np.float32) @ (0.75 * rng.standard_normal((6, A * m))).astype(np.float32)
    Z += 0.5 * rng.standard_normal(A * m).astype(np.float32)
    Z -= Z.max(axis=1, keepdims=True)
    np.exp(Z, out=Z)
    Z /= Z.sum(axis=1, keepdims=True)
    return Z.reshape(n, A, m)


def acs_education(folder: Path) -> dict[str, np.ndarray]:
    """Blind and aware Z of ACSIncome 2018: 9 races, education (SCHL) in six levels, joint logistic model."""
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    data = pd.read_parquet(folder / "acsincome2018" / "acsincome2018_46states_binary.parquet")
    level = np.digitize(data["SCHL"], [16, 18, 20, 21, 22])
    race = data["RAC1P"].to_numpy(int) - 1
    X = data.drop(columns=["SCHL", "RAC1P"])
    numbers = ["AGEP", "WKHP"]
    encode = make_column_transformer(
        (StandardScaler(), numbers),
        (OneHotEncoder(handle_unknown="ignore", min_frequency=50), [c for c in X if c not in numbers]),
    )
    model = make_pipeline(encode, LogisticRegression(tol=1e-2))
    rows = np.random.default_rng(0).permutation(len(X))[:60_000]
    model.fit(X.iloc[rows], (race * 6 + level)[rows])
    blind = np.zeros((len(X), 54), dtype=np.float32)
    for start in range(0, len(X), 100_000):
        blind[start : start + 100_000, model.classes_] = model.predict_proba(X.iloc[start : start + 100_000])
    blind = blind.reshape(-1, 9, 6)
    everyone = np.arange(len(X))
    own = blind[everyone, race]
    aware = np.zeros_like(blind)
    aware[everyone, race] = own / own.sum(axis=1, keepdims=True)
    return {"ACS blind": blind, "ACS aware": aware}


def best(function: Callable[[], object], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_beyond(function: Callable[[], object]) -> float:
    """Peak of RssAnon above its value now, in bytes, watched every 2 ms; NaN where /proc is not there."""

    def resident() -> float:
        try:
            lines = Path("/proc/self/status").read_text().splitlines()
        except OSError:
            return float("nan")
        return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

    gc.collect()
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)  # else memory that earlier runs left with the allocator would hide the peak
    base, peak, done = resident(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            peak[0] = max(peak[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    function()
    done.set()
    watcher.join()
    return peak[0] - base


def header(title: str, read: float) -> None:
    print(f"\n{title}; one read {read * 1e3:.1f} ms")
    print("criterion  tau      seconds   reads  passes   KKT      gap   violation  excess   memory beyond Z")


def solve_line(Z: np.ndarray, criterion: str, tau: float | str, read: float, repeat: int) -> float:
    rules: list[optfair.FairRule] = []

    def run() -> None:
        rules.append(optfair.solve(Z, criterion, 0.01, temperature=tau, random_state=0))

    seconds = best(run, repeat)
    memory = peak_beyond(run)
    c = rules[-1].certificate
    shown = tau if isinstance(tau, str) else f"{tau:g}"
    print(
        f"{criterion:<9}  {shown:<6} {seconds:9.2f} {seconds / read:7.0f} {c.passes:7d}  {c.residual:.1e}  {c.gap:.1e}"
        f"  {c.violation:.5f}  {c.excess:.0e}  {memory / 1e6:6.0f} MB = {memory / Z.nbytes:.2f} Z",
        flush=True,
    )
    return seconds


def one_pass(Z: np.ndarray, read: float) -> None:
    """One pass of the kernel over all rows, in reads."""
    posterior = check_posterior(Z)
    rows = compile_rows([Constraint("eo", 0.01)], posterior.groups, posterior.classes, posterior.prior)
    A, m = posterior.prior.shape
    for tau in (0.02, 0.005):
        problem = DualProblem(posterior, rows, np.tile(np.eye(m), (A, 1)), np.full(A * m, tau))
        lam = np.zeros(len(rows))
        seconds = best(lambda problem=problem, lam=lam: problem.evaluate(lam), 7)
        print(f"one pass, tau {tau:g}: {seconds:.3f} s = {seconds / read:.1f} reads")


def exact_line(Z: np.ndarray, criterion: str, n: int = 20_000, limit: float = 60.0) -> None:
    """HiGHS and ours on the first n rows."""
    part = Z[:n]
    posterior = check_posterior(part)
    rows = compile_rows([Constraint(criterion, 0.01)], posterior.groups, posterior.classes, posterior.prior)
    A, m = posterior.prior.shape
    start = time.perf_counter()
    try:
        value = f"optimum {solve_exact(posterior, rows, np.tile(np.eye(m), (A, 1)), limit).value:.6f}"
    except TimeoutError:
        value = "not finished"
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    c = optfair.solve(part, criterion, 0.01, random_state=0).certificate
    ours = time.perf_counter() - start
    print(
        f"{criterion}, {n} rows: HiGHS {seconds:.1f} s, {value}; optfair {ours:.2f} s, accuracy {c.accuracy:.6f}, "
        f"upper bound {c.upper_bound:.6f}; HiGHS takes {seconds / ours:.0f} times as long"
    )


def proximal_gradient(Z: np.ndarray, criterion: str, tau: float, passes: int = 100) -> None:
    """The paper's algorithm 2 with its step on the smooth part: λ ← prox(λ + η D(h)), η found by backtracking."""
    posterior = check_posterior(Z)
    rows = compile_rows([Constraint(criterion, 0.01)], posterior.groups, posterior.classes, posterior.prior)
    A, m = posterior.prior.shape
    problem = DualProblem(posterior, rows, np.tile(np.eye(m), (A, 1)), np.full(A * m, tau))
    box = Box(rows.lower, rows.upper)
    lam, step = np.zeros(len(rows)), 1.0
    start = time.perf_counter()
    state = problem.evaluate(lam)
    while problem.passes < passes:
        trial = box.prox(lam + step * state.values, np.full(len(rows), step))
        candidate = problem.evaluate(trial)
        move = trial - lam
        if candidate.smooth > state.smooth - state.values @ move + move @ move / (2 * step) + 1e-8:
            step /= 2
            continue
        lam, state, step = trial, candidate, step * 1.2
    seconds = time.perf_counter() - start
    print(
        f"{criterion}, tau {tau:g}: proximal gradient after {problem.passes} passes ({seconds:.1f} s): "
        f"KKT {box.residual(lam, state.values):.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a tenth of the rows, to try the script")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    shrink = 10 if arguments.small else 1
    print(f"optfair {optfair.__version__}, numpy {np.__version__}, {n_threads(None)} threads")

    Z = synthetic(1_600_000 // shrink, 5, 5)
    read = best(lambda: Z.sum(), 5)
    header(f"synthetic {Z.shape}, float32, {Z.nbytes / 1e6:.0f} MB", read)
    reference = {}
    for criterion in ("dp", "eo"):
        for tau in (0.02, 0.005, "auto"):
            seconds = solve_line(Z, criterion, tau, read, arguments.repeat)
            if tau == "auto":
                reference[criterion] = seconds
    one_pass(Z, read)
    for criterion, seconds in reference.items():
        path = best(lambda criterion=criterion: optfair.frontier(Z, criterion, 20, random_state=0), 1)
        print(f"{criterion}, frontier of 20 points: {path:.1f} s = {path / seconds:.1f} times one solve (tau auto)")
    for criterion in ("dp", "eo"):
        exact_line(Z, criterion)
        proximal_gradient(Z, criterion, 0.02)

    Z = synthetic(200_000 // shrink, 8, 16)
    read = best(lambda: Z.sum(), 5)
    header(f"synthetic {Z.shape}, float32, {Z.nbytes / 1e6:.0f} MB, EO has 2,048 rows", read)
    for tau in (0.02, 0.005, "auto"):
        solve_line(Z, "eo", tau, read, 1)

    folder = os.environ.get("OPTFAIR_DATA")
    if folder is None:
        print("\nACS: set OPTFAIR_DATA to the folder with the data.")
        return
    for name, Z in acs_education(Path(folder)).items():
        Z = Z[::shrink]
        read = best(lambda Z=Z: Z.sum(), 5)
        header(f"{name} {Z.shape}, float32, {Z.nbytes / 1e6:.0f} MB", read)
        for criterion in ("dp", "eo"):
            for tau in (0.02, 0.005, "auto"):
                solve_line(Z, criterion, tau, read, 1)


if __name__ == "__main__":
    main()
