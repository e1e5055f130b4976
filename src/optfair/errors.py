"""Name what can go wrong, warn at the caller's line, and import optional packages politely."""

from __future__ import annotations

import importlib
import itertools
import sys
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence, Sized
from types import ModuleType

SHOWN = 6  # names listed in a message, before "and so many more"
_EXTRA_OF = {
    "matplotlib": "plot",
    "pyarrow": "parquet",
    "torch": "torch",
    "PIL": "torch",
    "tqdm": "cli",
    "skops": "save",
    "jinja2": "report",
    "lightgbm": "experiments",
    "distributed": "dask",
    "dask": "dask",
    "cloudpickle": "dask",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "skl2onnx": "onnx",
    "onnxscript": "onnx",
    "starlette": "serve",
    "uvicorn": "serve",
    "prometheus_client": "serve",
}


class OptFairWarning(UserWarning):
    """A warning about something that was done and that the caller should know about."""


class NotLinearError(ValueError):
    """A criterion that is not linear in the confusion tensor, such as a predictive value."""


class InfeasibleError(ValueError):
    """No rule, however inaccurate, satisfies all the requested rows.

    Attributes
    ----------
    rows : list of str
        Names of the rows that contradict each other, the heaviest first.
    loosening : float
        A uniform widening of every bound, in units of rates, that makes the request feasible.
    lower_bound : float
        No uniform widening below this one can (proven by weak duality).
    """

    def __init__(self, rows: Sequence[str], loosening: float, lower_bound: float) -> None:
        self.rows, self.loosening, self.lower_bound = list(rows), loosening, lower_bound
        super().__init__(
            f"no rule satisfies all constraints: these rows are in conflict: {first_names(self.rows)}. "
            f"Widening every bound by {1.005 * loosening:.3g} would do (at least {0.995 * lower_bound:.3g} is needed)."
        )

    def __reduce__(self) -> tuple[type, tuple[list[str], float, float]]:
        return type(self), (self.rows, self.loosening, self.lower_bound)


class PromiseError(ValueError):
    """No rule was found whose gaps can be promised to new people.

    Attributes
    ----------
    smallest : float
        With all tolerances times this a promise was found. The search is not exhaustive, and the number was chosen on
        these people: confirm it on others.
    tolerances : dict or None
        A tolerance for each group that can be promised, to pass as ``tolerance=``; None where groups are compared with
        each other or several criteria are asked for.
    promise : Promise
        What is known of the fairest rule that was tried.

    Examples
    --------
    >>> from optfair import OptFairPost, PromiseError
    >>> from optfair.datasets import make_fair_classification
    >>> data = make_fair_classification(400, random_state=0)
    >>> model = OptFairPost(tolerance=0.02, confidence=0.95, random_state=0)
    >>> try:
    ...     model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    ... except PromiseError as error:
    ...     print(error.smallest > 1)
    True
    """

    def __init__(
        self, message: str, smallest: float, tolerances: Mapping[Hashable, float] | None, promise: object
    ) -> None:
        self.smallest, self.tolerances, self.promise = smallest, tolerances, promise
        super().__init__(message)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (str(self), self.smallest, self.tolerances, self.promise)


class RuleFileError(ValueError):
    """A rule file that is truncated, altered, or of a version this release does not know."""


class ChecksumError(RuleFileError):
    """A rule file whose content does not match its checksum."""


class MonitorFileError(ValueError):
    """The state of a monitor in a file that is truncated, altered, or of a version this release does not know."""


class ModelFileError(ValueError):
    """A model file that cannot be read, or that holds types that are not trusted."""


class UntrustedTypesError(ModelFileError):
    """A model file that holds types which are neither known nor named as trusted.

    Attributes
    ----------
    types : list of str
        Names of these types.
    """

    def __init__(self, name: str, types: Sequence[str]) -> None:
        self.name, self.types = name, list(types)
        super().__init__(
            f"{name}: holds types that are not trusted: {', '.join(self.types)}. If you know where the file comes "
            f"from, pass trusted={self.types!r}."
        )

    def __reduce__(self) -> tuple[type, tuple[str, list[str]]]:
        return type(self), (self.name, self.types)


class ExportError(ValueError):
    """A model, or a step of one, that cannot be exported; the message says which, and the way that works."""


class DataFileError(OSError):
    """A data file that is missing, could not be downloaded, or is not the file its source publishes."""


class PlaceholderWarning(OptFairWarning):
    """A group whose name looks like a missing value."""


def warn(message: str, category: type[OptFairWarning] = OptFairWarning) -> None:
    """Issue an `OptFairWarning` that points at the caller's line, however deep in optfair it was raised."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and (frame.f_globals.get("__name__") or "").partition(".")[0] == "optfair":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_empty(names: Sequence[str]) -> None:
    """Name in one warning the rows that cannot be formed, if any."""
    if names:
        rates = "rate is" if len(names) == 1 else "rates are"
        warn(f"{len(names)} {rates} left out, because nobody is in the group and class: {first_names(names)}.")


def first_names(names: Sequence[str]) -> str:
    """Join the first few names; the others are counted."""
    rest = f"; and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return "; ".join(names[:SHOWN]) + rest


def brief_repr(value: object, length: int = 60) -> str:
    """Return the repr in one short line: a message quotes a value, it does not print an array.

    >>> brief_repr(list(range(100)), 20)
    '[0, 1, 2, 3, 4, 5...'
    """
    return brief_text(repr(value), length)


def brief_text(text: object, length: int = 160) -> str:
    """Return a text, such as the message of another library's error, in one line of at most so many characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= length else line[: length - 3] + "..."


def brief_names(names: Iterable[object]) -> str:
    """Join the reprs of the first few names; the others are counted.

    >>> brief_names(["a", "b"])
    "'a', 'b'"
    """
    texts = [brief_repr(name, 30) for name in itertools.islice(names, SHOWN + 1)]
    if len(texts) <= SHOWN:
        return ", ".join(texts)
    rest = f" and {len(names) - SHOWN} more" if isinstance(names, Sized) else ", ..."
    return ", ".join(texts[:SHOWN]) + rest


def need_extra(module: str, caller: str) -> ModuleType:
    """Import ``module`` or say which extra of optfair brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f'{caller} needs {package}: pip install "optfair[{_EXTRA_OF[package]}]"') from error
