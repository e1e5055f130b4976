"""Compare what is done about unknown groups, to infer them or to leave people out, in a known world and on Adult."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.timings.adult import arrays, measured
from optfair import OptFairPost
from optfair.datasets import make_fair_classification
from optfair.synthetic.world import World

CRITERIA = ("dp", "eo")
TOLERANCE = 0.02
FITTED = 10_000  # people of the synthetic world; of Adult all that there are
SEEDS = (0, 1, 2, 3, 4)
Hiding = Callable[[np.ndarray, np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def run(*, small: bool, repeat: int) -> None:
    """Print means over seeds, with standard errors."""
    seeds = SEEDS[: 2 if small else None]
    for source, score in (("synthetic", _synthetic), ("adult-occupation", _adult)):
        for name, hide in HIDINGS.items():
            lines = [score(seed, hide) for seed in seeds]
            print(f"{source}, hidden {name}", flush=True)
            for key in lines[0]:
                values = np.array([line[key] for line in lines])
                error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
                parts = [f"{mean:.4f} ± {e:.4f}" for mean, e in zip(values.mean(axis=0), error, strict=True)]
                print(f"  {key}: accuracy {parts[0]}, violation {parts[1]}", flush=True)


# -- who is of unknown group ---------------------------------------------------------------------------------
def _at_random(x: np.ndarray, y: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.random(len(x)) < 0.5


def _by_features(x: np.ndarray, y: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Hide nine of ten where a score of the features is above its median, and one of ten below."""
    return rng.random(len(x)) < np.where(x > np.median(x), 0.9, 0.1)


def _by_group(x: np.ndarray, y: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Hide twice as many of the first group as of the others: no method that infers them can know."""
    return rng.random(len(x)) < np.where(group == np.sort(np.unique(group))[0], 0.6, 0.3)


HIDINGS: dict[str, Hiding] = {"at random": _at_random, "by features": _by_features, "by group": _by_group}


# -- what is fitted ------------------------------------------------------------------------------------------
def _models(X: Any, y: np.ndarray, group: np.ndarray, is_hidden: np.ndarray) -> dict[str, OptFairPost]:
    """Return the model of all groups, the one that infers those hidden, and the one of the others alone."""
    base = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    partial = group.astype(object)
    partial[is_hidden] = None
    rows = np.flatnonzero(~is_hidden)
    taken = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
    options: dict[str, Any] = {"posterior": "factored", "tolerance": TOLERANCE, "random_state": 0}
    return {
        "all groups": OptFairPost(base, **options).fit(X, y, sensitive_features=group),
        "inferred": OptFairPost(base, **options, missing="infer").fit(X, y, sensitive_features=partial),
        "left out": OptFairPost(base, **options).fit(taken, y[rows], sensitive_features=group[rows]),
    }


def _synthetic(seed: int, hide: Hiding) -> dict[str, tuple[float, float]]:
    """Return accuracy and violation in a world whose posteriors are known."""
    data = make_fair_classification(FITTED, n_classes=3, n_groups=3, bias=1.5, direct_bias=0.5, random_state=seed)
    world: World = data.world
    X, y, group = data.X, np.asarray(data.y), np.asarray(data.sensitive_features)
    score = X.to_numpy() @ (world.centres[0] - world.centres[1])
    models = _models(X, y, group, hide(score, y, group, np.random.default_rng(seed)))
    scores = {}
    for name, model in models.items():
        for criterion in CRITERIA:
            result = world.evaluate(model.with_criterion(criterion, TOLERANCE).predict_proba, criterion, n=50_000)
            scores[f"{criterion}, {name}"] = (result.accuracy, result.violation)
    return scores


def _adult(seed: int, hide: Hiding) -> dict[str, tuple[float, float]]:
    """Return accuracy and violation on people of Adult whom nobody was fitted on, all of known group."""
    train, test = arrays("adult-occupation", seed, "random")
    score = LogisticRegression(max_iter=300).fit(train.X, train.group).decision_function(train.X)
    score = score if score.ndim == 1 else score[:, 0]
    models = _models(train.X, train.y, train.group, hide(score, train.y, train.group, np.random.default_rng(seed)))
    scores = {}
    for name, model in models.items():
        for criterion in CRITERIA:
            h = model.with_criterion(criterion, TOLERANCE).predict_proba(test.X)
            result = measured(h, test, model.classes_, criterion)
            scores[f"{criterion}, {name}"] = (result["accuracy"], result["violation"])
    return scores
