"""Read and write tables, CSV and Parquet; a file is written completely or not at all."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
from argparse import Namespace
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from optfair.cli.console import join_names
from optfair.cli.counting import counted_file, write_csv
from optfair.cli.memory import check_memory
from optfair.cli.paths import InputError, check_input, check_output, table_kind
from optfair.cli.placeholders import csv_words, remove_placeholders
from optfair.errors import need_extra
from optfair.storage.parts import find_files
from optfair.utils.files import replacing
from optfair.utils.progress import stage

CSV_ERRORS = (ValueError, pd.errors.ParserWarning, LookupError, OSError, EOFError, csv.Error)
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz"}
TRUTH_VALUES = {word: word.lower() == "true" for word in ("True", "False", "TRUE", "FALSE", "true", "false")}


class CsvFormat(NamedTuple):
    """The format of a CSV file. separator : None for a comma, or a tab in .tsv. na : texts that mean missing."""

    encoding: str = "utf-8"
    separator: str | None = None
    decimal: str = "."
    na: tuple[str, ...] = ()

    @classmethod
    def from_arguments(cls, arguments: Namespace) -> CsvFormat:
        """Return the format given on the command line."""
        separator = "\t" if arguments.separator == "\\t" else arguments.separator
        for option, value in (("--decimal", arguments.decimal), ("--separator", separator)):
            if value is not None and len(value) != 1:
                raise InputError(f"{option} {value}: must be one character.")
        return cls(arguments.encoding, separator, arguments.decimal, tuple(text.strip() for text in arguments.na))

    def delimiter(self, file: Path) -> str:
        """Return what separates the cells of a file."""
        return self.separator or ("\t" if ".tsv" in [suffix.lower() for suffix in file.suffixes] else ",")


DEFAULT_FORMAT = CsvFormat()


def read_table(
    path: str,
    columns: Sequence[str] | None = None,
    *,
    texts: Collection[str] = (),
    names: Collection[str] = (),
    verbatim: bool = False,
    csv_format: CsvFormat = DEFAULT_FORMAT,
) -> pd.DataFrame:
    """Return the table in a file, or these columns of it.

    texts : columns that are not read as numbers, "007" stays "007". names : columns of labels and groups, which are
    numbers only where no two texts would become the same number ("1" and "01"). verbatim : every cell of a CSV as it
    is written, "NA" too, so that it can be written again.
    """
    kind, file = table_kind(path), Path(path)
    check_input(path)
    check_memory(file, kind)
    if kind == "parquet":
        table = remove_placeholders(_read_parquet(file, columns, names), () if verbatim else csv_format.na)
    else:
        table = _read_csv(file, columns, texts, names, verbatim, csv_format)
    for name in names:
        table[name] = convert_names(table[name], csv_format)
    if len(table) == 0:
        raise InputError(f"{path}: has a header but no rows.")
    return table


def read_header(path: str, csv_format: CsvFormat = DEFAULT_FORMAT) -> list[str]:
    """Return the names of the columns, without reading the rows; of a folder those of its first file."""
    if Path(path).is_dir():
        return read_header(find_files(path)[0][0])
    kind, file = table_kind(path), Path(path)
    check_input(path)
    check_memory(file, kind)  # a first line may be of any length
    if kind == "csv":
        # As they are written: pandas would rename repeated ones silently.
        names = [str(name) for name in _pandas_csv(file, csv_format, header=None, nrows=1, na_filter=False).iloc[0]]
    else:
        # __index_level_0__ is what pandas calls an index without a name: it is not a column of the user.
        names = [str(name) for name in _open_parquet(file).schema_arrow.names]
        names = [name for name in names if not re.fullmatch(r"__index_level_\d+__", name)]
    counts = Counter(names)
    if len(counts) < len(names):
        first = min(name for name, count in counts.items() if count > 1)
        raise InputError(f"{file}: column {first!r} occurs {counts[first]} times; rename one of them.")
    return names


def write_table(table: pd.DataFrame, path: str, csv_format: CsvFormat = DEFAULT_FORMAT) -> None:
    """Write a table to a file, completely or not at all."""
    kind, file = table_kind(path), Path(path)
    check_output(path)
    with replacing(file) as temporary:
        if kind == "parquet":
            need_extra("pyarrow", "writing Parquet")
            with stage(f"writing {file.name}"):
                table.to_parquet(temporary, index=False)
        else:
            form = {"sep": csv_format.delimiter(file), "decimal": csv_format.decimal}
            write_csv(table, temporary, file.name, csv_format.encoding, **form)


def check_table_name(path: str) -> None:
    """Check, before long work, that a table of this name can be written."""
    if table_kind(path) == "parquet":
        need_extra("pyarrow", "writing Parquet")


def is_text(column: pd.Series) -> bool:
    """Return whether a column holds texts, and nothing else but missing values."""
    return bool(pd.api.types.infer_dtype(column, skipna=True) == "string")


# -- CSV ------------------------------------------------------------------------------------------------------
def _pandas_csv(file: Path, csv_format: CsvFormat, dtype: Any = str, **options: Any) -> pd.DataFrame:
    """Call `pandas.read_csv`; its errors become one line about the file."""
    options |= {"dtype": dtype, "encoding": csv_format.encoding, "sep": csv_format.delimiter(file)}
    try:
        with counted_file(file) as content:
            return pd.read_csv(content, compression=COMPRESSIONS.get(file.suffix.lower()), **options)
    except pd.errors.EmptyDataError:
        raise InputError(f"{file}: the file is empty.") from None
    except UnicodeError:
        raise InputError(
            f"{file}: is not encoded in {csv_format.encoding}; give its encoding, such as --encoding latin-1."
        ) from None
    except CSV_ERRORS as error:
        raise InputError(f"{file}: cannot be read as CSV ({str(error).strip()}).") from None


def _read_csv(
    file: Path,
    columns: Sequence[str] | None,
    texts: Collection[str],
    labels: Collection[str],
    verbatim: bool,
    csv_format: CsvFormat,
) -> pd.DataFrame:
    """Read a CSV file. labels : columns of labels and groups, in which "NA" is missing as it is in numbers."""
    header = read_header(str(file), csv_format)
    selection = _select(file, columns, header)
    table = _pandas_csv(  # all columns: with usecols, pandas silently skips lines that are too long
        file,
        csv_format,
        dtype=str if verbatim else {name: str for name in (*texts, *labels) if name in selection},
        na_filter=not verbatim,
        na_values=csv_words(csv_format.na),
        decimal=csv_format.decimal,
        low_memory=False,
    )
    if len(table.columns) != len(header) or not isinstance(table.index, pd.RangeIndex):
        raise InputError(f"{file}: its rows have more cells than the header ({len(header)}); is a column name missing?")
    table = table.set_axis(header, axis=1)
    if verbatim:
        return table[selection]
    if table[header[-1]].isna().any():
        _check_last_line(file, len(header), csv_format)
    features = [name for name in selection if name not in labels]
    return _restore_words(file, table, features, csv_format)[selection]


def _restore_words(file: Path, table: pd.DataFrame, columns: Sequence[str], csv_format: CsvFormat) -> pd.DataFrame:
    """Read "NA", "None" and "null" as words in columns of texts; only an empty cell is missing."""
    incomplete = [name for name in columns if table[name].isna().any() and is_text(table[name])]
    if not incomplete:
        return table
    positions = sorted(table.columns.get_loc(name) for name in incomplete)  # pandas renames columns without a name
    words = _pandas_csv(
        file, csv_format, usecols=positions, keep_default_na=False, na_values=["", *csv_words(csv_format.na)]
    )
    return table.assign(**{table.columns[position]: words.iloc[:, k] for k, position in enumerate(positions)})


def _check_last_line(file: Path, n_columns: int, csv_format: CsvFormat) -> None:
    """Refuse a file that was cut off: its last line is too short, and pandas fills it up silently."""
    open_file: Any = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}.get(file.suffix.lower(), open)
    try:
        with open_file(file, "rt", encoding=csv_format.encoding, newline="") as handle:
            reader = csv.reader(handle, delimiter=csv_format.delimiter(file))
            last_line, n_cells = 0, n_columns
            for row in reader:
                if len(row) > 1 or (row and row[0].strip()):
                    last_line, n_cells = reader.line_num, len(row)
    except csv.Error:
        return  # cells larger than the csv module takes: pandas has read them
    if n_cells < n_columns:
        raise InputError(
            f"{file}: the last line ({last_line}) has {n_cells} cells, the header has {n_columns}; is the file "
            "complete?"
        )


def convert_names(column: pd.Series, csv_format: CsvFormat) -> pd.Series:
    """Return labels or groups as numbers or truth values, if all their texts are such and stay different."""
    if pd.api.types.is_float_dtype(column.dtype) and (column.dropna() % 1 == 0).all():
        return column if column.isna().any() else column.astype(np.int64)
    if not is_text(column):
        return column
    texts = column.dropna().unique().tolist()
    try:
        values: dict[str, Any] = {text: _parse_number(text.strip().replace(csv_format.decimal, ".")) for text in texts}
    except ValueError:
        values = dict(TRUTH_VALUES)
        if not set(texts) <= set(values):
            return column
    numbers = [values[text] for text in texts]
    if len(set(numbers)) < len(texts):
        return column
    if not any(isinstance(value, bool) for value in numbers) and all(value == int(value) for value in numbers):
        values = {text: int(value) for text, value in values.items()}
    converted = [values.get(text, np.nan) for text in column.tolist()]
    return pd.Series(converted, index=column.index, name=column.name, dtype=object if column.isna().any() else None)


def _parse_number(text: str) -> float:
    """Return a number written in the usual way; codes such as 007 or 1_0 raise a ValueError."""
    if not re.fullmatch(r"[+-]?(0|[1-9]\d*)(\.\d+)?", text):
        raise ValueError(text)
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


# -- Parquet --------------------------------------------------------------------------------------------------
def _open_parquet(file: Path) -> Any:
    parquet = need_extra("pyarrow.parquet", "reading Parquet")
    try:
        return parquet.ParquetFile(file)
    except (OSError, ValueError) as error:  # the errors of pyarrow are ValueErrors
        raise _parquet_error(file, error) from None


def _read_parquet(file: Path, columns: Sequence[str] | None, labels: Collection[str]) -> pd.DataFrame:
    """Read a Parquet file. labels : columns that must not hold lists."""
    selection = _select(file, columns, read_header(str(file)))
    types, parquet_file = need_extra("pyarrow.types", "reading Parquet"), _open_parquet(file)
    for name in labels:
        if types.is_nested(parquet_file.schema_arrow.field(name).type):
            raise InputError(f"{file}: column {name!r} holds lists; it must hold one value in each row.")
    try:  # without the metadata of pandas, which may make a column an index
        with stage(f"reading {file.name}"):
            return parquet_file.read(columns=selection).to_pandas(ignore_metadata=True)[selection]
    except (OSError, ValueError) as error:
        raise _parquet_error(file, error) from None


def _parquet_error(file: Path, error: Exception) -> InputError:
    return InputError(f"{file}: cannot be read as Parquet ({str(error).splitlines()[0]}).")


def _select(file: Path, columns: Sequence[str] | None, header: Sequence[str]) -> list[str]:
    """Return the columns to read, after checking that they exist."""
    names = set(header)
    absent = [name for name in columns or () if name not in names]
    if absent:
        raise InputError(f"{file}: has no column {join_names(absent)}; it has {join_names(header)}.")
    return list(header if columns is None else columns)
