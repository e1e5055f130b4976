"""What the readers share: what was asked for, tables of numbers, and files that turn out to be something else."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from optfair.datasets import store
from optfair.datasets.dataset import Entry, SourceFile
from optfair.errors import SHOWN, DataFileError, need_extra, warn

_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError)
FIFTHS = ("1st fifth", "2nd fifth", "3rd fifth", "4th fifth", "5th fifth")  # they sort in their order


@dataclass(frozen=True)
class Request:
    """What `load` was asked for, checked. rows, random_state : a random sample of so many people, None for all."""

    entry: Entry
    sensitive: Any
    rows: int | None = None
    random_state: Any = 0
    download: bool = True

    def sample(self, n: int) -> np.ndarray:
        """Positions of the people to keep, increasing.   (min(rows, n),)"""
        if self.rows is None or self.rows >= n:
            return np.arange(n)
        return np.sort(np.random.default_rng(self.random_state).choice(n, self.rows, replace=False))

    def obtain(self, position: int = 0) -> Path:
        """The path of a file of the source, downloaded if need be."""
        file = self.entry.files[position]
        if self.download and file.url and self.entry.terms and store.find(file) is None:
            warn(self.entry.terms)  # whoever downloads has agreed to them, so they must have been seen
        return store.obtain(file, download=self.download)

    def unpacked(self, position: int = 0) -> Path | None:
        """What somebody has unpacked out of a file of the source, where it is there."""
        return unpacked(self.entry.files[position])

    def parquet(self, position: int = 0, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """One of the entry's own files in $OPTFAIR_DATA; without it, an error that says so."""
        name = self.entry.local_files[position]
        path = store.local(name)
        if path is None:
            raise DataFileError(
                f"{name}: not found in $OPTFAIR_DATA ({store.data_folder() or 'not set'}); {self.entry.name!r} is a "
                f"stand-in for {self.entry.stand_in_for} that nobody publishes: set OPTFAIR_DATA to the folder that "
                "holds it."
            )
        return read_parquet(path, f"load({self.entry.name!r})", columns)


class Loaded(NamedTuple):
    """What a reader returns: as in `Dataset`; preparation says in words what was done to the source."""

    X: Any
    y: pd.Series
    sensitive_features: pd.Series | pd.DataFrame
    preparation: str
    stand_in: str | None = None


# -- tables -----------------------------------------------------------------------------------------------
def numbers_and_levels(
    frame: pd.DataFrame,
    levels: Sequence[str],
    rows: np.ndarray,
    *,
    dtype: Any = np.float64,
    drop_last: Iterable[str] = (),
) -> pd.DataFrame:
    """x = (numbers, 1[column = level] for every level): the columns `levels` one-hot, after the others.

    The levels are those of the whole frame, sorted, so that every sample of `rows` has the same columns. drop_last :
    columns whose last level has no indicator.   -> (len(rows), d), named "column" or "column=level"
    """
    numbers = [column for column in frame if column not in levels]
    known = {column: _factorize(frame[column]) for column in levels}
    kept = {column: names[:-1] if column in drop_last else names for column, (_, names) in known.items()}
    values = np.zeros((len(rows), len(numbers) + sum(map(len, kept.values()))), dtype=dtype)
    for position, column in enumerate(numbers):
        values[:, position] = frame[column].to_numpy()[rows]
    start = len(numbers)
    for column, names in kept.items():
        codes = known[column][0][rows]
        for code in range(len(names)):
            values[:, start + code] = codes == code
        start += len(names)
    return pd.DataFrame(values, columns=[*numbers, *(f"{c}={name}" for c, names in kept.items() for name in names)])


def _factorize(column: pd.Series) -> tuple[np.ndarray, list[Any]]:
    """Codes in 0..L−1 and the L levels that occur, sorted; whole numbers are named without a decimal point."""
    codes, names = pd.factorize(column, sort=True)
    return codes, [int(x) if isinstance(x, float) and x.is_integer() else x for x in names.tolist()]


def to_unit_range(values: pd.DataFrame | pd.Series) -> Any:
    """(x − min) / (max − min) of every column, 0 where all its values are the same."""
    low, span = values.min(), values.max() - values.min()
    return (values - low) / (span.where(span > 0, 1) if isinstance(values, pd.DataFrame) else span or 1)


def named(codes: np.ndarray, names: Sequence[str], name: str) -> pd.Series:
    """names[codes] as a Series called `name`."""
    return pd.Series(np.array(names, dtype=object)[codes], name=name)


def take(values: Any, rows: np.ndarray) -> Any:
    """The rows of a Series or DataFrame, numbered anew."""
    return values.take(rows).reset_index(drop=True)


def left_closed_fifths(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes 0..4 of the bins [−∞, q₁), [q₁, q₂), …, and the edges q_k: the smallest value with a rank ≥ k n / 5.

    Edges are values that occur, because dollars are heaped on round ones.
    """
    edges = np.quantile(values, [0.2, 0.4, 0.6, 0.8], method="inverted_cdf")
    return np.searchsorted(edges, values, side="right"), edges


# -- files ------------------------------------------------------------------------------------------------
@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Errors of parsers become one line that names the file and what it should be."""
    try:
        yield
    except DataFileError:
        raise
    # ParserError, EmptyDataError and Arrow's errors are ValueErrors; a damaged archive shows as any of the others.
    except (ValueError, KeyError, EOFError, OSError, NotImplementedError, *_DAMAGED) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataFileError(
            f"{path}: cannot be read as {what} ({reason}); remove it and get the published file again."
        ) from error


def need_columns(found: Iterable[Any], wanted: Iterable[str], path: Path, what: str) -> None:
    """Raise where a table lacks columns, as does a page of HTML under the name of a table."""
    have = set(found)
    missing = [name for name in wanted if name not in have]
    if missing:
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise DataFileError(
            f"{path}: has no column {', '.join(missing[:SHOWN])}{more}; must be {what}. Remove it and get the "
            "published file again."
        )


def unpacked(file: SourceFile) -> Path | None:
    """The file or folder that stands beside an archive, or would, in $OPTFAIR_DATA or else in the cache."""
    for root in (store.data_folder(), store.cache_folder()):
        if root is not None and file.unpacked and (root / file.unpacked).exists():
            return root / file.unpacked
    return None


def read_parquet(path: Path, caller: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
    need_extra("pyarrow", caller)
    with reading(path, "a Parquet table"):
        return pd.read_parquet(path, columns=None if columns is None else list(columns))
