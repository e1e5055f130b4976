"""Tables in and out: CSV and Parquet, read whole, written whole or not at all."""

from __future__ import annotations

import csv
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from optfair.errors import need_extra
from optfair.files import replacing

CSV, PARQUET = (".csv", ".tsv"), (".parquet", ".pq")
COMPRESSED = (".gz", ".bz2", ".xz")
# A CSV takes about this many times its size in memory while it is read (texts more, numbers less).
CSV_IN_MEMORY, PARQUET_IN_MEMORY = 3.0, 6.0


class InputError(ValueError):
    """Something the user gave is wrong; the message says what and how to mend it."""


def read_table(
    path: str,
    columns: Sequence[str] | None = None,
    *,
    texts: Collection[str] = (),
    verbatim: bool = False,
    encoding: str = "utf-8",
    separator: str | None = None,
) -> pd.DataFrame:
    """The table in a file, or these columns of it.

    texts : columns that are not read as numbers, "007" stays "007". verbatim : every cell of a CSV as it is written,
    "NA" too, to be handed on.
    """
    file = _existing(path)
    kind = _kind(file)
    _check_memory(file, kind)
    if kind == "parquet":
        table = _read_parquet(file, columns)
    else:
        table = _read_csv(file, columns, texts, verbatim, encoding, separator)
    if len(table) == 0:
        raise InputError(f"{path}: has a header but no rows.")
    return table


def columns_of(path: str, *, encoding: str = "utf-8", separator: str | None = None) -> list[str]:
    """The names of the columns, without reading the rows."""
    file = _existing(path)
    if _kind(file) == "parquet":
        return [str(name) for name in _parquet(file).schema_arrow.names]
    return _header(file, encoding, separator or _usual_separator(file))


def write_table(table: pd.DataFrame, path: str) -> None:
    """Write a table to a file that is whole, or not there."""
    file = Path(path)
    kind = _kind(file)
    check_output(path)
    with replacing(file) as temporary:
        if kind == "parquet":
            need_extra("pyarrow", "writing Parquet")
            table.to_parquet(temporary, index=False)
        else:
            compression: Any = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz"}.get(file.suffix.lower())
            table.to_csv(temporary, index=False, sep=_usual_separator(file), compression=compression)


def check_output(path: str, *inputs: str) -> None:
    """Before long work: can this file be written, and is it not one that is read?"""
    file = Path(path)
    if not file.parent.is_dir():
        raise InputError(f"{path}: there is no folder {file.parent}; make it first.")
    if file.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file.")
    if not os.access(file.parent, os.W_OK):
        raise InputError(f"{path}: the folder {file.parent} cannot be written to.")
    for given in inputs:
        if file.exists() and Path(given).exists() and os.path.samefile(file, given):
            raise InputError(f"{path}: is the file that is read; write to another.")


def check_table_name(path: str) -> None:
    """Before long work: is this the name of a table?"""
    if _kind(Path(path)) == "parquet":
        need_extra("pyarrow", "writing Parquet")


def pick(given: Sequence[str] | None, columns: Sequence[str], option: str) -> list[str]:
    """The columns an option names, repeated or separated by commas; a column's own comma is understood."""
    found: list[str] = []
    for name in given or ():
        parts = [name] if name in columns else [part.strip() for part in name.split(",")]
        for part in parts:
            if part not in columns:
                raise InputError(f"{option} {part}: there is no such column; the table has {shown(columns)}.")
            if part not in found:
                found.append(part)
    return found


def shown(names: Sequence[Any], most: int = 20) -> str:
    """A list in words, cut when it is long."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def _existing(path: str) -> Path:
    """The file of a table, which is there and not empty."""
    file = Path(path)
    _kind(file)
    if file.is_dir():
        raise InputError(f"{path}: is a folder; give a file.")
    if not file.exists():
        raise InputError(f"{path}: there is no such file.")
    if file.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty.")
    return file


def _kind(file: Path) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    last = suffixes[-1] if suffixes else ""
    if last in PARQUET:
        return "parquet"
    if last in CSV or (last in COMPRESSED and suffixes[-2:-1] and suffixes[-2] in CSV):
        return "csv"
    raise InputError(f"{file}: its name must end in {', '.join(CSV + PARQUET)}, or .csv with {', '.join(COMPRESSED)}.")


def _usual_separator(file: Path) -> str:
    return "\t" if ".tsv" in [suffix.lower() for suffix in file.suffixes] else ","


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


def _header(file: Path, encoding: str, separator: str) -> list[str]:
    """Names as written: pandas would rename repeated ones without a word."""
    try:
        line = pd.read_csv(file, header=None, nrows=1, dtype=str, encoding=encoding, sep=separator, na_filter=False)
    except pd.errors.EmptyDataError:
        raise InputError(f"{file}: the file is empty.") from None
    except UnicodeError:
        raise InputError(f"{file}: is not {encoding}; say its --encoding, e.g. latin-1.") from None
    except (pd.errors.ParserError, OSError, EOFError, ValueError, csv.Error) as error:
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
    encoding: str,
    separator: str | None,
) -> pd.DataFrame:
    separator = separator or _usual_separator(file)
    names = _header(file, encoding, separator)
    _check_columns(file, columns, names)
    wanted = names if columns is None else list(columns)
    try:
        table = pd.read_csv(  # all columns: given usecols, pandas passes over lines that are too long without a word
            file,
            dtype=str if verbatim else {name: str for name in texts if name in wanted},
            na_filter=not verbatim,
            encoding=encoding,
            sep=separator,
            low_memory=False,
        )
    except UnicodeError:
        raise InputError(f"{file}: is not {encoding} throughout; say its --encoding, e.g. latin-1.") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, OSError, EOFError, ValueError, csv.Error) as error:
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
