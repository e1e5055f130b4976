"""Find tables of features in Parquet files, and draw rows of them into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import brief_names, need_extra
from optfair.storage.columns import plain_type
from optfair.storage.engines import Engine
from optfair.storage.parts import PART_ROWS, Part, PartError, batch_rows, file_parts, find_files, number_parts
from optfair.utils.parallel import map_items


@dataclass(frozen=True, eq=False)
class TableFiles:
    """A table that is kept in Parquet files.

    parts : of its rows. columns : names of the first file. n : rows. schemas : path and Arrow schema of each file.
    """

    parts: Sequence[Part]
    columns: Sequence[str]
    n: int
    schemas: Sequence[tuple[str, Any]]

    def check_columns(self, argument: str, names: Sequence[str]) -> None:
        """Refuse names that are not columns of all files, and of one kind: numbers, or values of one type."""
        absent = [name for name in names if name not in self.columns]
        if absent:
            raise ValueError(f"{argument}={absent[0]!r}: is not a column; there are [{brief_names(self.columns)}].")
        check_types(self.schemas, names)

    def is_nested(self, name: str) -> bool:
        """Tell whether a column holds lists or the like."""
        types = need_extra("pyarrow.types", "reading Parquet")
        return bool(types.is_nested(self.schemas[0][1].field(name).type))


def check_types(schemas: Sequence[tuple[str, Any]], names: Sequence[str]) -> None:
    """Refuse files whose columns are not of one kind: numbers, or values of one type. schemas : paths and schemas."""
    types = need_extra("pyarrow.types", "reading Parquet")
    expected: dict[str, tuple[str, Any]] = {}
    for path, schema in schemas:
        for name in names:
            if name not in schema.names:
                raise PartError(f"{path}: has no column {name!r}, which the first file has.")
            kind = plain_type(schema.field(name).type)
            if types.is_null(kind):  # no value of any type
                continue
            other, first = expected.setdefault(name, (path, kind))
            # A column of whole numbers with a gap is one of floats to many writers.
            are_numbers = all(types.is_integer(side) or types.is_floating(side) for side in (kind, first))
            if kind != first and not are_numbers:
                place = "the first file" if other == schemas[0][0] else other
                raise PartError(f"{path}: column {name!r} is of type {kind}; in {place} it is {first}.")


def find_table(source: Any, part_rows: int = PART_ROWS) -> TableFiles:
    """Find the rows of a folder, a file, a pattern, an address or a list.

    source : see `optfair.read_parquet`.
    """
    need_extra("pyarrow.parquet", "reading Parquet")
    paths, filesystem = find_files(source)
    files = map_items(lambda path: file_parts(path, filesystem, part_rows), paths)
    parts, n = number_parts(part for file, _ in files for part in file)
    if not n:
        raise ValueError("source: the files have no rows.")
    schemas = [(path, schema) for path, (_, schema) in zip(paths, files, strict=True)]
    return TableFiles(parts, list(schemas[0][1].names), n, schemas)


def batch_frame(batch: Any) -> pd.DataFrame:
    """Return a record batch as a data frame; categories are plain values, since those of files differ."""
    arrow = need_extra("pyarrow", "reading Parquet")
    frame: pd.DataFrame = arrow.RecordBatch.from_arrays(_plain_arrays(batch), names=batch.schema.names).to_pandas()
    return frame


def _plain_arrays(batch: Any) -> list[Any]:
    return [array.dictionary_decode() if hasattr(array, "dictionary") else array for array in batch.columns]


@dataclass(frozen=True, eq=False)
class PartRows:
    """Some rows of a part, by their numbers among all rows, sorted."""

    part: Part
    rows: np.ndarray

    @property
    def n(self) -> int | None:
        """The number of rows that have to be read."""
        return self.part.n


@dataclass(frozen=True)
class RowReader:
    """Reads some rows of a part as a table of Arrow."""

    columns: tuple[str, ...]

    def __call__(self, item: PartRows) -> Any:
        """Read a part."""
        arrow = need_extra("pyarrow", "reading Parquet")
        start, tables = item.part.start, []
        for batch in item.part.batches(self.columns, batch_rows(len(self.columns))):
            low, high = np.searchsorted(item.rows, [start, start + batch.num_rows])
            if low < high:
                rows = arrow.Table.from_arrays(_plain_arrays(batch), names=batch.schema.names)
                tables.append(rows.take(item.rows[low:high] - start))
            start += batch.num_rows
        return arrow.concat_tables(tables) if tables else None


def sample_rows(table: TableFiles, columns: Sequence[str], size: int, seed: int | None, engine: Engine) -> pd.DataFrame:
    """Return ``size`` rows of a table, drawn at random and in their order, or all where it has no more."""
    arrow = need_extra("pyarrow", "reading Parquet")
    if table.n <= size:
        rows = np.arange(table.n)
    else:
        rows = np.sort(np.random.default_rng(seed).choice(table.n, size, replace=False, shuffle=False))
    items = []
    for part in table.parts:
        low, high = np.searchsorted(rows, [part.start, part.start + (part.n or 0)])
        items += [PartRows(part, rows[low:high])] if low < high else []
    names = tuple(dict.fromkeys(columns))
    tables = [piece for piece in engine.map(RowReader(names), items) if piece is not None]
    try:
        whole = arrow.concat_tables(tables, promote_options="permissive").combine_chunks()
    except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
        raise PartError(f"the columns of the files do not go together ({str(error).splitlines()[0]}).") from None
    return pd.concat([batch_frame(batch) for batch in whole.to_batches()], ignore_index=True)
