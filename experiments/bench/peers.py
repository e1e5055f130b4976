"""Do the task of a fitted model with another library; run as a process in the environment of the peers.

They choose thresholds for each group, so the group is known when predicting, and there are two classes; with more there
is nothing to compare with. Each is asked for the same tolerance in its own measure of unfairness (fairlearn for none at
all), and one scorer judges the decisions of all.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.clock import measured, scores
from experiments.bench.people import fitted_model, load_people

Fit = Callable[..., Callable[[], Any]]


def fairlearn(base: Any, X: np.ndarray, a: np.ndarray, y: np.ndarray, criterion: str, tolerance: float) -> Any:
    """Fit ThresholdOptimizer, which knows no tolerance."""
    module = import_module("fairlearn.postprocessing")
    constraints = {"dp": "demographic_parity", "eo": "equalized_odds"}[criterion]
    model = module.ThresholdOptimizer(
        estimator=base, prefit=True, constraints=constraints, predict_method="predict_proba"
    )
    model.fit(X, y, sensitive_features=a)
    return lambda: model.predict(X, sensitive_features=a, random_state=0)


def oxonfair(base: Any, X: np.ndarray, a: np.ndarray, y: np.ndarray, criterion: str, tolerance: float) -> Any:
    """Fit FairPredictor: accuracy, with a bound on the difference between groups."""
    module, metrics = import_module("oxonfair"), import_module("oxonfair.utils.group_metrics")
    bounded = {"dp": metrics.demographic_parity, "eo": metrics.equalized_odds}[criterion]
    data = module.DataDict(y, X, a)
    model = module.FairPredictor(base, data)
    model.fit(metrics.accuracy, bounded, tolerance)
    return lambda: np.asarray(model.predict(data)).ravel()


def error_parity(base: Any, X: np.ndarray, a: np.ndarray, y: np.ndarray, criterion: str, tolerance: float) -> Any:
    """Fit RelaxedThresholdOptimizer."""
    module = import_module("error_parity")
    model = module.RelaxedThresholdOptimizer(
        predictor=lambda rows: base.predict_proba(rows)[:, -1],
        constraint={"dp": "demographic_parity", "eo": "equalized_odds"}[criterion],
        tolerance=tolerance,
        false_pos_cost=1.0,
        false_neg_cost=1.0,
        seed=0,
    )
    model.fit(X=X, y=y, group=a)
    return lambda: model.predict(X, group=a)


PEERS: dict[str, Fit] = {"fairlearn": fairlearn, "oxonfair": oxonfair, "error-parity": error_parity}


def main(name: str, folder: str, options: str) -> None:
    """Print the facts of a fit as JSON; a first fit on few people imports what is needed, untimed."""
    arguments = json.loads(options)
    base = fitted_model(Path(folder), group_in_X=True)
    X, a, y = load_people(Path(folder), group_in_X=True)
    few = slice(2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PEERS[name](base, X[few], a[few], y[few], **arguments)
        with measured() as time:
            predict = PEERS[name](base, X, a, y, **arguments)
        with measured() as models:
            base.predict_proba(X)
        facts = {**time, "after_models": time["seconds"] - models["seconds"]}
        facts |= scores(np.asarray(predict()), a, y, arguments["criterion"])
    print(json.dumps(facts))


if __name__ == "__main__":
    main(*sys.argv[1:])
