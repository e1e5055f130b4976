"""Count the rounds of OptFairIn until the mixture is within tolerance, from zero and from post-processing."""

from __future__ import annotations

import time

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.timings.adult import arrays, measured
from experiments.timings.clock import one_thread
from experiments.timings.internals import rounds_needed
from optfair import OptFairIn

SOURCES = ("adult", "enem-2019", "acs-government", "acs-education")
SETTINGS = (("dp", 0.01), ("dp", 0.03), ("eo", 0.03), ("eo", 0.05))
ROWS = 60_000  # of each data set, at most


def run(*, small: bool, repeat: int) -> None:
    """Print rounds, scores and processor seconds."""
    with one_thread():
        _run(ROWS // 10 if small else ROWS)


def _run(rows: int) -> None:
    for source in SOURCES:
        train, test = arrays(source, 0, "random", rows)
        base = make_pipeline(StandardScaler(), LogisticRegression(C=10, max_iter=30))
        for criterion, tolerance in SETTINGS:
            for start in ("zero", "post"):
                model = OptFairIn(
                    base, criterion=criterion, tolerance=tolerance, rounds=100, start=start, random_state=0
                )
                clock = time.process_time()
                model.fit(train.X, train.y, sensitive_features=train.group)
                scores = measured(model.predict_proba(test.X), test, model.classes_, criterion)
                print(
                    f"{source} {criterion} {tolerance} from {start}: {rounds_needed(model)} rounds; test "
                    f"{scores['accuracy']:.4f}/{scores['violation']:.4f} (floor {scores['floor']:.4f}); training "
                    f"violation {model.training_.violation:.4f}; {time.process_time() - clock:.1f} CPU s",
                    flush=True,
                )
