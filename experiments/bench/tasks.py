"""Do one task with whatever release of optfair is on the path; run as a process: ``python -m experiments.bench.tasks``.

A task takes the folder of its data and its options, and returns facts. Its data come from memory maps and a small
problem is solved before the clock starts, so that neither the data nor imports are timed.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import optfair
from experiments.bench.clock import measured, scores
from experiments.bench.people import fitted_model, load_people
from experiments.bench.reads import counted_numbers
from optfair import OptFairPost

Facts = dict[str, Any]
PREDICTIONS, ONE_ROW_CALLS = 5, 200  # best of so many
PREDICT_FIT = 20_000  # people that the model of the predictions is fitted on


def solve(folder: Path, criterion: str, tolerance: float, gap: float) -> Facts:
    """Solve for a rule. reads : see `counted_numbers`. sums : seconds in units of ``Z.sum()`` on this machine."""
    Z = np.load(folder / "Z.npy", mmap_mode="r")
    read = min(_seconds(Z.sum) for _ in range(3))
    with counted_numbers() as numbers, measured() as time:
        rule = optfair.solve(Z, criterion, tolerance, gap=gap, random_state=0)
    return {**time, "reads": sum(numbers) / Z.size, "sums": time["seconds"] / read, **_certificate(rule, gap)}


def frontier(folder: Path, criterion: str, tolerance: float, points: int) -> Facts:
    """Walk a frontier of some points. solves : its seconds in units of one solve, best of three."""
    Z = np.load(folder / "Z.npy", mmap_mode="r")
    one = min(_seconds(lambda: optfair.solve(Z, criterion, tolerance, random_state=0)) for _ in range(3))
    with measured() as time:
        path = optfair.frontier(Z, criterion, points, random_state=0)
    largest = {"largest_gap": float(path.table["gap"].max()), "largest_excess": float(path.table["excess"].max())}
    return {**time, "solve_seconds": one, "solves": time["seconds"] / one, "points": len(path.table), **largest}


def post(folder: Path, criterion: str, tolerance: float) -> Facts:
    """Fit OptFairPost around naive Bayes."""
    X, a, y = load_people(folder)
    model = OptFairPost(GaussianNB(), criterion=criterion, tolerance=tolerance, random_state=0)
    with measured() as time:
        model.fit(X, y, sensitive_features=a)
    return {**time, "stages": model.seconds_, **_certificate(model.rule_, model.gap)}


def fitted(folder: Path, criterion: str, tolerance: float, aware: bool = True) -> Facts:
    """Fit OptFairPost around a fitted model, which reads the group in the last column of X if the rule is aware."""
    X, a, y = load_people(folder, group_in_X=aware)
    base = fitted_model(folder, group_in_X=aware)
    options: Facts = {"criterion": criterion, "tolerance": tolerance, "random_state": 0}
    given = {} if aware else {"sensitive_features": a}
    if aware:
        options |= {"awareness": "aware", "sensitive_features": X.shape[1] - 1}
    model = OptFairPost(FrozenEstimator(base), **options)
    with measured() as time:
        model.fit(X, y, **given)
    # What the models take, those of the groups included, is not ours; with the group in X it is one call of the base.
    models = _seconds(lambda: base.predict_proba(X)) if aware else model.seconds_["models"]
    facts = {**time, "after_models": time["seconds"] - models, "stages": model.seconds_}
    return {**facts, **_certificate(model.rule_, model.gap), **scores(model.predict(X), a, y, criterion)}


def predict(folder: Path) -> Facts:
    """Predict all rows, and single ones, beside the plain model. over_thrice_base : seconds above 3 times its own."""
    X, a, y = load_people(folder)
    few = slice(PREDICT_FIT)
    plain = LogisticRegression().fit(X[few], y[few])
    model = OptFairPost(LogisticRegression(), cv=2, random_state=0).fit(X[few], y[few], sensitive_features=a[few])
    base, ours = (min(_seconds(partial(m.predict, X)) for _ in range(PREDICTIONS)) for m in (plain, model))
    one_base, one = (_one_row_seconds(m, X) for m in (plain, model))
    with measured() as time:
        model.predict(X)
    return {
        "seconds": ours,
        "cpu": time["cpu"],
        "base": base,
        "over_thrice_base": ours - 3 * base,
        "one_row": one,
        "one_row_over_base": one - one_base,
    }


def _one_row_seconds(model: Any, X: np.ndarray) -> float:
    """Return the median seconds of the prediction of a single row."""
    return float(np.median([_seconds(partial(model.predict, X[i : i + 1])) for i in range(ONE_ROW_CALLS)]))


def _seconds(function: Callable[[], object]) -> float:
    with measured() as time:
        function()
    return time["seconds"]


def _certificate(rule: Any, asked: float) -> Facts:
    c = rule.certificate
    proven = c.status.name in ("OPTIMAL", "UNCONSTRAINED") and c.gap <= asked
    lam = rule.multipliers["multiplier"]
    facts = {"passes": c.passes, "gap": c.gap, "excess": c.excess, "status": c.status.name, "proven": bool(proven)}
    facts |= {"rule_accuracy": c.accuracy, "upper_bound": c.upper_bound}
    return facts | {"bounds": len(lam), "active": int((lam != 0).sum())}


def _warm_up() -> None:
    Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
    optfair.solve(Z, "dp", 0.01, random_state=0)


TASKS: dict[str, Callable[..., Facts]] = {
    "solve": solve,
    "frontier": frontier,
    "post": post,
    "fitted": fitted,
    "predict": predict,
}


def main(task: str, folder: str, options: str) -> None:
    """Print the facts of a task as JSON, with the place that optfair was imported from."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small groups, convergence of the base models
        _warm_up()
        facts = TASKS[task](Path(folder), **json.loads(options))
    print(json.dumps(facts | {"package": str(Path(optfair.__file__).resolve().parent)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
