"""Load real data by name, and make synthetic data with a known truth.

Examples
--------
>>> from optfair import datasets
>>> datasets.load("adult", rows=500)
<Dataset adult: 500 people, 106 features, 2 classes, 2 groups>
>>> datasets.catalogue().loc["adult", "where"]
'in the package'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optfair.datasets.registry import catalogue, entry, load, names
    from optfair.datasets.schema import Entry, SourceFile
    from optfair.inputs.dataset import Dataset
    from optfair.synthetic.sampling import make_fair_classification
    from optfair.synthetic.world import World

__all__ = ["Dataset", "Entry", "SourceFile", "World", "catalogue", "entry", "load", "make_fair_classification", "names"]

# The module of each name. It is imported at the first use, because importing pandas takes .4 s.
_MODULE_OF = {
    "Dataset": "inputs.dataset",
    "Entry": "datasets.schema",
    "SourceFile": "datasets.schema",
    "World": "synthetic.world",
    "catalogue": "datasets.registry",
    "entry": "datasets.registry",
    "load": "datasets.registry",
    "make_fair_classification": "synthetic.sampling",
    "names": "datasets.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'optfair.datasets' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"optfair.{_MODULE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
