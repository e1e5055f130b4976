"""Compare rules that know the group with blind ones on new people, at the same tolerance and at the same violation."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.areas import envelope
from experiments.splits import SplitData
from experiments.timings.adult import arrays, measured
from optfair import OptFairPost

HIGH = ("1 medium", "2 high", "4th fifth", "5th fifth")  # classes that are one, where only two are compared
TASKS = (
    ("compas", True), ("enem-2019", True), ("acs-government", True),
    ("compas", False), ("enem-2019", False), ("adult-occupation", False),
)  # fmt: skip
TOLERANCES = (0.1, 0.05, 0.02, 0.01)
SHOWN = 0.02  # the tolerance whose rules are printed
SEEDS = (0, 1, 2, 3, 4)
FITTED, MEASURED = 4_000, 20_000  # people, at most


def run(*, small: bool, repeat: int) -> None:
    """Print means over seeds, with standard errors."""
    for source, binary in TASKS[: 1 if small else None]:
        lines = [_measure(source, seed, binary=binary) for seed in SEEDS[: 2 if small else None]]
        print(f"{source}{', two classes' * binary}", flush=True)
        for name in lines[0]:
            values = np.array([line[name] for line in lines])
            print(f"  {name}: {values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}", flush=True)


def _measure(source: str, seed: int, *, binary: bool) -> dict[str, float]:
    """Return scores of the rules, and how much more accurate the aware one is at the violation of the blind one."""
    train, test = (_part(part, binary=binary) for part in arrays(source, seed, "random"))
    scores: dict[str, float] = {}
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for awareness in ("blind", "aware"):
        base = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
        model = OptFairPost(base, tolerance=1.0, awareness=awareness, random_state=0)
        n = min(FITTED, len(train.y))
        model.fit(train.X[:n], train.y[:n], sensitive_features=train.group[:n])
        people = min(MEASURED, len(test.y))
        new = SplitData(test.X[:people], test.y[:people], test.group[:people])
        groups = {"sensitive_features": new.group} if awareness == "aware" else {}
        for criterion in ("dp", "eo"):
            for tolerance in (1.0, *TOLERANCES):
                rule = model.with_criterion(criterion, tolerance)
                result = measured(rule.predict_proba(new.X, **groups), new, model.classes_, criterion)
                points.setdefault((awareness, criterion), []).append((result["violation"], result["accuracy"]))
                if tolerance in (1.0, SHOWN):
                    key = f"{criterion} within {tolerance:g}, {awareness}"
                    scores |= {f"{key}, {name}": value for name, value in result.items()}
    for criterion in ("dp", "eo"):
        violation, accuracy = (scores[f"{criterion} within {SHOWN:g}, blind, {x}"] for x in ("violation", "accuracy"))
        constant = np.unique(test.y, return_counts=True)[1].max() / len(test.y)
        frontier = envelope([(0.0, constant), *points["aware", criterion]])
        scores[f"{criterion}, aware minus blind at its violation"] = float(np.interp(violation, *frontier)) - accuracy
    return scores


def _part(part: SplitData, *, binary: bool) -> SplitData:
    y = np.where(np.isin(part.y, HIGH), "high", "low") if binary else part.y
    return SplitData(part.X, y, part.group)
