"""Time OptFairPost on Adult, beside the released code: the authors' split, blind, logistic, seeds 1 to 3."""

from __future__ import annotations

import pandas as pd
from sklearn.linear_model import LogisticRegression

from experiments.timings.adult import NEAR, SEEDS, adult, measured, released
from optfair import OptFairPost

TOLERANCES = {
    "dp": (0.0, 0.001, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06),
    "eo": (0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.05),
}


def run(*, small: bool, repeat: int) -> None:
    """Print accuracy and violation of the rule and of hashed decisions along the tolerance, and seconds."""
    rows = []
    for seed in SEEDS[: 1 if small else None]:
        train, test = adult(seed)
        base = LogisticRegression(C=10, solver="newton-cholesky")
        model = OptFairPost(base, criterion="dp", random_state=seed)
        model.fit(train.X, train.y, sensitive_features=train.group)
        seconds = model.seconds_
        print(
            f"seed {seed}: {model.n_base_fits_} base fits {seconds['models']:.1f} s; calibration "
            f"{seconds['calibration']:.2f} s + solve and certificate {seconds['solve']:.2f} s",
            flush=True,
        )
        for criterion, tolerances in TOLERANCES.items():
            rule = model.with_criterion(criterion)
            for tolerance in tolerances:
                rule = rule.with_tolerance(tolerance)
                decisions = {"rule": rule.predict_proba(test.X), "hashed": rule.predict(test.X)}
                for decision, predictions in decisions.items():
                    scores = measured(predictions, test, model.classes_, criterion)
                    rows.append((criterion, decision, tolerance, scores["accuracy"], scores["violation"]))
    table = pd.DataFrame(rows, columns=["criterion", "decision", "tolerance", "accuracy", "violation"])
    mean = table.groupby(["criterion", "decision", "tolerance"]).mean()
    print(mean.round(4).to_string())
    for criterion, tolerance, accuracy, violation in released("OptFairPost"):
        for decision in ("rule", "hashed"):
            ours = mean.loc[criterion, decision]
            near = ours[ours["violation"] <= violation + NEAR]
            gain = f"{near['accuracy'].max() - accuracy:+.4f}" if len(near) else "no such violation"
            print(f"released code, {criterion} {tolerance}: {accuracy:.4f}/{violation:.4f}; ours ({decision}) {gain}")
