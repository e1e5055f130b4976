"""Compare joint with factored posteriors of a network and of logistic regression, on new people.

At the same tolerance, and at the same violation: the mean accuracy over all violations that both reach.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.areas import area, mean
from experiments.splits import SplitData
from experiments.timings.adult import arrays, measured
from optfair import OptFairPost
from optfair.errors import need_extra

FACES = {"images": False, "sensitive": ["Young", "Male"], "labels": ["Smiling", "Big_Nose", "Attractive"]}
SOURCES: dict[str, dict[str, Any]] = {"enem-2019": {}, "acs-government": {}, "adult": {}, "celeba": FACES}
MODELS = ("network", "logistic")
TOLERANCES = (1.0, 0.1, 0.05, 0.02, 0.01, 0.003)
SHOWN = (1.0, 0.02)  # tolerances whose rules are printed
SEEDS = (0, 1, 2, 3, 4)
FITTED, MEASURED = 30_000, 20_000  # people, at most
EPOCHS = 10


def run(*, small: bool, repeat: int) -> None:
    """Print means over seeds of factored minus joint, with 90 % intervals, accuracies in points."""
    need_extra("torch", "python -m experiments.timings posterior")
    for source in list(SOURCES)[: 1 if small else None]:
        for name in MODELS[: 1 if small else None]:
            lines = [_measure(source, name, seed) for seed in SEEDS[: 2 if small else None]]
            print(f"{source}, {name}, {len(lines)} seeds", flush=True)
            for key in lines[0]:
                difference = mean([line[key] for line in lines])
                print(f"  {key}: {difference.value:+.4f} ± {difference.half:.4f}", flush=True)


def base_model(name: str) -> Any:
    """Return an unfitted classifier of this name."""
    if name == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    from optfair.nn import TorchClassifier

    return make_pipeline(StandardScaler(), TorchClassifier("mlp", lr=0.001, epochs=EPOCHS))


def _measure(source: str, name: str, seed: int) -> dict[str, float]:
    """Return factored minus joint: log loss of the pair and of the class, scores of rules, areas; and the CPU ratio."""
    train, test = arrays(source, seed, "random", **SOURCES[source])
    n, n_new = min(FITTED, len(train.y)), min(MEASURED, len(test.y))
    new = SplitData(test.X[:n_new], test.y[:n_new], test.group[:n_new])
    scores: dict[str, dict[str, float]] = {}
    points: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for posterior in ("joint", "factored"):
        clock = time.process_time()
        model = OptFairPost(base_model(name), tolerance=1.0, posterior=posterior, random_state=seed, n_jobs=1)
        model.fit(train.X[:n], train.y[:n], sensitive_features=train.group[:n])
        scores[posterior], points[posterior] = {"seconds": time.process_time() - clock}, {}
        Z = model.joint_posterior(new.X)
        scores[posterior] |= _log_losses(Z, model, new)
        for criterion in ("dp", "eo"):
            frontier = points[posterior].setdefault(criterion, [])
            for tolerance in TOLERANCES:
                h = model.with_criterion(criterion, tolerance).rule_.predict_proba(Z)
                result = measured(h, new, model.classes_, criterion)
                frontier.append((result["violation"], result["accuracy"]))
                if tolerance in SHOWN:
                    key = f"{criterion} within {tolerance:g}"
                    scores[posterior] |= {
                        f"{key}, accuracy": 100 * result["accuracy"],
                        f"{key}, violation": result["violation"],
                    }
    constant = np.unique(new.y, return_counts=True)[1].max() / n_new
    for criterion in ("dp", "eo"):
        frontiers = [points[posterior][criterion] for posterior in ("joint", "factored")]
        v_max = min(frontier[0][0] for frontier in frontiers)
        v_min = max(min(v for v, _ in frontier) for frontier in frontiers)
        for posterior, frontier in zip(("joint", "factored"), frontiers, strict=True):
            scores[posterior][f"{criterion}, at equal violations"] = 100 * area(frontier, v_max, constant, v_min)
    ratio = scores["factored"].pop("seconds") / scores["joint"].pop("seconds")
    differences = {key: value - scores["joint"][key] for key, value in scores["factored"].items()}
    return differences | {"processor seconds, as a multiple": ratio}


def _log_losses(Z: np.ndarray, model: OptFairPost, new: SplitData) -> dict[str, float]:
    """Return the mean log loss of the pair (group, class) and of the class."""
    a, y = model.groups_.get_indexer(new.group), np.searchsorted(model.classes_, new.y)
    rows = np.arange(len(Z))
    Z = Z.reshape(len(Z), len(model.groups_), len(model.classes_))
    chances = {"pair": Z[rows, a, y], "class": Z.sum(axis=1)[rows, y]}
    return {f"log loss, {name}": -float(np.log(chance).mean()) for name, chance in chances.items()}
