"""Time OptFairIn on Adult, beside the schedule of the released code run by our networks, seeds 1 to 3."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pandas as pd
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from experiments.timings.adult import NEAR, SEEDS, adult, measured, released
from experiments.timings.clock import one_thread
from optfair import OptFairIn
from optfair.errors import need_extra

SETTINGS = [("dp", t) for t in (0.001, 0.01, 0.05)] + [("eo", t) for t in (0.01, 0.02, 0.025, 0.03)]


def released_schedule(criterion: str, tolerance: float) -> OptFairIn:
    """Return what the released code does: 50 × 10 epochs (DP), 30 × 10 (EO), AdamW, batches of 128, one κ."""
    from optfair.nn import TorchClassifier

    linear = TorchClassifier("linear", epochs=10, batch_size=128, optimizer="adamw", lr=0.005, decay=0.8)
    rounds, step = (50, 0.05) if criterion == "dp" else (30, 0.03)
    fixed: dict[str, Any] = {
        "start": "zero",
        "step": step,
        "max_multiplier": 2.0,
        "shift": "global",
        "inner_epochs": 10,
    }
    return OptFairIn(linear, criterion=criterion, tolerance=tolerance, rounds=rounds, random_state=0, **fixed)


def run(*, small: bool, repeat: int) -> None:
    """Print accuracy, violation and processor seconds."""
    with one_thread(need_extra("torch", "python -m experiments.timings")):
        _run(SEEDS[: 1 if small else None])


def _run(seeds: Sequence[int]) -> None:
    theirs = {(criterion, tolerance): pair for criterion, tolerance, *pair in released("OptFairIn")}
    # As many steps of the solver in a round as pay; it goes on from the round before.
    base = LogisticRegression(C=100, max_iter=20)
    rows = []
    for seed in seeds:
        train, test = adult(seed)
        one_hot = [sparse.csr_array(part.X) for part in (train, test)]  # nine in ten entries are zero
        for criterion, tolerance in SETTINGS:
            ours = OptFairIn(base, criterion=criterion, tolerance=tolerance, rounds=20, random_state=seed)
            models: dict[str, tuple[Any, Any]] = {"ours": (ours, one_hot)}
            if (criterion, tolerance) == ("eo", 0.01):
                models["ours, lp"] = clone(ours).set_params(mixture="lp"), one_hot
            if (criterion, tolerance) in theirs:
                models["released schedule"] = released_schedule(criterion, tolerance), (train.X, test.X)
            for name, (model, (X_train, X_test)) in models.items():
                clock = time.process_time()
                model.fit(X_train, train.y, sensitive_features=train.group)
                seconds = time.process_time() - clock
                scores = measured(model.predict_proba(X_test), test, model.classes_, criterion)
                setting = {"method": name, "criterion": criterion, "tolerance": tolerance, "cpu": seconds}
                rows.append(setting | scores)
                print(seed, rows[-1], flush=True)
    mean = pd.DataFrame(rows).groupby(["method", "criterion", "tolerance"]).mean()
    print(mean.round(4).to_string())
    ours = mean.loc["ours"]
    for (criterion, tolerance), (accuracy, violation) in theirs.items():
        near = ours.loc[criterion][ours.loc[criterion]["violation"] <= violation + NEAR]
        best = near["accuracy"].idxmax() if len(near) else None
        gain = "no such violation" if best is None else f"{near.loc[best, 'accuracy'] - accuracy:+.4f} at ξ {best}"
        schedule = mean.loc["released schedule", criterion, tolerance]["cpu"]
        seconds = ours.loc[criterion, tolerance if best is None else best]["cpu"]
        print(
            f"released code, {criterion} {tolerance}: {accuracy:.4f}/{violation:.4f}; ours {gain}; "
            f"CPU {seconds:.2f} s, the released schedule {schedule:.1f} s: {schedule / seconds:.1f} times as much"
        )
