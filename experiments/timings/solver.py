"""Time `optfair.solve`, beside HiGHS and the paper's proximal gradient.

Every time is also given in *reads*: one read is ``Z.sum()``, best of five, in the same run. A solve is the whole call
(validation, sketch, polish, certificate, determinism), best of ``repeat``. Memory is the peak of the resident
anonymous memory above what it was with Z in place. The rows of ACS need $OPTFAIR_DATA.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import numpy as np

import optfair
from experiments.timings.clock import best_seconds, peak_memory, synthetic_posteriors
from experiments.timings.internals import SmoothDual, exact_optimum, n_threads
from optfair import Constraint
from optfair.errors import DataFileError

TEMPERATURES = (0.02, 0.005, "auto")


def run(*, small: bool, repeat: int) -> None:
    """Print all timings. small : a tenth of the rows."""
    shrink = 10 if small else 1
    print(f"optfair {optfair.__version__}, numpy {np.__version__}, {n_threads(None)} threads")
    _five_by_five(1_600_000 // shrink, repeat)
    Z = synthetic_posteriors(200_000 // shrink, 8, 16)
    read = _header(f"synthetic {Z.shape}, float32, {Z.nbytes / 1e6:.0f} MB, EO has 2,048 rows", Z)
    for tau in TEMPERATURES:
        _solve(Z, "eo", tau, read, 1)
    folder = os.environ.get("OPTFAIR_DATA")
    if folder is None:
        raise DataFileError("the rows of ACS are missing: set OPTFAIR_DATA to the folder with the data.")
    for name, Z in acs_education(Path(folder)).items():
        Z = Z[::shrink]
        read = _header(f"{name} {Z.shape}, float32, {Z.nbytes / 1e6:.0f} MB", Z)
        for criterion in ("dp", "eo"):
            for tau in TEMPERATURES:
                _solve(Z, criterion, tau, read, 1)


def _five_by_five(n: int, repeat: int) -> None:
    Z = synthetic_posteriors(n, 5, 5)
    read = _header(f"synthetic {Z.shape}, float32, {Z.nbytes / 1e6:.0f} MB", Z)
    auto = {}
    for criterion in ("dp", "eo"):
        for tau in TEMPERATURES:
            auto[criterion] = _solve(Z, criterion, tau, read, repeat)  # of the last, "auto"
    _one_pass(Z, read)
    for criterion, seconds in auto.items():
        path, _ = best_seconds(partial(optfair.frontier, Z, criterion, 20, random_state=0), 1)
        print(f"{criterion}, frontier of 20 points: {path:.1f} s = {path / seconds:.1f} times one solve (tau auto)")
    for criterion in ("dp", "eo"):
        _exact(Z, criterion)
        _proximal_gradient(Z, criterion, 0.02)


def _header(title: str, Z: np.ndarray) -> float:
    """Print the head of a table, and return the seconds of one read."""
    read, _ = best_seconds(lambda: Z.sum(), 5)
    print(f"\n{title}; one read {read * 1e3:.1f} ms")
    print("criterion  tau      seconds   reads  passes   KKT      gap   violation  excess   memory beyond Z")
    return read


def _solve(Z: np.ndarray, criterion: str, tau: float | str, read: float, repeat: int) -> float:
    def solve() -> optfair.FairRule:
        return optfair.solve(Z, criterion, 0.01, temperature=tau, random_state=0)

    seconds, rule = best_seconds(solve, repeat)
    memory = peak_memory(solve)
    c = rule.certificate
    text = tau if isinstance(tau, str) else f"{tau:g}"
    print(
        f"{criterion:<9}  {text:<6} {seconds:9.2f} {seconds / read:7.0f} {c.passes:7d}  {c.residual:.1e}  {c.gap:.1e}"
        f"  {c.violation:.5f}  {c.excess:.0e}  {memory / 1e6:6.0f} MB = {memory / Z.nbytes:.2f} Z",
        flush=True,
    )
    return seconds


def _one_pass(Z: np.ndarray, read: float) -> None:
    """Print one pass of the kernel over all rows, in reads."""
    for tau in (0.02, 0.005):
        dual = SmoothDual(Z, Constraint("eo", 0.01), tau)
        lam = np.zeros(dual.n_rows)
        seconds, _ = best_seconds(partial(dual.evaluate, lam), 7)
        print(f"one pass, tau {tau:g}: {seconds:.3f} s = {seconds / read:.1f} reads")


def _exact(Z: np.ndarray, criterion: str, n: int = 20_000, limit: float = 60.0) -> None:
    """Print HiGHS and ours on the first n rows."""
    part = Z[:n]
    start = time.perf_counter()
    try:
        value = f"optimum {exact_optimum(part, Constraint(criterion, 0.01), limit):.6f}"
    except TimeoutError:
        value = "not finished"
    seconds = time.perf_counter() - start
    ours, rule = best_seconds(lambda: optfair.solve(part, criterion, 0.01, random_state=0), 1)
    c = rule.certificate
    print(
        f"{criterion}, {n} rows: HiGHS {seconds:.1f} s, {value}; optfair {ours:.2f} s, accuracy {c.accuracy:.6f}, "
        f"upper bound {c.upper_bound:.6f}; HiGHS takes {seconds / ours:.0f} times as long"
    )


def _proximal_gradient(Z: np.ndarray, criterion: str, tau: float, passes: int = 100) -> None:
    """Print the paper's algorithm 2 with its step on the smooth part: λ ← prox(λ + η D(h)), η by backtracking."""
    dual = SmoothDual(Z, Constraint(criterion, 0.01), tau)
    lam, step = np.zeros(dual.n_rows), 1.0
    start = time.perf_counter()
    smooth, values = dual.evaluate(lam)
    while dual.passes < passes:
        trial = dual.prox(lam + step * values, step)
        trial_smooth, trial_values = dual.evaluate(trial)
        move = trial - lam
        if trial_smooth > smooth - values @ move + move @ move / (2 * step) + 1e-8:
            step /= 2
            continue
        lam, smooth, values, step = trial, trial_smooth, trial_values, step * 1.2
    seconds = time.perf_counter() - start
    print(
        f"{criterion}, tau {tau:g}: proximal gradient after {dual.passes} passes ({seconds:.1f} s): "
        f"KKT {dual.residual(lam, values):.1e}"
    )


def acs_education(folder: Path) -> dict[str, np.ndarray]:
    """Return blind and aware Z of ACSIncome 2018: 9 races, education (SCHL) in six levels, joint logistic model."""
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
    sample = np.random.default_rng(0).permutation(len(X))[:60_000]
    model.fit(X.iloc[sample], (race * 6 + level)[sample])
    blind = np.zeros((len(X), 54), dtype=np.float32)
    for start in range(0, len(X), 100_000):
        blind[start : start + 100_000, model.classes_] = model.predict_proba(X.iloc[start : start + 100_000])
    Z = blind.reshape(-1, 9, 6)
    rows = np.arange(len(X))
    aware = np.zeros_like(Z)
    aware[rows, race] = Z[rows, race] / Z[rows, race].sum(axis=1, keepdims=True)
    return {"ACS blind": Z, "ACS aware": aware}
