"""Read who there is, or is to be: the share P[a,i] of each group and true class, and the number of people if known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import brief_names, brief_repr
from optfair.inputs.labels import check_names, encode_classes
from optfair.metrics.counts import ConfusionCounts
from optfair.utils.checks import ROW_SUM_SLACK, as_numbers, check_integer, is_integer, is_number

COUNTED = ("count", "proportion")  # names of what `value_counts` of pandas returns
CLASS_FORMS = "a number of classes >= 2, a mapping from class to share, or a table of groups by classes"


@dataclass(frozen=True, eq=False)
class Composition:
    """Names of groups and classes, prior (A, m) of their cells, people (None if unknown), and whether labels are."""

    groups: pd.Index
    classes: pd.Index
    prior: np.ndarray
    people: int | None
    labelled: bool = True


def read_composition(groups: Any, classes: Any, n_people: Any = None) -> Composition:
    """Return what `optfair.plan` was told about the people."""
    if isinstance(groups, ConfusionCounts):
        composition = _from_confusion(groups, classes)
    elif isinstance(groups, Mapping) or (isinstance(groups, pd.Series) and groups.name in COUNTED):
        composition = _from_numbers(dict(groups), classes)
    else:
        composition = _from_labels(groups, classes)
    for name, size in (("group", len(composition.groups)), ("class", int((composition.prior.sum(0) > 0).sum()))):
        if size < 2 and (name == "group" or composition.labelled):
            plural = {"group": "groups", "class": "classes"}[name]
            raise ValueError(f"{plural}: there is one {name}; at least two are needed.")
    if n_people is None:
        return composition
    if composition.people is not None:
        raise ValueError(
            f"n_people={brief_repr(n_people)}: there are {composition.people} people by the counts given; leave it out."
        )
    return Composition(
        composition.groups, composition.classes, composition.prior, check_integer("n_people", n_people, 1)
    )


def _from_confusion(counts: ConfusionCounts, classes: Any) -> Composition:
    if classes is not None:
        raise ValueError("classes: groups are counts that know their classes; leave it out.")
    total = int(counts.n_people.sum())
    return Composition(counts.groups, counts.classes, counts.n_people / total, total, counts.labelled)


def _from_labels(groups: Any, classes: Any) -> Composition:
    """Count people by their labels; classes : of the people too, or as for numbers."""
    group, names = encode_classes(groups, name="groups")
    numbers = dict(zip(names.tolist(), np.bincount(group).tolist(), strict=True))
    if isinstance(classes, Mapping) or is_number(classes) or classes is None or np.ndim(classes) != 1:
        return _from_numbers(numbers, classes)
    true, class_names = encode_classes(classes, name="classes")
    if len(true) != len(group):
        raise ValueError(f"classes: has {len(true)} labels for {len(group)} people; give one per person.")
    A, m = len(names), len(class_names)
    counts = np.bincount(group * m + true, minlength=A * m).reshape(A, m)
    return Composition(check_names(names, A, "groups"), class_names, counts / counts.sum(), len(group))


def _from_numbers(numbers: dict[Any, Any], classes: Any) -> Composition:
    """Return groups of these shares or counts, with classes that are independent of them or a table."""
    names = check_names(list(numbers), len(numbers), "groups")
    size, people = _shares("groups", numbers)
    if classes is None:
        raise ValueError(f"classes: missing; give {CLASS_FORMS}.")
    if isinstance(classes, Mapping) or (isinstance(classes, pd.Series) and classes.name in COUNTED):
        share, _ = _shares("classes", dict(classes))
        return Composition(
            names, check_names(list(dict(classes)), len(share), "classes"), np.outer(size, share), people
        )
    if is_integer(classes, 2):
        m = int(classes)
        return Composition(names, pd.RangeIndex(m), np.outer(size, np.full(m, 1 / m)), people)
    if np.ndim(classes) != 2:
        raise ValueError(f"classes={brief_repr(classes)}: must be {CLASS_FORMS}.")
    return _from_table(names, size, people, classes)


def _from_table(names: pd.Index, size: np.ndarray, people: int | None, table: Any) -> Composition:
    """Return the composition of a table (A, m); the sums of its rows must be those of the groups."""
    if isinstance(table, pd.DataFrame):
        if set(table.index) != set(names):
            raise ValueError(
                f"classes: its lines are [{brief_names(table.index.tolist())}], the groups "
                f"[{brief_names(names.tolist())}]; a table of groups by classes has a line for each group."
            )
        class_names, table = table.columns, table.loc[names.tolist()]
    else:
        class_names = pd.RangeIndex(np.shape(table)[1])
    numbers = as_numbers(table)
    if numbers is None or len(numbers) != len(names):
        raise ValueError(
            f"classes: a table of groups by classes must have {len(names)} lines of numbers, one per group."
        )
    keys = [(group, label) for group in names for label in class_names]
    share, total = _shares("classes", dict(zip(keys, numbers.ravel().tolist(), strict=True)), empty=True)
    prior = share.reshape(numbers.shape)
    if np.abs(prior.sum(1) - size).max() > ROW_SUM_SLACK:
        worst = int(np.abs(prior.sum(1) - size).argmax())
        raise ValueError(
            f"classes: has a share of {prior.sum(1)[worst]:.3g} in group {brief_repr(names.tolist()[worst])}, groups= "
            f"says {size[worst]:.3g}; they must agree."
        )
    return Composition(names, class_names, prior, people if total is None else total)


def _shares(argument: str, numbers: dict[Any, Any], empty: bool = False) -> tuple[np.ndarray, int | None]:
    """Return shares that sum to one, and how many people they are of: None where shares were given."""
    for name, value in numbers.items():
        if not is_number(value) or not np.isfinite(value) or value < 0 or (value == 0 and not empty):
            rule = "a number >= 0" if empty else "a positive number, or left out"
            raise ValueError(f"{argument}[{brief_repr(name)}]={brief_repr(value)}: must be {rule}.")
    values = np.array(list(numbers.values()), dtype=float)
    total = float(values.sum())
    if abs(total - 1) <= ROW_SUM_SLACK:
        return values / total, None
    if total < 1 or (values != np.round(values)).any():
        raise ValueError(f"{argument}: sum to {total:.6g}; give shares that sum to 1, or whole numbers of people.")
    return values / total, round(total)
