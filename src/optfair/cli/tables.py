"""Tables in and out: CSV and Parquet, read whole, written whole or not at all."""

from __future__ import annotations

import csv
import os
from argparse import Namespace
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from optfair.cli.paths import COMPRESSED, InputError, check_input, check_output, kind_of
from optfair.errors import need_extra
from optfair.files import replacing

# A CSV takes about this many times its size in memory while it is read (texts more, numbers less).
CSV_IN_MEMORY, PARQUET_IN_MEMORY = 3.0, 6.0
UNREADABLE = (ValueError, pd.errors.ParserWarning, LookupError, OSError, EOFError, csv.Error)


class Format(NamedTuple):
    """How a CSV is written. separator : None for a comma, or a tab in .tsv."""

    encoding: str = "utf-8"
    separator: str | None = None
    decimal: str = "."

    @classmethod
    def of(cls, arguments: Namespace) -> Format:
        """As told on the command line."""
        if len(arguments.decimal) != 1 or (arguments.separator is not None and not arguments.separator):
            raise InputError("--decimal and --separator: must be one character.")
        return cls(arguments.encoding, arguments.separator, arguments.decimal)

    def between(self, file: Path) -> str:
        """What separates the cells of a file."""
        return self.separator or ("\t" if ".tsv" in [suffix.lower() for suffix in file.suffixes] else ",")


USUAL = Format()


def read_table(
    path: str,
    columns: Sequence[str] | None = None,
    *,
    texts: Collection[str] = (),
    verbatim: bool = False,
    form: Format = USUAL,
) -> pd.DataFrame:
    """The table in a file, or these columns of it.

    texts : columns that are not read as numbers, "007" stays "007". verbatim : every cell of a CSV as it is written,
    "NA" too, to be handed on.
    """
    kind, file = kind_of(path), Path(path)
    check_input(path)
    _check_memory(file, kind)
    table = _read_parquet(file, columns) if kind == "parquet" else _read_csv(file, columns, texts, verbatim, form)
    if len(table) == 0:
        raise InputError(f"{path}: has a header but no rows.")
    return table


def columns_of(path: str, form: Format = USUAL) -> list[str]:
    """The names of the columns, without reading the rows."""
    kind, file = kind_of(path), Path(path)
    check_input(path)
    if kind == "parquet":
        return [str(name) for name in _parquet(file).schema_arrow.names]
    return _header(file, form)


def write_table(table: pd.DataFrame, path: str, form: Format = USUAL) -> None:
    """Write a table to a file that is whole, or not there."""
    kind, file = kind_of(path), Path(path)
    check_output(path)
    with replacing(file) as temporary:
        if kind == "parquet":
            need_extra("pyarrow", "writing Parquet")
            table.to_parquet(temporary, index=False)
        else:
            compression: Any = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz"}.get(file.suffix.lower())
            told: Any = {"sep": form.between(file), "encoding": form.encoding, "decimal": form.decimal}
            table.to_csv(temporary, index=False, compression=compression, **told)


def check_table_name(path: str) -> None:
    """Before long work: is this the name of a table?"""
    if kind_of(path) == "parquet":
        need_extra("pyarrow", "writing Parquet")


def pick(given: Sequence[str] | None, columns: Sequence[str], option: str) -> list[str]:
    """The columns an option names, repeated or separated by commas; a column's own comma is understood."""
    found: list[str] = []
    for name in given or ():
        parts = [name] if name in columns else [part.strip() for part in name.split(",")]
        for part in parts:
            if part not in columns:
                other = next((mark for mark in (";", "\t", "|") if len(columns) == 1 and mark in columns[0]), None)
                hint = f" Is it separated by {other!r}? Say --separator {other!r}." if other else ""
                raise InputError(f"{option} {part}: there is no such column; the table has {shown(columns)}.{hint}")
            if part not in found:
                found.append(part)
    return found


def shown(names: Sequence[Any], most: int = 20) -> str:
    """A list in words, cut when it is long."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def _check_memory(file: Path, kind: str) -> None:
    """Refuse what would not fit, before the machine is brought to its knees."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not known on this system
        return
    times = PARQUET_IN_MEMORY if kind == "parquet" or file.suffix.lower() in COMPRESSED else CSV_IN_MEMORY
    needed = times * file.stat().st_size
    if needed > max(free, 1 << 30):
        raise InputError(
            f"{file}: {file.stat().st_size / 1e9:.1f} GB would take about {needed / 1e9:.0f} GB of memory, "
            f"{free / 1e9:.1f} GB are free; keep only the columns and rows that are needed."
        )


def _header(file: Path, form: Format) -> list[str]:
    """Names as written: pandas would rename repeated ones without a word."""
    told: Any = {"encoding": form.encoding, "sep": form.between(file)}
    try:
        line = pd.read_csv(file, header=None, nrows=1, dtype=str, na_filter=False, **told)
    except pd.errors.EmptyDataError:
        raise InputError(f"{file}: the file is empty.") from None
    except UnicodeError:
        raise InputError(f"{file}: is not {form.encoding}; say its --encoding, e.g. latin-1.") from None
    except UNREADABLE as error:
        raise InputError(f"{file}: cannot be read as CSV ({error}).") from None
    names = [str(name) for name in line.iloc[0]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{file}: column {twice[0]!r} is there {names.count(twice[0])} times; rename one.")
    return names


def _read_csv(
    file: Path,
    columns: Sequence[str] | None,
    texts: Collection[str],
    verbatim: bool,
    form: Format,
) -> pd.DataFrame:
    names = _header(file, form)
    _check_columns(file, columns, names)
    wanted = names if columns is None else list(columns)
    try:
        table = pd.read_csv(  # all columns: given usecols, pandas passes over lines that are too long without a word
            file,
            dtype=str if verbatim else {name: str for name in texts if name in wanted},
            na_filter=not verbatim,
            encoding=form.encoding,
            sep=form.between(file),
            decimal=form.decimal,
            low_memory=False,
        )
    except UnicodeError:
        raise InputError(f"{file}: is not {form.encoding} throughout; say its --encoding, e.g. latin-1.") from None
    except (
        pd.errors.ParserError,
        pd.errors.ParserWarning,
        LookupError,
        OSError,
        EOFError,
        ValueError,
        csv.Error,
    ) as error:
        raise InputError(f"{file}: cannot be read as CSV ({str(error).strip()}).") from None
    if len(table.columns) != len(names) or not isinstance(table.index, pd.RangeIndex):
        raise InputError(f"{file}: its lines have more fields than the header has names ({len(names)}).")
    return table.set_axis(names, axis=1)[wanted]


def _parquet(file: Path) -> Any:
    parquet = need_extra("pyarrow.parquet", "reading Parquet")
    try:
        return parquet.ParquetFile(file)
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise InputError(f"{file}: cannot be read as Parquet ({str(error).splitlines()[0]}).") from None


def _read_parquet(file: Path, columns: Sequence[str] | None) -> pd.DataFrame:
    names = columns_of(str(file))
    _check_columns(file, columns, names)
    try:
        return pd.read_parquet(file, columns=names if columns is None else list(columns)).reset_index(drop=True)
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read as Parquet ({str(error).splitlines()[0]}).") from None


def _check_columns(file: Path, wanted: Sequence[str] | None, names: Sequence[str]) -> None:
    absent = [name for name in wanted or () if name not in names]
    if absent:
        raise InputError(f"{file}: has no column {shown(absent)}; it has {shown(names)}.")
