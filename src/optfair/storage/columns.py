"""Find the columns of Z, weights and offsets in files, and make arrays of their batches."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from optfair.errors import brief_names, brief_repr, need_extra
from optfair.inputs.labels import check_names, name_index
from optfair.storage.parts import PartError, batch_rows

SEPARATORS = ("|", "/", "__", ":", "_", "-")  # of group and class in the name of a column
NUMBERS = "fiu"  # kinds of NumPy types that are numbers
Arrays = tuple[np.ndarray, np.ndarray | None, np.ndarray | None]  # Z (k, p), weight (k,), offset (k, m)


class RowColumns(Protocol):
    """What makes arrays of record batches: columns of Z, or a model that computes it from features.

    names : columns that are read. weight : that of the weights, or None. offset : those of utilities, or empty. groups,
    classes : names. dtype : of Z. n_cells : p. mark : tells apart what is made of the same columns.
    """

    @property
    def names(self) -> list[str]: ...
    @property
    def weight(self) -> str | None: ...
    @property
    def offset(self) -> tuple[str, ...]: ...
    @property
    def groups(self) -> pd.Index: ...
    @property
    def classes(self) -> pd.Index: ...
    @property
    def dtype(self) -> np.dtype: ...
    @property
    def n_cells(self) -> int: ...
    @property
    def mark(self) -> str: ...

    def arrays(self, batch: Any, name: str) -> Arrays:
        """Return Z (k, p), weight (k,) or None and offset (k, m) or None of a record batch of the part ``name``."""


def read_rows(columns: RowColumns) -> int:
    """Return how many rows are decoded at a time."""
    return batch_rows(max(columns.n_cells, len(columns.names)))


@dataclass(frozen=True, eq=False)
class Columns:
    """What the columns of a file are.

    z : of the cells a·m + i in order, or a single one of lists of A·m numbers. weight : or None. offset : of the
    classes, or empty; read as float64, as weights are. groups, classes : names. dtype : rows of Z are read in it.
    """

    z: tuple[str, ...]
    weight: str | None
    offset: tuple[str, ...]
    groups: pd.Index
    classes: pd.Index
    dtype: np.dtype
    mark: str = "z"

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        return [*self.z, *([] if self.weight is None else [self.weight]), *self.offset]

    @property
    def n_cells(self) -> int:
        """The number p = A·m of cells."""
        return len(self.groups) * len(self.classes)

    def arrays(self, batch: Any, name: str) -> Arrays:
        """Return Z, weight and offset of a record batch; see `RowColumns`."""
        if len(self.z) == 1 and self.n_cells > 1:
            Z = _listed(batch.column(self.z[0]), self.n_cells, f"{name}: column {self.z[0]!r}")
        else:
            Z = stack_columns(batch, self.z, self.dtype, name)
        offset = stack_columns(batch, self.offset, np.dtype(np.float64), name) if self.offset else None
        return np.ascontiguousarray(Z, dtype=self.dtype), weight_column(batch, self.weight, name), offset


def weight_column(batch: Any, column: str | None, name: str) -> np.ndarray | None:
    """Return the weights of a record batch, (k,), if there are any."""
    return None if column is None else stack_columns(batch, [column], np.dtype(np.float64), name)[:, 0]


def stack_columns(batch: Any, columns: Sequence[str], dtype: np.dtype, name: str) -> np.ndarray:
    """Return columns of numbers of a record batch of the part ``name``, (k, number of columns)."""
    values = np.empty((batch.num_rows, len(columns)), dtype=dtype)
    for k, column in enumerate(columns):
        array = batch.column(column)
        if array.null_count:
            raise PartError(f"{name}: column {column!r} has {array.null_count} missing values; fill them in.")
        numbers = array.to_numpy(zero_copy_only=False)
        if numbers.dtype.kind not in NUMBERS:
            raise PartError(f"{name}: column {column!r} holds {array.type}; it must hold numbers.")
        values[:, k] = numbers
    return values


def _listed(array: Any, width: int, place: str) -> np.ndarray:
    """Return lists of numbers as rows (k, p)."""
    if not hasattr(array, "flatten"):
        raise PartError(f"{place} holds {array.type}; it must hold lists of {width} numbers.")
    values = array.flatten()
    if array.null_count or values.null_count:
        raise PartError(f"{place} has {array.null_count + values.null_count} missing values; fill them in.")
    size = getattr(array.type, "list_size", None)
    lengths = array.value_lengths().to_numpy(zero_copy_only=False) if size is None else np.array([size])
    if (lengths != width).any():
        raise PartError(f"{place} holds lists that are not of {width} numbers each.")
    numbers = values.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind not in NUMBERS:
        raise PartError(f"{place} holds {array.type}; it must hold lists of numbers.")
    return np.asarray(numbers).reshape(-1, width)


# -- finding -----------------------------------------------------------------------------------------------------
def find_columns(
    schema: Any,
    z: str | Sequence[str],
    weight: str | None,
    offset: str | Sequence[str] | None,
    groups: Sequence[Any] | pd.Index | None,
    classes: Sequence[Any] | pd.Index | None,
) -> Columns:
    """Return what the columns of an Arrow schema are; see `optfair.read_parquet`."""
    names = list(schema.names)
    groups = None if groups is None else name_index(groups, "groups")
    classes = None if classes is None else name_index(classes, "classes")
    if weight is not None and weight not in names:
        raise ValueError(f"weight={weight!r}: is not a column; there are [{brief_names(names)}].")
    utilities = () if offset is None else tuple(_matching(offset, names, "offset")[0])
    reserved = {*utilities, *([] if weight is None else [weight])}  # which a pattern of z may match too
    cells, stars = _matching(z, [name for name in names if name not in reserved], "z")
    is_listed = len(cells) == 1 and _is_list(schema.field(cells[0]).type)
    n_cells = _list_width(schema.field(cells[0]), groups, classes) if is_listed else len(cells)
    group_names, class_names = _cell_names([] if is_listed else stars, n_cells, groups, classes)
    if offset is not None and len(utilities) != len(class_names):
        raise ValueError(f"offset: names {len(utilities)} columns; needs one for each of {len(class_names)} classes.")
    kinds = {name: _number_type(schema, name, is_listed and name in cells) for name in (*cells, *reserved)}
    is_single = all(kinds[name].kind == "f" and kinds[name].itemsize <= 4 for name in cells)
    dtype = np.dtype(np.float32 if is_single else np.float64)
    return Columns(tuple(cells), weight, utilities, group_names, class_names, dtype)


def check_schema(schema: Any, first: Any, columns: Sequence[str], path: str) -> None:
    """Refuse a file whose columns differ from those of the first one."""
    for name in columns:
        if name not in schema.names:
            raise PartError(f"{path}: has no column {name!r}, which the first file has.")
        kind, expected = plain_type(schema.field(name).type), plain_type(first.field(name).type)
        if kind != expected:
            raise PartError(f"{path}: column {name!r} is of type {kind}; in the first file it is {expected}.")


def check_cells(schema: Any, z: str | Sequence[str], columns: Columns, path: str) -> None:
    """Refuse a file in which the pattern of Z matches columns that the first one does not have."""
    if not isinstance(z, str) or z in columns.z:
        return
    extra = [name for name in schema.names if fnmatch.fnmatchcase(name, z) and name not in columns.names]
    if extra:
        raise PartError(f"{path}: column {extra[0]!r} matches z={z!r}, and the first file has none; name the columns.")


def plain_type(kind: Any) -> Any:
    """Return the type of the values of a column: files may number their categories each in its own way."""
    value = kind.value_type if hasattr(kind, "index_type") else kind
    short = str(value).removeprefix("large_").removesuffix("_view")
    is_long = short != str(value) and short in ("string", "binary")
    return need_extra("pyarrow", "reading Parquet").type_for_alias(short) if is_long else value


def _matching(pattern: str | Sequence[str], names: Sequence[str], argument: str) -> tuple[list[str], list[str]]:
    """Return the columns that a pattern or a list names, and what stands for the star."""
    if not isinstance(pattern, str):
        absent = [name for name in pattern if name not in names]
        if absent or not len(pattern):
            raise ValueError(f"{argument}: {brief_repr(absent or pattern)} names no column; [{brief_names(names)}] do.")
        n_letters = _common_words(pattern)
        return list(pattern), [name[n_letters:] for name in pattern]
    if pattern in names:
        return [pattern], [pattern]
    matches = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    if not matches:
        raise ValueError(f"{argument}={pattern!r}: matches no column; there are [{brief_names(names)}].")
    if pattern.count("*") != 1 or set(pattern) & set("?["):
        return matches, matches
    head, _, tail = pattern.partition("*")
    return matches, [name[len(head) : len(name) - len(tail)] for name in matches]


def _common_words(names: Sequence[str]) -> int:
    """Return the length of the words with which all names begin."""
    letters = zip(min(names), max(names), strict=False)
    length: int = next((k for k, (letter, other) in enumerate(letters) if letter != other), len(names[0]))
    return 1 + max(names[0][:length].rfind(separator) for separator in "".join(SEPARATORS))


def _cell_names(stars: Sequence[str], n_cells: int, groups: Any, classes: Any) -> tuple[pd.Index, pd.Index]:
    """Return names of groups and classes: those that the user gives, or those by which cells are called."""
    readings = _readings(stars)
    if groups is None and classes is None and len(stars):
        if len(readings) > 1:
            ways = " or ".join(f"[{brief_names(names)}]" for names, _ in readings)
            raise ValueError(
                f"groups, classes: missing; by the columns of z the groups are {ways}. Name both in the order of the "
                "columns."
            )
        if not readings:
            raise ValueError(
                f"groups, classes: missing; the columns of z, [{brief_names(list(stars))}], are not named by group and "
                "class. Name both in the order of the columns."
            )
        groups, classes = readings[0]
    names = _shape(n_cells, groups, classes)
    for reading in readings:
        for index, argument, columns in zip(names, ("groups", "classes"), reading, strict=True):
            check_order(index, columns, argument)
    return names


def _readings(stars: Sequence[str]) -> list[tuple[list[str], list[str]]]:
    """Return the groups and classes by which cells may be called, as in "female_low", in the order of the columns."""
    for separator in SEPARATORS:
        readings = []
        for k in range(1, 1 + min((name.count(separator) for name in stars), default=0)):
            pieces = [name.split(separator) for name in stars]
            pairs = [(separator.join(words[:k]), separator.join(words[k:])) for words in pieces]
            groups, classes = (list(dict.fromkeys(pair[side] for pair in pairs)) for side in (0, 1))
            if len(classes) > 1 and pairs == [(group, name) for group in groups for name in classes]:
                readings.append((groups, classes))
        if readings:
            return readings
    return []


def rename(index: pd.Index, names: Sequence[Any] | pd.Index | None, argument: str) -> pd.Index:
    """Return other names for groups or classes of files; None: those that they have."""
    if names is None:
        return index
    labels = check_names(names, len(index), argument)
    if not isinstance(index, pd.RangeIndex):  # numbers, where nobody named them
        check_order(labels, index, argument)
    return labels


def check_order(names: Iterable[Any], columns: Iterable[Any], argument: str) -> None:
    """Refuse names that are those of the columns in another order: rates would be told of the wrong group."""
    texts, expected = ([str(name) for name in side] for side in (names, columns))
    if texts != expected and sorted(texts) == sorted(expected):
        raise ValueError(
            f"{argument}: [{brief_names(texts)}] is not the order of the columns, [{brief_names(expected)}]; leave "
            "them out, or give them in that order."
        )


def _shape(n_cells: int, groups: Any, classes: Any) -> tuple[pd.Index, pd.Index]:
    """Return names of groups and classes whose product are the cells; those that are not given are numbers."""
    sizes: list[int | None] = [None if names is None else len(names) for names in (groups, classes)]
    if sizes == [None, None]:
        raise ValueError(f"groups, classes: missing; name them, so that {n_cells} numbers a row are a table of both.")
    A = sizes[0] or n_cells // (sizes[1] or 1)
    m = sizes[1] or n_cells // A
    if A * m != n_cells or m < 2:
        raise ValueError(f"z: has {n_cells} numbers a row; {A} groups and {m} classes need {A * m}, and two classes.")
    class_names = check_names(classes, m, "classes")
    if class_names.nlevels > 1:
        raise ValueError("classes: must be plain names, not a MultiIndex.")
    return check_names(groups, A, "groups"), class_names


def _is_list(kind: Any) -> bool:
    """Tell whether a column of an Arrow type holds lists."""
    return hasattr(kind, "value_type") and not hasattr(kind, "index_type")


def _list_width(column: Any, groups: Any, classes: Any) -> int:
    """Return how many numbers a list of a column holds; groups and classes say it where the type does not."""
    width = getattr(column.type, "list_size", None)
    if width is None and (groups is None or classes is None):
        raise ValueError(
            f"groups, classes: missing; column {column.name!r} holds lists of any length. Name both, classes within "
            "groups."
        )
    return len(groups) * len(classes) if width is None else int(width)


def _number_type(schema: Any, name: str, is_listed: bool) -> np.dtype:
    """Return the type of the numbers of a column, or of the lists in it."""
    kind = schema.field(name).type
    try:
        dtype = np.dtype((kind.value_type if is_listed else plain_type(kind)).to_pandas_dtype())
    except (NotImplementedError, TypeError):
        dtype = np.dtype(object)
    if dtype.kind not in NUMBERS:
        raise ValueError(f"column {name!r} holds {kind}; it must hold numbers.")
    return dtype
