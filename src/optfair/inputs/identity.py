"""Identify a person by the content of their row of X: bytes for hashed decisions and for folds."""

from __future__ import annotations

import datetime
import hashlib
import math
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from enum import Enum
from itertools import chain, groupby, islice, pairwise, repeat
from numbers import Number, Real
from pathlib import PurePath
from types import NoneType
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils.validation import _num_samples

from optfair.inputs.containers import is_polars, is_polars_number, item_features, layout_of, take_rows, width_of

# The smallest normal float64. Smaller numbers count as 0, so that no number reads as the head of a text.
TINY = np.finfo(np.float64).tiny
NAN = struct.pack("<d", np.nan)
BLOCK_CELLS = 2**22  # cells encoded at a time: some hundred megabytes of Python objects
BATCH_BYTES = 2**22  # of rows hashed at a time, if all are as long as the first
FEW_TWINS = 0.02  # of the rows: where fewer have a twin, hashed decisions are as good as independent
PROBE_ROWS = 2_000  # evenly spaced rows that tell whether rows repeat
_NUMBERS = (int, float, np.integer, np.floating, np.bool, NoneType)
POINT = re.compile(r"-?[0-9]+\.0")  # a text that is a whole number, as tables with gaps write it
# Among these types equal values have equal bytes, so that each value needs to be encoded only once.
_PLAIN = {str, int, float, bool, NoneType}
# Types whose text is the same in every process.
_STABLE_KEYS = (str, bytes, bytearray, Number, np.generic, datetime.date, datetime.time, datetime.timedelta, UUID, Enum,
                PurePath, pd.Period, type(pd.NA), type(pd.NaT))  # fmt: skip


def row_bytes(X: Any) -> Iterator[bytes]:
    """Yield b(x), the concatenated cells of each row in the order of the columns: who a person is, by content.

    number (integer, boolean, float, decimal)  little-endian float64; −0.0 and |v| < 2.2e−308 are 0.0
    missing (NaN, None, NaT, NA, "")           the one NaN, in columns of any type
    text                                       b"s" + length + UTF-8
    bytes                                      b"b" + length + bytes
    date or time stamp                         b"d" + length + nanoseconds since 1970 in decimals (with a time zone:
                                               since 1970 UTC, and "Z"); a date is its midnight
    duration                                   b"p" + length + nanoseconds in decimals
    anything else                              b"o" + length + str of it

    with lengths in bytes as 8-byte little-endian integers; a category is its value. b depends on no other row and not
    on the container: arrays, lists, pandas and polars give the same bytes, and 1, 1.0, float32(1) and True are one
    number. But float32(0.1) is not 0.1, integers beyond 2⁵³ are rounded to the next float64, and objects whose str
    holds an address are new people in every process. A row of one text is a row of one column.

    Rows of equal width with different cells differ in bytes: no number reads as the head of a text.

    A sparse row is b"S" + (column as int64, value as float64) for its nonzeros by column, duplicates summed: sparse and
    dense rows are different people.
    """
    layout = layout_of(X)
    if layout == "sparse":
        return _sparse_bytes(X)
    if layout == "dataset":
        return (_canonical(item_features(X[i])).tobytes() for i in range(len(X)))
    if layout in ("flat", "array") and not isinstance(X, (pd.Series, pd.Index, list, tuple)) and not is_polars(X):
        X = np.asarray(X)
        X = X.reshape(len(X), math.prod(X.shape[1:])) if X.ndim > 2 else X
    # A list of rows has no shape; its rows must be of one length.
    width = 1 if layout == "flat" else X.shape[1] if layout != "rows" else width_of(X, layout)
    n, block = len(X), max(1, BLOCK_CELLS // max(1, width))
    if width == 0:
        return repeat(b"", n)
    return chain.from_iterable(_block_bytes(_slice(X, start, start + block), layout) for start in range(0, n, block))


def row_hashes(X: Any) -> np.ndarray:
    """Return a 64-bit number for the content of each row, (n,) uint64, as `row_bytes` tells rows apart; no secret.

    Rows of whole words, as numbers are, are hashed all at once, which is ten times as fast; the others by BLAKE2b.
    """
    layout = layout_of(X)
    is_frame = layout == "pandas" and all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in X.dtypes)
    if is_frame or (layout == "array" and isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf"):
        step = max(1, BLOCK_CELLS // max(X.shape[1], 1))
        parts = (_slice(X, start, start + step) for start in range(0, len(X), step))
        blocks = [_mix(_canonical(part.to_numpy(dtype=np.float64) if is_frame else part).view("<u8")) for part in parts]
        return np.concatenate([np.zeros(0, dtype=np.uint64), *blocks])
    rows, hashes = row_bytes(X), [np.zeros(0, dtype=np.uint64)]
    while batch := list(islice(rows, 1)):
        batch += islice(rows, BATCH_BYTES // max(len(batch[0]), 64))
        lengths, out = np.fromiter(map(len, batch), int, len(batch)), np.empty(len(batch), dtype=np.uint64)
        for width in np.unique(lengths).tolist():
            where = np.flatnonzero(lengths == width)
            if width % 8 == 0:
                words = np.frombuffer(b"".join(batch[i] for i in where), dtype="<u8")
                out[where] = _mix(words.reshape(len(where), width // 8))
            else:
                digests = b"".join(hashlib.blake2b(batch[i], digest_size=8).digest() for i in where)
                out[where] = np.frombuffer(digests, dtype="<u8")
        hashes.append(out)
    return np.concatenate(hashes)


def twin_codes(hashes: np.ndarray, group: np.ndarray | None) -> tuple[np.ndarray | None, np.ndarray]:
    """Return codes of rows of equal features, (n,), −1 for those without a twin, and where each kind stands first.

    None where less than `FEW_TWINS` of the rows have one. hashes : of `row_hashes`, (n,). group : codes that tell rows
    apart too, or None.
    """
    marks = hashes if group is None else _mix(np.column_stack([hashes, group.astype(np.uint64)]))
    _, first, kinds, sizes = np.unique(marks, return_index=True, return_inverse=True, return_counts=True)
    has_twin = sizes > 1
    if sizes[has_twin].sum() <= FEW_TWINS * len(hashes):
        return None, first[:0]
    codes = np.where(has_twin, np.cumsum(has_twin) - 1, -1)
    return codes[kinds], first[has_twin]


def _mix(words: np.ndarray) -> np.ndarray:
    """Return one number for each row of words, (n, k) -> (n,), by the finaliser of splitmix64 (Steele et al. 2014)."""
    out = np.zeros(len(words), dtype=np.uint64)
    for column in words.T:
        out = (out ^ column) + np.uint64(0x9E3779B97F4A7C15)
        out = (out ^ (out >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        out = (out ^ (out >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out ^= out >> np.uint64(31)
    return out


def _slice(X: Any, start: int, stop: int) -> Any:
    return X.iloc[start:stop] if isinstance(X, (pd.DataFrame, pd.Series)) else X[start:stop]


def _sparse_bytes(X: Any) -> Iterator[bytes]:
    rows = sparse.csr_array(X, copy=True)
    rows.sum_duplicates()
    rows = sparse.csr_array((_canonical(rows.data), rows.indices, rows.indptr), shape=rows.shape)
    rows.eliminate_zeros()
    pairs = np.empty(rows.nnz, dtype=[("column", "<i8"), ("value", "<f8")])
    pairs["column"], pairs["value"] = rows.indices[: rows.nnz], rows.data[: rows.nnz]
    data, ends = pairs.tobytes(), (16 * rows.indptr.astype(np.int64)).tolist()
    return (b"S" + data[start:stop] for start, stop in pairwise(ends))


def _block_bytes(X: Any, layout: str) -> Iterable[bytes]:
    """Return rows as bytes. Neighbouring columns of numbers become one float64 matrix, the others lists of cells."""
    if layout == "array" and X.dtype.kind in "biuf":
        return _split(_canonical(X))
    if layout == "pandas" and all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in X.dtypes):
        return _split(_canonical(X.to_numpy(dtype=np.float64)))
    if layout == "flat":
        columns: list[Any] = [X]
    elif layout == "rows":
        numbers = _numbers(X, chain.from_iterable(X))
        columns = list(zip(*X, strict=True)) if numbers is None else list(numbers.T)
    elif layout == "array":
        columns = list(X.T)
    else:
        columns = [X.iloc[:, k] if layout == "pandas" else X[:, k] for k in range(X.shape[1])]
    parts: list[list[bytes]] = []
    for numeric, run in groupby(map(_encode, columns), key=lambda column: isinstance(column, np.ndarray)):
        encoded = list(run)
        parts += [_split(_canonical(np.column_stack(encoded)))] if numeric else encoded
    return parts[0] if len(parts) == 1 else map(b"".join, zip(*parts, strict=True))


def _canonical(numbers: Any, dtype: str = "<f8") -> np.ndarray:
    """Return a copy as little-endian floats with one zero and one NaN."""
    with np.errstate(all="ignore"):
        canonical = np.array(numbers, dtype=dtype, order="C")
        canonical[np.abs(canonical) < TINY] = 0.0
    canonical[np.isnan(canonical)] = np.nan
    return canonical


def _split(matrix: np.ndarray) -> list[bytes]:
    """Return the bytes of each row.   matrix: (n, k), contiguous"""
    rows: list[bytes] = matrix.view(f"V{8 * matrix.shape[1]}").ravel().tolist()
    return rows


def _encode(column: Any) -> Any:
    """Return a column as numbers (an array, NaN where missing) or as cells (a list of bytes)."""
    if isinstance(column, (pd.Series, pd.Index)):
        return _encode_pandas(column)
    if is_polars(column):
        return _encode_polars(column)
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "biuf":
            return column
        if column.dtype.kind in "mM":
            return _times(column)
        column = column.tolist()
    return _encode_objects(column)


def _encode_pandas(column: Any) -> Any:
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return _encode(column.to_numpy())
    if isinstance(dtype, pd.CategoricalDtype):
        values = pd.Categorical(column)
        used, codes = np.unique(values.codes, return_inverse=True)
        cells = _encode(values.categories.take(used[used >= 0]))
        if (used < 0).any():  # −1, the missing, sorts first
            cells = np.append(np.nan, cells) if isinstance(cells, np.ndarray) else [NAN, *cells]
        return cells[codes] if isinstance(cells, np.ndarray) else [cells[code] for code in codes]
    if isinstance(dtype, pd.DatetimeTZDtype):
        return _times(pd.Series(column).dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(), b"Z")
    if dtype.kind in "biuf":
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return _encode_objects(column.tolist())


def _encode_polars(column: Any) -> Any:
    dtype = column.dtype
    if is_polars_number(dtype):
        return column.to_numpy()  # nulls are NaN
    if str(dtype).startswith(("Date", "Duration")):
        return _times(column.to_numpy(), b"Z" if getattr(dtype, "time_zone", None) else b"")
    return _encode_objects(column.to_list())


def _encode_objects(values: Sequence[Any]) -> Any:
    """Encode each value by its own type, whatever the others are."""
    numbers = _numbers(values, values)
    if numbers is not None:
        return numbers
    if set(map(type, values)) <= _PLAIN:
        return list(map(_Cells().__getitem__, values))
    return [_cell(value) for value in values]


def _numbers(values: Any, cells: Iterable[Any]) -> np.ndarray | None:
    """Return the values as float64, NaN for None; or None if not all of their cells are numbers."""
    if not all(issubclass(kind, _NUMBERS) and not issubclass(kind, np.timedelta64) for kind in set(map(type, cells))):
        return None
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:  # an integer beyond float64
        return None


class _Cells(dict[Any, bytes]):
    """value → its bytes, found once."""

    def __missing__(self, value: Any) -> bytes:
        self[value] = cell = _cell(value)
        return cell


def _cell(value: Any) -> bytes:
    """Return the bytes of one value of any type."""
    if isinstance(value, str):
        return _tagged(b"s", value.encode("utf-8", "surrogatepass")) if value else NAN
    if value is None or value is pd.NaT or value is pd.NA:
        return NAN
    if isinstance(value, (bytes, bytearray)):
        return _tagged(b"b", bytes(value))
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return _times(np.array([value]))[0]
    if isinstance(value, datetime.timedelta):  # pandas' Timedelta is one too
        whole = (value.days * 86400 + value.seconds) * 10**6 + value.microseconds
        return _tagged(b"p", b"%d" % (1000 * whole + getattr(value, "nanoseconds", 0)))
    if isinstance(value, datetime.date):  # and so are datetime and pandas' Timestamp
        return _date(value)
    if isinstance(value, (Real, Decimal, np.bool)):
        try:
            return _canonical([float(value)]).tobytes()
        except (OverflowError, ValueError):  # an integer beyond float64, a signalling decimal
            pass
    if isinstance(value, np.ndarray):
        value = value.tolist()  # the str of a long array leaves values out
    return _tagged(b"o", str(value).encode("utf-8", "surrogatepass"))


def _date(value: datetime.date) -> bytes:
    zone = b""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value, zone = value.astimezone(datetime.UTC).replace(tzinfo=None), b"Z"
    return _times(np.array([value.to_datetime64() if isinstance(value, pd.Timestamp) else np.datetime64(value)]), zone)[
        0
    ]


def _times(values: np.ndarray, zone: bytes = b"") -> list[bytes]:
    """Return cells of datetime64 or timedelta64, in two steps: int64 nanoseconds end in the year 2262."""
    kind, tag = values.dtype.kind, b"d" if values.dtype.kind == "M" else b"p"
    whole = values.astype(f"{kind}8[s]")
    rest = (values - whole).astype("m8[ns]").astype(np.int64).tolist()
    seconds, missing = whole.astype(np.int64).tolist(), np.isnat(values).tolist()
    return [
        NAN if absent else _tagged(tag, b"%d%b" % (10**9 * second + nano, zone))
        for absent, second, nano in zip(missing, seconds, rest, strict=True)
    ]


def _tagged(tag: bytes, content: bytes) -> bytes:
    return tag + len(content).to_bytes(8, "little") + content


def posterior_bytes(rows: np.ndarray) -> Iterator[bytes]:
    """Identify rows by their posterior alone, (k, A·m), rounded to float32."""
    return (row.tobytes() for row in _canonical(rows, "<f4"))


def key_bytes(key: Any) -> bytes:
    """Identify a person by a key. A whole number is its digits: 17, 17.0, "17" and "17.0" are one, "017" is another.

    Tables, JSON and databases disagree on whether an id is a number or a text, and the person must not change by it.
    """
    if isinstance(key, str):
        return b"s" + (key[:-2] if POINT.fullmatch(key) else key).encode("utf-8", "surrogatepass")
    if isinstance(key, Decimal) and key.is_finite():
        key = int(key) if key == key.to_integral_value() else float(key)
    if isinstance(key, np.datetime64 | np.timedelta64):
        key = pd.Timestamp(key) if isinstance(key, np.datetime64) else pd.Timedelta(key)  # as a Series has it
    elif isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, bytes | bytearray):
        return b"b" + bytes(key)
    if isinstance(key, (tuple, list)):
        parts = [key_bytes(part) for part in key]
        return b"t" + b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    if isinstance(key, (bool, int)) or (isinstance(key, float) and key.is_integer()):
        key = int(key)
    elif isinstance(key, float):
        return b"f" + np.float64(key).astype("<f8").tobytes()
    return b"s" + str(key).encode("utf-8", "surrogatepass")


def first_unstable(keys: Iterable[Any]) -> Any:
    """Return the first key whose text may differ from process to process (by an address or a hash seed), or None."""
    for key in keys:
        if type(key) in _PLAIN or isinstance(key, _STABLE_KEYS):
            continue
        stranger = first_unstable(key) if isinstance(key, (tuple, list)) else key
        if stranger is not None:
            return stranger
    return None


def duplicate_row_ids(X: Any) -> np.ndarray | None:
    """Return which of the distinct rows each row is, (n,); None where rows hardly repeat (less than twice each)."""
    n = _num_samples(X)
    probe = np.arange(0, n, max(n // PROBE_ROWS, 1))
    if len({*row_bytes(take_rows(X, probe))}) > len(probe) / 2 and n > PROBE_ROWS:
        return None
    numbers: dict[bytes, int] = {}
    row_ids = np.array([numbers.setdefault(row, len(numbers)) for row in row_bytes(X)], dtype=np.intp)
    return row_ids if len(numbers) <= n / 2 else None
