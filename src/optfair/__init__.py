"""Make classifiers with many classes fair to many groups, at the least cost in accuracy, with proof."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as type checkers know it; to import typing takes longer than all the rest of this file
if TYPE_CHECKING:
    from typing import Any

    from optfair import baselines, datasets, metrics
    from optfair.constraints import Constraint, MinimumRate, Ratio, Rows
    from optfair.errors import (
        DataFileError,
        InfeasibleError,
        ModelFileError,
        MonitorFileError,
        OptFairWarning,
        PromiseError,
        RuleFileError,
    )
    from optfair.estimators import OptFairIn, OptFairInPost, OptFairPost, load_model
    from optfair.inputs.encoder import TableEncoder
    from optfair.metrics.plans import Plan, plan
    from optfair.monitoring.monitor import Monitor
    from optfair.reporting.auditing import audit, compare
    from optfair.reporting.folder_audit import audit_files
    from optfair.reporting.report import Report
    from optfair.rule.frontier import Frontier
    from optfair.rule.loading import load_rule
    from optfair.rule.promise import Promise
    from optfair.rule.rule import FairRule
    from optfair.rule.solve import solve
    from optfair.rule.tolerance_path import frontier
    from optfair.storage.row_files import RowFiles, read_batches, read_parquet
    from optfair.utils.display import show_progress

__version__ = "0.1.0"

__all__ = [
    "Constraint",
    "DataFileError",
    "FairRule",
    "Frontier",
    "InfeasibleError",
    "MinimumRate",
    "ModelFileError",
    "Monitor",
    "MonitorFileError",
    "OptFairIn",
    "OptFairInPost",
    "OptFairPost",
    "OptFairWarning",
    "Plan",
    "Promise",
    "PromiseError",
    "Ratio",
    "Report",
    "RowFiles",
    "Rows",
    "RuleFileError",
    "ScoreColumns",
    "TableEncoder",
    "audit",
    "audit_files",
    "baselines",
    "compare",
    "datasets",
    "frontier",
    "load_model",
    "load_rule",
    "metrics",
    "plan",
    "read_batches",
    "read_parquet",
    "show_progress",
    "solve",
]

# Where each name lives. They are imported when first asked for: scikit-learn and its scipy.stats take a second.
_HOME = {
    "constraints": ("Constraint", "MinimumRate", "Ratio", "Rows"),
    "errors": (
        "DataFileError",
        "InfeasibleError",
        "ModelFileError",
        "MonitorFileError",
        "OptFairWarning",
        "PromiseError",
        "RuleFileError",
    ),
    "estimators": ("OptFairIn", "OptFairInPost", "OptFairPost", "load_model"),
    "inputs.encoder": ("TableEncoder",),
    "inputs.score_columns": ("ScoreColumns",),
    "metrics.plans": ("Plan", "plan"),
    "monitoring.monitor": ("Monitor",),
    "reporting.auditing": ("audit", "compare"),
    "reporting.folder_audit": ("audit_files",),
    "reporting.report": ("Report",),
    "rule.frontier": ("Frontier",),
    "rule.loading": ("load_rule",),
    "rule.promise": ("Promise",),
    "rule.rule": ("FairRule",),
    "rule.solve": ("solve",),
    "rule.tolerance_path": ("frontier",),
    "storage.row_files": ("RowFiles", "read_batches", "read_parquet"),
    "utils.display": ("show_progress",),
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
