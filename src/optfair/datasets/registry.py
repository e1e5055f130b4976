"""Load a data set by its name, and list what can be loaded."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from typing import Any

import pandas as pd

from optfair.datasets import store
from optfair.datasets.entries import ENTRIES
from optfair.datasets.reading import LoadRequest, RawDataset
from optfair.datasets.schema import Entry
from optfair.inputs.dataset import Dataset
from optfair.inputs.labels import encode_classes, encode_groups
from optfair.utils.checks import check_integer
from optfair.utils.seeds import as_generator

MAX_CLASS_COLUMNS = 8  # wider tables of counts would exceed the 100 characters of a description


def load(
    name: str,
    *,
    sensitive: Any = None,
    rows: int | None = None,
    random_state: Any = 0,
    download: bool = True,
    **options: Any,
) -> Dataset:
    """Load a data set by its name: features, classes and groups.

    Parameters
    ----------
    name : str
        A name of the catalogue, see `names` and `catalogue`.
    sensitive : str or tuple of str, optional
        The attribute that defines the groups, one of ``entry(name).sensitive``; by default the first of them. For
        "celeba" also one or several of ``entry(name).attributes``, where several form intersections.
    rows : int, optional
        The size of a random sample; by default all rows. Classes, levels and scales are those of all rows,
        whatever the sample.
    random_state : None, int or numpy.random.Generator, default 0
        The seed of the sample.
    download : bool, default True
        Whether files that are neither in ``$OPTFAIR_DATA`` nor in the cache may be downloaded.
    **options : dict
        Options of the data set: ``states`` for "acs-income"; ``label`` for "compas"; ``images``, ``labels``, ``size``
        and ``cache`` for "celeba"; ``size`` and ``cache`` for "utkface".

    Returns
    -------
    Dataset
        The features ``X``, the classes ``y`` and the groups ``sensitive_features``, with names and a description.

    Raises
    ------
    ValueError
        If an argument is not among its choices.
    DataFileError
        If a file is missing, cannot be downloaded, or is not the published one. The message says what to do.
    ImportError
        If the data set needs an extra that is not installed.

    Examples
    --------
    >>> from optfair.datasets import load
    >>> data = load("adult", sensitive="sex-race", rows=1000)
    >>> data.X.shape, data.class_names
    ((1000, 101), ['<=50K', '>50K'])
    >>> data.group_names
    [('female', 'black'), ('female', 'white'), ('male', 'black'), ('male', 'white')]
    """
    requested = entry(name)
    if rows is not None:
        check_integer("rows", rows, 1, ", or None for all")
    as_generator(random_state)
    request = LoadRequest(requested, _check_sensitive(requested, sensitive), rows, random_state, download)
    module, _, function = requested.reader.partition(":")
    reader = getattr(importlib.import_module(f"optfair.datasets.{module}"), function)
    choices = list(inspect.signature(reader).parameters)[1:]
    for option, value in options.items():
        if option not in choices:
            advice = f"its own options are {', '.join(choices)}" if choices else "it has no options of its own"
            raise ValueError(f"{option}={value!r}: is not an option of {name!r}; {advice}.")
    return _as_dataset(requested, reader(request, **options))


def names() -> list[str]:
    """Return the names that `load` accepts.

    Returns
    -------
    list of str
        The names, in the order of the catalogue.

    Examples
    --------
    >>> from optfair.datasets import names
    >>> names()[:2]
    ['adult', 'adult-occupation']
    """
    return list(ENTRIES)


def entry(name: str) -> Entry:
    """Return what the catalogue records about a data set.

    Parameters
    ----------
    name : str
        A name of the catalogue, see `names`.

    Returns
    -------
    Entry
        Task, groups, source, licence and files.

    Raises
    ------
    ValueError
        If there is no data set of this name.

    Examples
    --------
    >>> from optfair.datasets import entry
    >>> entry("compas").people
    '6,172'
    """
    if not isinstance(name, str) or name not in ENTRIES:
        raise ValueError(f"name={name!r}: must be one of {', '.join(map(repr, ENTRIES))}.")
    return ENTRIES[name]


def catalogue() -> pd.DataFrame:
    """Return a table of all data sets and of their current location.

    Returns
    -------
    DataFrame
        One row per data set, indexed by name: title, task, groups, people, licence, where and stand_in_for. The
        column ``where`` is "in the package", "$OPTFAIR_DATA", "cache", "to download" (by `load`) or "by hand" (`load`
        raises an error that says how).

    Examples
    --------
    >>> from optfair.datasets import catalogue
    >>> table = catalogue()
    >>> table.loc["adult", ["people", "licence", "where"]].tolist()
    ['48,842', 'CC BY 4.0', 'in the package']
    """
    lines = [
        {
            "name": item.name,
            "title": item.title,
            "task": item.task,
            "groups": item.groups,
            "people": item.people,
            "licence": item.licence,
            "where": where(item),
            "stand_in_for": item.stand_in_for or "",
        }
        for item in ENTRIES.values()
    ]
    return pd.DataFrame(lines).set_index("name")


def where(item: Entry) -> str:
    """Return the place where `load` would find a data set, as a value of the catalogue's column ``where``."""
    if item.embedded:
        return "in the package"
    paths = [store.find_unpacked(file) or store.find(file) for file in item.files]
    if paths and all(path is not None for path in paths):
        folder = store.data_folder()
        return "$OPTFAIR_DATA" if all(path and folder and path.is_relative_to(folder) for path in paths) else "cache"
    if item.local_files and all(store.local(file) is not None for file in item.local_files):
        return "$OPTFAIR_DATA"
    return "to download" if item.files and all(file.url for file in item.files) else "by hand"


def _check_sensitive(requested: Entry, sensitive: Any) -> Any:
    """Return the sensitive attribute, one of the entry's choices, or a tuple where attributes can be combined."""
    if sensitive is None:
        return requested.sensitive[0]
    choices = (*requested.sensitive, *requested.attributes)
    several = bool(requested.attributes) and isinstance(sensitive, list | tuple) and len(sensitive) > 0
    selection = list(sensitive) if several else [sensitive]
    valid = all(isinstance(name, str) and name in choices for name in selection)
    if valid and len(set(selection)) == len(selection):
        return tuple(selection) if several else sensitive
    attributes = ", ".join(requested.attributes)
    text = f"; or one or several of the attributes {attributes}" if attributes else ""
    raise ValueError(
        f"sensitive={sensitive!r}: must be one of {', '.join(map(repr, requested.sensitive))} for "
        f"{requested.name!r}{text}."
    )


def _as_dataset(requested: Entry, raw: RawDataset) -> Dataset:
    """Return the data with their names and their description."""
    _, classes = encode_classes(raw.y, name="y")
    _, groups = encode_groups(raw.sensitive_features)
    features = list(raw.X.columns) if isinstance(raw.X, pd.DataFrame) else []
    return Dataset(
        name=requested.name,
        X=raw.X,
        y=raw.y,
        sensitive_features=raw.sensitive_features,
        feature_names=features,
        class_names=list(classes),
        group_names=list(groups),
        description=_description(requested, raw, len(features)),
        stand_in=raw.stand_in,
    )


def _description(requested: Entry, raw: RawDataset, d: int) -> str:
    """Return origin, licence, preparation and counts, as paragraphs of text."""
    y, groups = raw.y, raw.sensitive_features
    columns = [groups[column] for column in groups] if isinstance(groups, pd.DataFrame) else [groups]
    counts = pd.crosstab(columns, y)
    counts = counts if counts.shape[1] <= MAX_CLASS_COLUMNS else counts.T
    kind = f"{d} features" if isinstance(raw.X, pd.DataFrame) else "an image each"
    paragraphs = [
        f"{requested.title}.",
        f"A stand-in for {raw.stand_in}." if raw.stand_in else "",
        f"Task: {requested.task}. Groups: {requested.groups}.",
        f"Source: {requested.page}. {requested.citation}".rstrip(),
        f"Licence: {requested.licence}.",
        f"Preparation: {raw.preparation}",
        f"{len(y):,} people, {kind}; counts by group and class:",
    ]
    text = [textwrap.fill(p, 100, break_long_words=False, break_on_hyphens=False) for p in paragraphs if p]
    return "\n\n".join([*text, counts.to_string()])
