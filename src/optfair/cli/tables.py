"""Tables in and out: CSV and Parquet, read whole, written whole or not at all."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
from argparse import Namespace
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
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
        separator = "\t" if arguments.separator == "\\t" else arguments.separator
        if len(arguments.decimal) != 1 or (separator is not None and len(separator) != 1):
            raise InputError("--decimal and --separator: must be one character.")
        return cls(arguments.encoding, separator, arguments.decimal)

    def between(self, file: Path) -> str:
        """What separates the cells of a file."""
        return self.separator or ("\t" if ".tsv" in [suffix.lower() for suffix in file.suffixes] else ",")


USUAL = Format()


def read_table(
    path: str,
    columns: Sequence[str] | None = None,
    *,
    texts: Collection[str] = (),
    names: Collection[str] = (),
    verbatim: bool = False,
    form: Format = USUAL,
) -> pd.DataFrame:
    """The table in a file, or these columns of it.

    texts : columns that are not read as numbers, "007" stays "007". names : columns of labels and groups, which are
    numbers only where no two texts would become one ("1" and "01"). verbatim : every cell of a CSV as it is written,
    "NA" too, to be handed on.
    """
    kind, file = kind_of(path), Path(path)
    check_input(path)
    _check_memory(file, kind)
    if kind == "parquet":
        table = _read_parquet(file, columns, names)
    else:
        table = _read_csv(file, columns, texts, names, verbatim, form)
    for name in names:
        table[name] = _settled(table[name], form)
    if len(table) == 0:
        raise InputError(f"{path}: has a header but no rows.")
    return table


def columns_of(path: str, form: Format = USUAL) -> list[str]:
    """The names of the columns, without reading the rows."""
    kind, file = kind_of(path), Path(path)
    check_input(path)
    if kind == "parquet":
        found = [str(name) for name in _parquet(file).schema_arrow.names]
        # What pandas calls the numbers of rows that it kept: no column of the user's.
        return _once(file, [name for name in found if not re.fullmatch(r"__index_level_\d+__", name)])
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
    try:  # "free" would leave out what the system lends to its file cache
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024
    except (OSError, StopIteration, ValueError):  # not known on this system
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
    return _once(file, [str(name) for name in line.iloc[0]])


def _once(file: Path, names: list[str]) -> list[str]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{file}: column {twice[0]!r} is there {names.count(twice[0])} times; rename one.")
    return names


def _read_csv(
    file: Path,
    columns: Sequence[str] | None,
    texts: Collection[str],
    people: Collection[str],
    verbatim: bool,
    form: Format,
) -> pd.DataFrame:
    """people : columns of labels and groups, in which "NA" is missing as it is in numbers."""
    names = _header(file, form)
    _check_columns(file, columns, names)
    wanted = names if columns is None else list(columns)
    try:
        table = pd.read_csv(  # all columns: given usecols, pandas passes over lines that are too long without a word
            file,
            dtype=str if verbatim else {name: str for name in (*texts, *people) if name in wanted},
            na_filter=not verbatim,
            encoding=form.encoding,
            sep=form.between(file),
            decimal=form.decimal,
            low_memory=False,
        )
    except UnicodeError:
        raise InputError(f"{file}: is not {form.encoding} throughout; say its --encoding, e.g. latin-1.") from None
    except UNREADABLE as error:
        raise InputError(f"{file}: cannot be read as CSV ({str(error).strip()}).") from None
    if len(table.columns) != len(names) or not isinstance(table.index, pd.RangeIndex):
        raise InputError(f"{file}: its lines have more fields than the header has names ({len(names)}).")
    table = table.set_axis(names, axis=1)
    if not verbatim and table[names[-1]].isna().any():
        _check_lengths(file, len(names), form)
    return table[wanted] if verbatim else _with_words(file, table, [n for n in wanted if n not in people], form)[wanted]


def _with_words(file: Path, table: pd.DataFrame, columns: Sequence[str], form: Format) -> pd.DataFrame:
    """In features that are texts "NA", "None" and "null" are words; only an empty cell is missing."""
    holed = [name for name in columns if table[name].isna().any()]
    holed = [name for name in holed if pd.api.types.infer_dtype(table[name], skipna=True) == "string"]
    if not holed:
        return table
    told: Any = {"encoding": form.encoding, "sep": form.between(file)}
    places = sorted(table.columns.get_loc(name) for name in holed)  # by place: pandas gives nameless ones a name
    words = pd.read_csv(file, usecols=places, dtype=str, keep_default_na=False, na_values=[""], **told)
    return table.assign(**{table.columns[place]: words.iloc[:, k] for k, place in enumerate(places)})


def _check_lengths(file: Path, n: int, form: Format) -> None:
    """pandas fills up lines that are too short; where the last one is, the file was cut off."""
    opened: Any = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}.get(file.suffix.lower(), open)
    try:
        with opened(file, "rt", encoding=form.encoding, newline="") as handle:
            reader = csv.reader(handle, delimiter=form.between(file))
            line, cells = 0, n
            for row in reader:
                if len(row) > 1 or (row and row[0].strip()):
                    line, cells = reader.line_num, len(row)
    except csv.Error:
        return  # cells larger than the csv module takes: pandas has read them
    if cells < n:
        raise InputError(f"{file}: line {line}, the last, has {cells} cells, the header {n}; is the file complete?")


def _settled(column: pd.Series, form: Format) -> pd.Series:
    """Labels and groups: texts that are numbers or truth values as such, if no two of them become one."""
    if pd.api.types.is_float_dtype(column.dtype) and (column.dropna() % 1 == 0).all():
        return column if column.isna().any() else column.astype(np.int64)
    if pd.api.types.infer_dtype(column, skipna=True) != "string":
        return column
    texts = column.dropna().unique().tolist()
    try:
        values: dict[str, Any] = {text: _number(text.strip().replace(form.decimal, ".")) for text in texts}
    except ValueError:
        values = {word: word.lower() == "true" for word in ("True", "False", "TRUE", "FALSE", "true", "false")}
        if not set(texts) <= set(values):
            return column
    if len({values[text] for text in texts}) < len(texts):
        return column
    numbers = [values[text] for text in texts]
    if not any(isinstance(value, bool) for value in numbers) and all(value == int(value) for value in numbers):
        values = {text: int(value) for text, value in values.items()}
    found = [values.get(text, np.nan) for text in column.tolist()]
    return pd.Series(found, index=column.index, name=column.name, dtype=object if column.isna().any() else None)


def _number(text: str) -> float:
    """A number written in the usual way; codes such as 007 or 1_0 are none."""
    if not re.fullmatch(r"[+-]?(0|[1-9]\d*)(\.\d+)?", text):
        raise ValueError(text)
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def _parquet(file: Path) -> Any:
    parquet = need_extra("pyarrow.parquet", "reading Parquet")
    try:
        return parquet.ParquetFile(file)
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise InputError(f"{file}: cannot be read as Parquet ({str(error).splitlines()[0]}).") from None


def _read_parquet(file: Path, columns: Sequence[str] | None, plain: Collection[str]) -> pd.DataFrame:
    """plain : columns that must not hold lists."""
    names = columns_of(str(file))
    _check_columns(file, columns, names)
    wanted, types = names if columns is None else list(columns), need_extra("pyarrow.types", "reading Parquet")
    opened = _parquet(file)
    for name in plain:
        if types.is_nested(opened.schema_arrow.field(name).type):
            raise InputError(f"{file}: column {name!r} holds lists; needs one value in each row.")
    try:  # without pandas' own notes on the file, which may make a column an index
        return opened.read(columns=wanted).to_pandas(ignore_metadata=True)[wanted]
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read as Parquet ({str(error).splitlines()[0]}).") from None


def _check_columns(file: Path, wanted: Sequence[str] | None, names: Sequence[str]) -> None:
    absent = [name for name in wanted or () if name not in names]
    if absent:
        raise InputError(f"{file}: has no column {shown(absent)}; it has {shown(names)}.")
