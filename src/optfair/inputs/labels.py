"""Check labels at the door, once: groups, classes and weights.

Rows are matched by position. Names keep the type they were given with (strings, integers, booleans, tuples);
below this module there are only integer codes 0..A−1 and 0..m−1 and two pandas indexes that name them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import brief_names, brief_repr
from optfair.inputs.values import as_array, check_text, exact_column, object_array, refuse_equal_types, refuse_gradients
from optfair.utils.checks import check_choice

MISSING = "(missing)"
MISSING_CHOICES = ("error", "group")
UNKNOWN = -2  # the code of a missing group beside −1, that of a group which was not seen
LABEL_TYPES = "give classes as strings, integers or booleans"
EVERYBODY = "overall"  # what tables call all groups together
RESERVED = (EVERYBODY, "everybody")  # the second in reports


def encode_groups(
    sensitive_features: Any, n: int | None = None, *, missing: str = "error", step: str = ""
) -> tuple[np.ndarray, pd.Index]:
    """Return codes[row] ∈ 0..A−1 and the A names: an Index, or a MultiIndex of the combinations observed.

    sensitive_features : n values; or n × attributes (2-d array or data frame; one column is one attribute).
    n : the number of rows expected.
    missing : what NaN, None and NaT get: "error", or "group" (a group of their own, named "(missing)").
    step : what else a user can do about them, at the end of the message.
    """
    check_choice("missing", missing, MISSING_CHOICES)
    factors, names = _group_factors(sensitive_features, n)
    holes = np.any([codes < 0 for codes, _ in factors], axis=0)
    if holes.any() and missing == "error":
        raise ValueError(
            f"sensitive_features: {int(holes.sum())} of {len(holes)} rows have a missing value; drop these rows, fill "
            f"them in, or make them a group of their own (missing='group'){step}."
        )
    return _combine([_name_missing(codes, labels) for codes, labels in factors], names)


@dataclass(frozen=True, eq=False)
class PartialGroups:
    """Groups of rows some of which miss one attribute or all.

    codes : (n,) of the group, −1 where an attribute is missing. names : of the groups that occur, as `encode_groups`
    gives them. attributes : (n, L) code of each attribute, −1 where it is missing.
    """

    codes: np.ndarray
    names: pd.Index
    attributes: np.ndarray

    @property
    def n_missing(self) -> int:
        """The number of rows that miss an attribute."""
        return int((self.codes < 0).sum())


def encode_partial_groups(sensitive_features: Any, n: int | None = None) -> PartialGroups:
    """Return the groups of rows of which some miss an attribute; at least one must have all. See `encode_groups`."""
    factors, names = _group_factors(sensitive_features, n)
    attributes = np.column_stack([codes for codes, _ in factors])
    complete = np.asarray((attributes >= 0).all(axis=1))
    if not complete.any():
        raise ValueError(
            f"sensitive_features: all {len(complete)} rows have a missing value; give the groups of at least some "
            "people."
        )
    group_codes, index = _combine([(codes[complete], labels) for codes, labels in factors], names)
    codes = np.full(len(complete), -1, dtype=np.intp)
    codes[complete] = group_codes
    return PartialGroups(codes, index, attributes)


def _group_factors(sensitive_features: Any, n: int | None) -> tuple[list[tuple[np.ndarray, list[Any]]], list[Hashable]]:
    """Return codes (−1 where missing) and labels of each attribute, and the names of the attributes."""
    name = "sensitive_features"
    columns, names = _columns(sensitive_features)
    if n is not None and len(columns[0]) != n:
        raise ValueError(f"{name}: has {len(columns[0])} rows, the data has {n}; give one group per row.")
    return [_factorize(column, name) for column in columns], names


def _combine(factors: list[tuple[np.ndarray, list[Any]]], names: list[Hashable]) -> tuple[np.ndarray, pd.Index]:
    """Return codes and names of the combinations of attributes that occur; none may be missing."""
    if len(factors) == 1:
        codes, labels = factors[0]
        _check_group_names(labels, "sensitive_features")
        return codes, pd.Index(labels, name=names[0], tupleize_cols=False)
    # Mixed-radix code of a combination: its order is the lexicographic order of the attributes.
    mixed = np.zeros(len(factors[0][0]), dtype=np.int64)
    for codes, labels in factors:
        mixed = mixed * len(labels) + codes
    combinations, codes = np.unique(mixed, return_inverse=True)
    levels = []
    for _, labels in reversed(factors):
        combinations, digit = np.divmod(combinations, len(labels))
        levels.append(object_array(labels)[digit])
    return codes, pd.MultiIndex.from_arrays(levels[::-1], names=names)


def encode_classes(
    y: Any, classes: Iterable[Hashable] | None = None, *, name: str = "y_true"
) -> tuple[np.ndarray, pd.Index]:
    """Return codes[row] ∈ 0..m−1 and the m class names, sorted (or exactly `classes`, unseen ones included)."""
    codes, labels = _factorize(_one_dimensional(y, name), name)
    if len(codes) == 0:
        raise ValueError(f"{name}: has no rows; give at least one.")
    if (codes < 0).any():
        raise ValueError(
            f"{name}: {int((codes < 0).sum())} of {len(codes)} rows are missing; drop them or fill them in."
        )
    refuse_continuous([label for label in labels if isinstance(label, float) and not label.is_integer()], name)
    if classes is None:
        return codes, pd.Index(labels, tupleize_cols=False)
    index = name_index(classes, "classes")
    return recode(codes, labels, index, name, "classes="), index


def refuse_continuous(labels: Sequence[float], name: str) -> None:
    """Refuse labels that are not whole numbers, if there are any."""
    if labels:
        raise ValueError(f"{name}: {labels[0]!r} is not a class label (continuous values); {LABEL_TYPES}.")


def recode(codes: np.ndarray, labels: Sequence[Hashable], index: pd.Index, name: str, among: str) -> np.ndarray:
    """Return the codes of the same rows with respect to `index`.

    A label that `index` does not hold is an error; among : what its message calls the labels of `index`.
    """
    # A dictionary, not get_indexer: 1, 1.0 and True are the same label, whatever the dtype of the index.
    place = {label: position for position, label in enumerate(index)}
    unknown = [label for label in labels if label not in place]
    if unknown:
        raise ValueError(f"{name}: {brief_repr(unknown[0])} is not in {among}[{brief_names(index.tolist())}].")
    return np.array([place[label] for label in labels], dtype=np.intp)[codes]


def match_groups(
    sensitive_features: Any, groups: pd.Index, n: int, *, missing: str = "error", unseen: str = "error"
) -> np.ndarray:
    """Return codes[row] of fitted ``groups``, (n,). unseen : what another group gets: "error", or "blind" (−1).

    missing : as in `encode_groups`, or "infer": the code of a missing group is then UNKNOWN. With "group" an empty text
    is missing too, unless it is a group.
    """
    if isinstance(sensitive_features, pd.DataFrame) and isinstance(groups, pd.MultiIndex):
        columns, fitted = list(sensitive_features.columns), list(groups.names)
        if columns != fitted and set(columns) != set(fitted):
            raise ValueError(
                f"sensitive_features: has the columns [{brief_names(columns)}]; fit had [{brief_names(fitted)}]."
            )
        sensitive_features = sensitive_features[fitted]
    if missing == "infer":
        partial = encode_partial_groups(sensitive_features, n)
        codes, names = partial.codes, partial.names
    else:
        codes, names = encode_groups(sensitive_features, n, missing=missing)
    place = {name: position for position, name in enumerate(groups)}
    labels = [_name_empty(name, place) for name in names] if missing == "group" else list(names)
    if unseen == "error":
        positions = recode(np.arange(len(labels)), labels, groups, "sensitive_features", "the groups seen in fit: ")
    else:
        _check_n_attributes(labels, groups)
        positions = np.array([place.get(name, -1) for name in labels], dtype=np.intp)
    return np.append(positions, UNKNOWN)[codes]  # a missing group, coded −1, is the last


def _name_empty(name: Hashable, place: Mapping[Hashable, int]) -> Hashable:
    """Return the name of a group in which an empty text is missing, unless there is a group of that name."""
    if name in place:
        return name
    if isinstance(name, tuple):
        return tuple(MISSING if part == "" else part for part in name)
    return MISSING if name == "" else name


def _check_n_attributes(names: Sequence[Hashable], groups: pd.Index) -> None:
    """Refuse groups of fewer or more attributes than those fitted on, of which none can be one that was not seen."""
    sizes = [{len(name) if isinstance(name, tuple) else 1 for name in part} for part in (names, groups)]
    if not sizes[0] <= sizes[1]:
        raise ValueError(
            f"sensitive_features: {brief_repr(names[0])} has another number of attributes than the groups seen in fit: "
            f"[{brief_names(groups.tolist())}]."
        )


def name_index(names: Iterable[Hashable], argument: str) -> pd.Index:
    """Return names (`classes=`, `groups=`) as an index without repetitions."""
    if isinstance(names, (str, bytes, Set, Mapping)) or not isinstance(names, Iterable):
        raise ValueError(f"{argument}={brief_repr(names)}: must be a list of names.")
    labels = names if isinstance(names, pd.Index) else [_plain(x) for x in names]
    check_text(labels, argument)
    index = labels if isinstance(labels, pd.Index) else pd.Index(labels, tupleize_cols=False)
    if not all(isinstance(name, Hashable) for name in index):
        raise ValueError(f"{argument}={brief_repr(index.tolist())}: must be hashable names, such as text or numbers.")
    if len(index) == 0:
        raise ValueError(f"{argument}=[]: is empty; name each one once.")
    if not index.is_unique:
        duplicate = index[index.duplicated()].tolist()[0]
        raise ValueError(
            f"{argument}: holds a name twice, {brief_repr(duplicate)}, among {len(index)}; name each one once."
        )
    return index


def check_weights(sample_weight: Any, n: int) -> np.ndarray | None:
    """Return the weights as (n,) float64, or None when none were given."""
    if sample_weight is None:
        return None
    name = "sample_weight"
    refuse_gradients(sample_weight, name)
    try:
        weights = np.asarray(sample_weight)
        weights = weights if weights.dtype.kind == "c" else weights.astype(float, copy=False)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: must be numbers, one per row.") from None
    if weights.dtype.kind == "c":
        raise ValueError(f"{name}: holds complex numbers; must be real ones, one per row.")
    if weights.shape != (n,):
        raise ValueError(f"{name}: has shape {weights.shape}; must be ({n},), one number per row.")
    if not np.isfinite(weights).all():
        raise ValueError(f"{name}: {int((~np.isfinite(weights)).sum())} values are NaN or infinite; must be finite.")
    if (weights < 0).any():
        raise ValueError(f"{name}: {int((weights < 0).sum())} values are negative (the least is {weights.min():g}).")
    if not weights.any():
        raise ValueError(f"{name}: all {n} values are zero; at least one row must count.")
    return weights


def mean_one_weights(sample_weight: Any, n: int) -> np.ndarray | None:
    """Return weights of mean one, (n,) float64, or None when none were given."""
    weight = check_weights(sample_weight, n)
    if weight is None:
        return None
    # Divide by the largest first: the mean of subnormal weights would lose its digits.
    weight = weight / weight.max()
    return weight / weight.mean()


def check_names(names: Sequence[Any] | pd.Index | None, size: int, argument: str) -> pd.Index:
    """Return names of groups or classes as an Index: unique, none missing, ``size`` of them; 0, 1, ... by default."""
    if names is None:
        return pd.RangeIndex(size)
    index = name_index(names, argument)
    if len(index) != size:
        raise ValueError(f"{argument}: {len(index)} names given, but Z has {size} of them.")
    if index.to_frame(index=False).isna().to_numpy().any():
        raise ValueError(f"{argument}: a name is missing (NaN or None); give every one a name.")
    if argument == "groups":
        _check_group_names(index, argument)
    return index


def _check_group_names(names: Iterable[Hashable], argument: str) -> None:
    name = next((name for name in names if isinstance(name, str) and name in RESERVED), None)
    if name is not None:
        raise ValueError(f"{argument}: a group is named {name!r}, as tables call everybody; give it another name.")


def _columns(values: Any) -> tuple[list[Any], list[Hashable]]:
    """Return the columns of a 1-d or 2-d argument and their names."""
    name = "sensitive_features"
    if values is None:
        raise ValueError(f"{name}: missing; give the group of every row.")
    if isinstance(values, (pd.Series, pd.Index)) and not isinstance(values, pd.MultiIndex):
        return [values], [values.name]
    if isinstance(values, pd.MultiIndex):
        values = values.to_frame(index=False)
    if isinstance(values, pd.DataFrame):
        columns = [values.iloc[:, k] for k in range(values.shape[1])]
        names = list(values.columns)
    else:
        array = as_array(values, name)
        if array.ndim not in (1, 2):
            raise ValueError(f"{name}: has {array.ndim} dimensions; must be 1-d, or 2-d with one column per attribute.")
        columns = [array] if array.ndim == 1 else list(array.T)
        names = [None] if array.ndim == 1 else list(getattr(values, "columns", range(len(columns))))
    if not columns:
        raise ValueError(f"{name}: has no columns; give at least one attribute.")
    return columns, names if len(columns) > 1 or isinstance(values, pd.DataFrame) else [None]


def _one_dimensional(values: Any, name: str) -> Any:
    if values is None:
        raise ValueError(f"{name}: missing; give one label per row.")
    if isinstance(values, (pd.Series, pd.Index)):
        return values
    array = as_array(values, name)
    if array.ndim != 1:
        raise ValueError(f"{name}: has shape {array.shape}; must be 1-d, one label per row.")
    return array


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _factorize(values: Any, name: str) -> tuple[np.ndarray, list[Any]]:
    """Return codes (−1 where missing) and distinct labels, sorted when they can be, else in the order of the rows."""
    values = exact_column(values)
    refuse_equal_types(values, name)
    try:
        codes, uniques = pd.factorize(values)
    except TypeError:
        raise ValueError(f"{name}: holds values that cannot be labels; use strings, numbers or booleans.") from None
    # As objects: pandas would store texts in a way that cannot hold all of them.
    labels = [_plain(label) for label in pd.Index(uniques, dtype=object, tupleize_cols=False).tolist()]
    check_text(labels, name)
    try:
        order = sorted(range(len(labels)), key=labels.__getitem__)
    except TypeError:
        return codes, labels
    rank = np.empty(len(labels) + 1, dtype=np.intp)
    rank[order] = np.arange(len(labels))
    rank[-1] = -1
    return rank[codes], [labels[position] for position in order]


def _name_missing(codes: np.ndarray, labels: list[Any]) -> tuple[np.ndarray, list[Any]]:
    if not (codes < 0).any():
        return codes, labels
    if MISSING in labels:
        raise ValueError(
            f"sensitive_features: has a group named {MISSING!r} beside missing values, which missing='group' would "
            "name the same; rename the group, or fill the missing values in."
        )
    return np.where(codes < 0, len(labels), codes), [*labels, MISSING]
