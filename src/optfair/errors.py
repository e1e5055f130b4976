"""What can go wrong, in words, and the polite absence of optional packages."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType

SHOWN = 6
_EXTRA_OF = {
    "matplotlib": "plot",
    "pyarrow": "parquet",
    "torch": "torch",
    "PIL": "torch",
    "tqdm": "cli",
    "skops": "save",
}


class OptFairWarning(UserWarning):
    """Something was done that the caller should know about."""


def warn(message: str) -> None:
    """An `OptFairWarning` that points at the caller's line, however deep in optfair it was raised."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and (frame.f_globals.get("__name__") or "").partition(".")[0] == "optfair":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, OptFairWarning, stacklevel=level)


class InfeasibleError(ValueError):
    """No rule, however inaccurate, satisfies all the requested rows.

    Attributes
    ----------
    rows : the names of the rows that contradict each other, the heaviest first.
    loosening : a uniform widening of every bound, in units of rates, that makes the request feasible.
    lower_bound : no uniform widening below this one can (proven by weak duality).
    """

    def __init__(self, rows: Sequence[str], loosening: float, lower_bound: float) -> None:
        self.rows, self.loosening, self.lower_bound = list(rows), loosening, lower_bound
        more = f"; and {len(self.rows) - SHOWN} more" if len(self.rows) > SHOWN else ""
        shown = "; ".join(self.rows[:SHOWN]) + more
        super().__init__(
            f"no rule satisfies all constraints: these rows are in conflict: {shown}. "
            f"Widening every bound by {1.005 * loosening:.3g} would do (at least {0.995 * lower_bound:.3g} is needed)."
        )

    def __reduce__(self) -> tuple[type, tuple[list[str], float, float]]:
        return type(self), (self.rows, self.loosening, self.lower_bound)


def warn_empty(names: Sequence[str]) -> None:
    """One warning that names the rows nobody is in."""
    if names:
        more = f"; and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        warn(
            f"{len(names)} rows cannot be formed, nobody is in their cells; left out: {'; '.join(names[:SHOWN])}{more}."
        )


class RuleFileError(ValueError):
    """A rule file that is truncated, altered, or of a version this release does not know."""


class ModelFileError(ValueError):
    """A model file that cannot be read, or that holds types nobody has said they trust."""


class DataFileError(OSError):
    """A data file that is not there, could not be downloaded, or is not the file its source publishes."""


def need_extra(module: str, caller: str) -> ModuleType:
    """Import ``module`` or say which extra of optfair brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f'{caller} needs {package}: pip install "optfair[{_EXTRA_OF[package]}]"') from error
