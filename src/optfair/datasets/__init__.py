"""Real data to try things on, and made-up data whose truth is known.

>>> from optfair import datasets
>>> datasets.catalogue()                     # what there is, and where
>>> adult = datasets.load("adult")           # adult.X, adult.y, adult.sensitive_features
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optfair.datasets.dataset import Dataset, Entry, SourceFile
    from optfair.datasets.registry import catalogue, entry, load, names
    from optfair.datasets.synthetic import make_fair_classification
    from optfair.datasets.world import World

__all__ = ["Dataset", "Entry", "SourceFile", "World", "catalogue", "entry", "load", "make_fair_classification", "names"]

# Where each name lives; imported when first asked for, as pandas takes its time.
_HOME = {
    "dataset": ("Dataset", "Entry", "SourceFile"),
    "registry": ("catalogue", "entry", "load", "names"),
    "synthetic": ("make_fair_classification",),
    "world": ("World",),
}


def __getattr__(name: str) -> Any:
    for module, known in _HOME.items():
        if name in known:
            value = globals()[name] = getattr(importlib.import_module(f"optfair.datasets.{module}"), name)
            return value
    raise AttributeError(f"module 'optfair.datasets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
