"""Name what is compared: data, models, and how their answers are made fair."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair.errors import need_extra

DATA = ("adult-occupation", "compas", "enem-2019", "acs-government")
CALLER = "python -m experiments.export"


def lightgbm_classifier() -> Any:
    """Return a classifier of LightGBM, on one thread."""
    package = need_extra("lightgbm", CALLER)
    return package.LGBMClassifier(n_estimators=40, verbose=-1, n_jobs=1, random_state=0)


def torch_network() -> Any:
    """Return a network of torch."""
    package = need_extra("optfair.nn", CALLER)
    return make_pipeline(StandardScaler(), package.TorchClassifier("mlp", hidden=(50,), epochs=3, random_state=0))


MODELS: dict[str, Callable[[], Any]] = {
    "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    "network, scikit-learn": lambda: make_pipeline(StandardScaler(), MLPClassifier((50,), max_iter=20, random_state=0)),
    "network, torch": torch_network,
    "random forest": lambda: RandomForestClassifier(50, min_samples_leaf=5, random_state=0),
    "boosting, scikit-learn": lambda: HistGradientBoostingClassifier(max_iter=40, random_state=0),
    "boosting, LightGBM": lightgbm_classifier,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "blind": {"awareness": "blind"},
    "blind, not calibrated": {"awareness": "blind", "calibration": "none"},
    "aware": {"awareness": "aware"},
    "aware, not calibrated": {"awareness": "aware", "calibration": "none"},
}


@dataclass(frozen=True)
class Case:
    """A model fitted to some data, made fair in one way."""

    data: str
    model: str
    setting: str

    @property
    def name(self) -> str:
        """Return all of it in one line."""
        return f"{self.data}: {self.model}, {self.setting}"


def all_cases() -> Iterator[Case]:
    """Yield every case, data by data."""
    for data in DATA:
        for model in MODELS:
            for setting in SETTINGS:
                yield Case(data, model, setting)
