"""`load` by name, and the catalogue of what can be loaded."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from typing import Any

import numpy as np
import pandas as pd

from optfair.datasets import store
from optfair.datasets.dataset import Dataset, Entry
from optfair.datasets.entries import ENTRIES
from optfair.datasets.tables import Loaded, Request, unpacked
from optfair.labels import encode_classes, encode_groups


def load(
    name: str,
    *,
    sensitive: Any = None,
    rows: int | None = None,
    random_state: Any = 0,
    download: bool = True,
    **options: Any,
) -> Dataset:
    """A data set by its name (`names`, `catalogue`): features X, classes y, groups sensitive_features.

    Parameters
    ----------
    sensitive : which attribute makes the groups, one of the data set's choices (``entry(name).sensitive``, the first
        is taken by default); for "celeba" also one or several of its attributes, several for their intersections.
    rows, random_state : a random sample of so many people, and its seed or generator. Classes, levels and scales are
        those of all the people, whatever the sample.
    download : whether files that are neither in $OPTFAIR_DATA nor in the cache may be downloaded.
    options : of the data set: ``states`` for "acs-income"; ``label`` for "compas"; ``images``, ``labels``, ``size``
        and ``cache`` for "celeba"; ``size`` and ``cache`` for "utkface".
    """
    known = entry(name)
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1):
        raise ValueError(f"rows={rows!r}: must be a whole number of at least 1, or None for all.")
    try:
        np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(f"random_state={random_state!r}: must be a seed, a generator of numpy, or None.") from None
    request = Request(known, _sensitive(known, sensitive), rows, random_state, download)
    module, _, function = known.reader.partition(":")
    reader = getattr(importlib.import_module(f"optfair.datasets.{module}"), function)
    allowed = list(inspect.signature(reader).parameters)[1:]
    for option, value in options.items():
        if option not in allowed:
            has = f"its own options are {', '.join(allowed)}" if allowed else "it has no options of its own"
            raise ValueError(f"{option}={value!r}: is not an option of {name!r}; {has}.")
    return _dataset(known, reader(request, **options))


def names() -> list[str]:
    """The names that `load` knows."""
    return list(ENTRIES)


def entry(name: str) -> Entry:
    """What the catalogue knows of a data set."""
    if not isinstance(name, str) or name not in ENTRIES:
        raise ValueError(f"name={name!r}: must be one of {', '.join(map(repr, ENTRIES))}.")
    return ENTRIES[name]


def catalogue() -> pd.DataFrame:
    """One line per data set: title, task, groups, people, licence, where it is now, and what it is a stand-in for.

    where : "in the package", "$OPTFAIR_DATA", "cache", "to download" (by `load`), or "by hand" (`load` says how).
    """
    lines = [
        {
            "name": known.name,
            "title": known.title,
            "task": known.task,
            "groups": known.groups,
            "people": known.people,
            "licence": known.licence,
            "where": where(known),
            "stand_in_for": known.stand_in_for or "",
        }
        for known in ENTRIES.values()
    ]
    return pd.DataFrame(lines).set_index("name")


def where(known: Entry) -> str:
    """Where `load` would find it."""
    if known.embedded:
        return "in the package"
    found = [unpacked(file) or store.find(file) for file in known.files]
    if found and all(path is not None for path in found):
        own = store.data_folder()
        return "$OPTFAIR_DATA" if all(path and own and path.is_relative_to(own) for path in found) else "cache"
    if known.local_files and all(store.local(file) is not None for file in known.local_files):
        return "$OPTFAIR_DATA"
    return "to download" if known.files and all(file.url for file in known.files) else "by hand"


def _sensitive(known: Entry, sensitive: Any) -> Any:
    """The choice, checked: one of the entry's, or a tuple where its attributes can be combined."""
    if sensitive is None:
        return known.sensitive[0]
    choices = (*known.sensitive, *known.attributes)
    several = bool(known.attributes) and isinstance(sensitive, list | tuple) and len(sensitive) > 0
    asked = list(sensitive) if several else [sensitive]
    if all(isinstance(one, str) and one in choices for one in asked) and len(set(asked)) == len(asked):
        return tuple(asked) if several else sensitive
    also = f"; or one or several of the attributes {', '.join(known.attributes)}" if known.attributes else ""
    raise ValueError(
        f"sensitive={sensitive!r}: must be one of {', '.join(map(repr, known.sensitive))} for {known.name!r}{also}."
    )


def _dataset(known: Entry, loaded: Loaded) -> Dataset:
    _, classes = encode_classes(loaded.y, name="y")
    _, groups = encode_groups(loaded.sensitive_features)
    features = list(loaded.X.columns) if isinstance(loaded.X, pd.DataFrame) else []
    return Dataset(
        name=known.name,
        X=loaded.X,
        y=loaded.y,
        sensitive_features=loaded.sensitive_features,
        feature_names=features,
        class_names=list(classes),
        group_names=list(groups),
        description=_description(known, loaded, len(features)),
        stand_in=loaded.stand_in,
    )


def _description(known: Entry, loaded: Loaded, d: int) -> str:
    """Origin, licence, preparation and counts, as paragraphs of text."""
    y, groups = loaded.y, loaded.sensitive_features
    columns = [groups[column] for column in groups] if isinstance(groups, pd.DataFrame) else [groups]
    counts = pd.crosstab(columns, y)
    counts = counts if counts.shape[1] <= 8 else counts.T  # many classes are lines, or the lines are too long
    kind = f"{d} features" if isinstance(loaded.X, pd.DataFrame) else "an image each"
    paragraphs = [
        f"{known.title}.",
        f"A stand-in for {loaded.stand_in}." if loaded.stand_in else "",
        f"Task: {known.task}. Groups: {known.groups}.",
        f"Source: {known.page}. {known.citation}".rstrip(),
        f"Licence: {known.licence}.",
        f"Preparation: {loaded.preparation}",
        f"{len(y):,} people, {kind}; counts by group and class:",
    ]
    text = [textwrap.fill(p, 100, break_long_words=False, break_on_hyphens=False) for p in paragraphs if p]
    return "\n\n".join([*text, counts.to_string()])
