"""Do the runs of an experiment without evaluating them; a process of its own imports this in a second."""

import sys
import time
from pathlib import Path

import experiments.run
from experiments.catalogue import read_experiment


def evaluate_at_once(plan, runs, cache, jobs, limit):
    """Yield lines of equal scores, slowly enough for a kill to come in between."""
    numbers = {"accuracy": 0.8, "violation": {"dp": 0.1, "eo": 0.1}, "floor": {"dp": 0.01, "eo": 0.01}}
    for run in runs:
        yield {"run": run.as_dict(), "constant": 0.5, "scores": {"answers": numbers}}
        time.sleep(0.002)


def run_calibration(folder, report):
    """Do the runs of one experiment on Adult."""
    experiment = read_experiment("calibration")
    experiments.run.run_all([experiment], folder, limit=60.0, only=("adult",), report=report)


if __name__ == "__main__":
    experiments.run.evaluate_all = evaluate_at_once
    run_calibration(Path(sys.argv[1]), lambda text: print(text, flush=True))
