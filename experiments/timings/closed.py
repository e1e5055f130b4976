"""Measure what recalibration does to a fitted model beside what fairness does: accuracy, violation, rarest answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.areas import mean
from experiments.base_models import CachedClassifier
from experiments.splits import SplitData
from experiments.timings.adult import arrays
from optfair import OptFairPost
from optfair.metrics import group_confusion

SOURCES = ("compas", "adult-occupation", "enem-2019", "acs-government")
MODELS = ("logistic", "balanced", "boosted")
SETTINGS = (("dp", 0.05), ("dp", 0.02), ("eo", 0.05), ("eo", 0.02))
SEEDS = (0, 1, 2)
ROWS = 20_000  # of each data set, at most: 30 % for the model, 30 % for the rule, 40 % to measure on
Scores = dict[str, tuple[float, float, float]]


def run(*, small: bool, repeat: int) -> None:
    """Print means over seeds: accuracy / violation, and the share of the class that the model answers least."""
    for source in SOURCES[: 1 if small else None]:
        for name in MODELS:
            lines = [_measure(source, name, seed, ROWS // 10 if small else ROWS) for seed in SEEDS]
            for row in lines[0]:
                accuracy, violation, share = (mean([line[row][k] for line in lines]).value for k in range(3))
                print(
                    f"{source} {name}, {row}: {accuracy:.4f} / {violation:.4f}, rarest answer {share:.4f}", flush=True
                )


def _measure(source: str, name: str, seed: int, rows: int) -> Scores:
    """Return (accuracy, violation, share of the rarest answer) on new people, by rule."""
    train, test = arrays(source, seed, "random", rows)
    half = len(train.y) // 2
    model = _classifier(name, seed).fit(train.X[:half], train.y[:half])
    own = np.eye(len(model.classes_))[model.predict_proba(test.X).argmax(axis=1)]
    rarest = int(own.mean(axis=0).argmin())
    scores = {f"plain model, {c}": _score(own, test, model.classes_, c, rarest) for c in ("dp", "eo")}
    groups = CachedClassifier(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)))
    for calibration in ("posterior", "groups"):
        options: dict[str, Any] = {"calibration": calibration, "group_estimator": groups, "random_state": 0}
        rule = OptFairPost(FrozenEstimator(model), criterion="dp", tolerance=1.0, **options)
        rule.fit(train.X[half:], train.y[half:], sensitive_features=train.group[half:])
        for criterion, tolerance, fair in _rules(rule):
            h = fair.predict_proba(test.X)
            key = f"calibration={calibration}, {criterion} {tolerance:g}"
            scores[key] = _score(h, test, model.classes_, criterion, rarest)
    return scores


def _rules(rule: OptFairPost) -> Iterator[tuple[str, float, OptFairPost]]:
    """Yield criterion, tolerance and rule; first the one without constraints."""
    yield "dp", 1.0, rule
    for criterion, tolerance in SETTINGS:
        yield criterion, tolerance, rule.with_criterion(criterion, tolerance)


def _classifier(name: str, seed: int) -> Any:
    if name == "boosted":
        return HistGradientBoostingClassifier(max_iter=60, random_state=seed)
    weight = "balanced" if name == "balanced" else None
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, class_weight=weight))


def _score(h: np.ndarray, test: SplitData, classes: Any, criterion: str, rarest: int) -> tuple[float, float, float]:
    confusion = group_confusion(test.y, h, sensitive_features=test.group, classes=classes)
    accuracy = float(np.trace(confusion.tensor.sum(axis=0)))
    return accuracy, confusion.violation(criterion), float(h[:, rarest].mean())
