"""optfair: classifiers with many classes, fair to many groups, at the least cost in accuracy, with proof."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optfair import baselines, datasets, metrics
    from optfair.constraints import Constraint, MinimumRate, Ratio, Rows
    from optfair.errors import DataFileError, InfeasibleError, ModelFileError, OptFairWarning, RuleFileError
    from optfair.in_then_post import OptFairInPost
    from optfair.inprocess import OptFairIn
    from optfair.model_file import load_model
    from optfair.path import Frontier, frontier
    from optfair.post import OptFairPost
    from optfair.rule import FairRule
    from optfair.rule_file import load_rule
    from optfair.solving import solve

__version__ = "0.1.0.dev0"

__all__ = [
    "Constraint",
    "DataFileError",
    "FairRule",
    "Frontier",
    "InfeasibleError",
    "MinimumRate",
    "ModelFileError",
    "OptFairIn",
    "OptFairInPost",
    "OptFairPost",
    "OptFairWarning",
    "Ratio",
    "Rows",
    "RuleFileError",
    "baselines",
    "datasets",
    "frontier",
    "load_model",
    "load_rule",
    "metrics",
    "solve",
]

# Where each name lives. They are imported when first asked for: scikit-learn and its scipy.stats take a second.
_HOME = {
    "constraints": ("Constraint", "MinimumRate", "Ratio", "Rows"),
    "errors": ("DataFileError", "InfeasibleError", "ModelFileError", "OptFairWarning", "RuleFileError"),
    "path": ("Frontier", "frontier"),
    "in_then_post": ("OptFairInPost",),
    "inprocess": ("OptFairIn",),
    "model_file": ("load_model",),
    "post": ("OptFairPost",),
    "rule": ("FairRule",),
    "rule_file": ("load_rule",),
    "solving": ("solve",),
}


def __getattr__(name: str) -> Any:
    if name in ("baselines", "datasets", "metrics"):
        return importlib.import_module(f"optfair.{name}")
    for module, names in _HOME.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f"optfair.{module}"), name)
            return value
    raise AttributeError(f"module 'optfair' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
