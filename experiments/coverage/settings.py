"""List the settings: worlds whose truth is known, and real people as a population to draw from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from optfair.synthetic.world import World

CONFIDENCE = 0.95
CONTROL = 1.645  # standard errors: enough for one row, not for the one that chance has chosen among many
SHARES = {
    2: (0.7, 0.3),
    3: (0.5, 0.3, 0.2),
    4: (0.4, 0.3, 0.2, 0.1),
    10: (0.2, 0.15, 0.12, 0.1, 0.1, 0.08, 0.07, 0.06, 0.06, 0.06),
}
POPULATION = 200_000  # people of a world by whom the truth is measured, with true posteriors


@dataclass(frozen=True)
class Setting:
    """What is promised to whom.

    title : in tables. criterion, tolerance : what is asked for. n : people of a sample. runs : samples to draw.
    groups, classes : of a world. learner : "logistic" or "forest". n_features : that the model is shown, None for all.
    ensemble : whether the mixture of the folds is measured too. data : a data set, "" for a world. options : of
    `optfair.datasets.load`. population : people behind the truth of a world.
    """

    title: str
    criterion: str
    tolerance: float
    n: int
    runs: int = 400
    groups: int = 0
    classes: int = 0
    learner: str = "logistic"
    n_features: int | None = None
    ensemble: bool = False
    data: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    population: int = POPULATION


_WORLDS = {
    "dp-4x3": Setting("world, 4 groups × 3 classes", "dp", 0.05, 10_000, groups=4, classes=3),
    "eo-2x2": Setting("world, 2 × 2", "eo", 0.05, 8_000, groups=2, classes=2),
    "eo-3x3": Setting("world, 3 × 3", "eo", 0.08, 16_000, groups=3, classes=3),
    "dp-10x3": Setting("world, ten groups × 3", "dp", 0.06, 20_000, groups=10, classes=3, population=100_000),
}
SETTINGS: dict[str, Setting] = {
    **_WORLDS,
    "dp-wrong": replace(_WORLDS["dp-4x3"], title="world, 4 × 3, wrong model", n_features=2, ensemble=True),
    "dp-forest": replace(
        _WORLDS["dp-4x3"],
        title="world, 4 × 3, forest",
        tolerance=0.06,
        n=8_000,
        learner="forest",
        ensemble=True,
        population=60_000,
    ),
    "adult-dp": Setting("Adult occupation, 4 × 5", "dp", 0.03, 20_000, 100, data="adult-occupation"),
    "adult-eo": Setting("Adult occupation, 4 × 5", "eo", 0.15, 20_000, 100, data="adult-occupation"),
    "acs-dp": Setting("ACS government, 5 × 5", "dp", 0.05, 40_000, 100, data="acs-government"),
    "acs-eo": Setting("ACS government, 5 × 5", "eo", 0.2, 40_000, 100, data="acs-government"),
    "enem-dp": Setting("ENEM 2019, 5 classes", "dp", 0.06, 12_000, 100, data="enem-2019"),
    "enem-eo": Setting("ENEM 2019, 5 classes", "eo", 0.2, 12_000, 100, data="enem-2019"),
}
# Numbers of people for the smallest tolerance that can be promised.
SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)


def make_world(groups: int, classes: int) -> World:
    """Return a world whose groups differ in features and in how likely the classes are."""
    rng = np.random.default_rng([groups, classes])
    n_features = 5
    centres, slopes = rng.normal(0, 0.6, (groups, n_features)), rng.normal(0, 1.0, (n_features, classes))
    return World(np.array(SHARES[groups]), centres, slopes, rng.normal(0, 0.5, (groups, classes)))


def make_learner(name: str) -> Any:
    """Return the estimator of a setting."""
    if name == "forest":
        return RandomForestClassifier(30, max_depth=8, min_samples_leaf=20, random_state=0)
    return LogisticRegression()
