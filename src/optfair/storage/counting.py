"""Count the combinations of values that rows in files have in a few columns: all that an audit needs to know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import brief_names, need_extra
from optfair.inputs.labels import object_array
from optfair.storage.engines import as_engine
from optfair.storage.parts import FilePart, Part, PartError, file_parts, find_files, number_parts
from optfair.storage.tables import check_types
from optfair.utils.parallel import map_items

MOST_VALUES = 10_000  # of a column: more are a number or an identifier
MOST_COMBINATIONS = 1_000_000  # of the values of all columns
MOST_CODES = 4_000_000  # of a table of counts: beyond, combinations are sorted instead
LARGEST_CODE = 2**62  # beyond, a combination has no number of its own
Counts = dict[tuple[Any, ...], int]


@dataclass(frozen=True)
class CombinationCounter:
    """Counts the combinations of values of some columns in a part."""

    columns: tuple[str, ...]

    def __call__(self, part: Part) -> Counts:
        """Read a part."""
        values: list[dict[Any, int]] = [{} for _ in self.columns]
        totals: dict[tuple[int, ...], int] = {}
        source = replace(part, dictionaries=self.columns) if isinstance(part, FilePart) else part
        for batch in source.batches(self.columns):
            if not batch.num_rows:
                continue
            pairs = zip(self.columns, values, strict=True)
            codes = [self._codes(batch.column(name), places, name, part) for name, places in pairs]
            for combination, n in _count_codes(codes, [len(places) for places in values]):
                totals[combination] = totals.get(combination, 0) + n
            check_number(len(totals), self.columns)
        names = [list(places) for places in values]
        return {
            tuple(names[k][code] for k, code in enumerate(combination)): n for combination, n in sorted(totals.items())
        }

    def _codes(self, array: Any, places: dict[Any, int], name: str, part: Part) -> np.ndarray:
        """Return the code of each value by its place among those so far, which is added to; missing ones are None."""
        encoded = array if hasattr(array, "dictionary") else array.dictionary_encode()
        words = [None if word != word else word for word in encoded.dictionary.to_pylist()]  # NaN is missing
        codes = np.array([places.setdefault(word, len(places)) for word in words] + [-1], dtype=np.int64)
        if len(places) > MOST_VALUES:
            raise PartError(f"{part.name}: column {name!r} has more than {MOST_VALUES:,} values; cut it into a few.")
        indices = encoded.indices.cast("int64")
        if indices.null_count:
            codes[-1] = places.setdefault(None, len(places))
            indices = indices.fill_null(len(words))
        return np.asarray(codes[indices.to_numpy(zero_copy_only=False)])


def check_number(n: int, columns: Sequence[str]) -> None:
    """Refuse more combinations than an audit can be about."""
    if n > MOST_COMBINATIONS:
        raise ValueError(
            f"columns [{brief_names(columns)}] have more than {MOST_COMBINATIONS:,} combinations of values; cut them "
            "into fewer."
        )


def _count_codes(codes: Sequence[np.ndarray], sizes: Sequence[int]) -> list[tuple[tuple[int, ...], int]]:
    """Return the combinations of codes that occur, and how often."""
    radix = math.prod(sizes)
    if radix > LARGEST_CODE:
        rows, numbers = np.unique(np.column_stack(codes), axis=0, return_counts=True)
    else:
        mixed = np.ravel_multi_index(tuple(codes), tuple(sizes))
        if radix <= MOST_CODES:
            table = np.bincount(mixed)
            present = np.flatnonzero(table)
            numbers = table[present]
        else:
            present, numbers = np.unique(mixed, return_counts=True)
        rows = np.column_stack(np.unravel_index(present, tuple(sizes)))
    return list(zip(map(tuple, rows.tolist()), numbers.tolist(), strict=True))


def count_combinations(
    source: Any, columns: Sequence[str], client: Any = None, n_jobs: int | None = None
) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the combinations of values of some columns in Parquet files, a row for each, and how many rows have it.

    source : see `optfair.read_parquet`. client : see `optfair.storage.engines`.
    """
    types = need_extra("pyarrow.types", "reading Parquet")
    paths, filesystem = find_files(source)
    names = list(dict.fromkeys(columns))
    files = map_items(lambda path: file_parts(path, filesystem), paths, n_jobs)
    for path, (_, schema) in zip(paths, files, strict=True):
        absent = [name for name in names if name not in schema.names]
        if absent:
            raise PartError(f"{path}: has no column {absent[0]!r}; there are [{brief_names(schema.names)}].")
        nested = [schema.field(name) for name in names if types.is_nested(schema.field(name).type)]
        if nested:
            raise PartError(f"{path}: column {nested[0].name!r} holds {nested[0].type}; it must hold one value a row.")
    check_types([(path, schema) for path, (_, schema) in zip(paths, files, strict=True)], names)
    parts, n = number_parts(part for file, _ in files for part in file)
    if not n:
        raise ValueError("source: the files have no rows.")
    totals: Counts = {}
    for counts in as_engine(client, n_jobs).map(CombinationCounter(tuple(names)), parts):
        for combination, number in counts.items():
            totals[combination] = totals.get(combination, 0) + number
        check_number(len(totals), names)
    rows = sorted(totals, key=lambda values: [(value is None, str(type(value)), value) for value in values])
    table = pd.DataFrame({name: _series([row[k] for row in rows]) for k, name in enumerate(names)})
    return table, np.array([totals[row] for row in rows], dtype=np.int64)


def _series(values: list[Any]) -> pd.Series:
    """Return values as a series; whole numbers with gaps are not made floats."""
    series = pd.Series(object_array(values))
    has_gaps = None in values and {type(value) for value in values if value is not None} == {int}
    return series if has_gaps else series.infer_objects()
