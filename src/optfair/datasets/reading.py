"""Give the readers what they share: the request of `load`, their result, and errors that name a damaged file."""

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
from optfair.datasets.schema import Entry
from optfair.errors import SHOWN, DataFileError, need_extra, warn

_ARCHIVE_ERRORS = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError)


@dataclass(frozen=True)
class LoadRequest:
    """The arguments of `load`, checked.

    rows, random_state : size and seed of a random sample; rows=None takes all rows.
    """

    entry: Entry
    sensitive: Any
    rows: int | None = None
    random_state: Any = 0
    download: bool = True

    def sample(self, n: int) -> np.ndarray:
        """Return the increasing positions of the rows to load.   (min(rows, n),)"""
        if self.rows is None or self.rows >= n:
            return np.arange(n)
        return np.sort(np.random.default_rng(self.random_state).choice(n, self.rows, replace=False))

    def obtain(self, position: int = 0) -> Path:
        """Return the path of a published file; download it where it is missing."""
        file = self.entry.files[position]
        if self.download and file.url and self.entry.terms and store.find(file) is None:
            warn(self.entry.terms)  # downloading means agreeing to them, so they are shown first
        return store.obtain(file, download=self.download)

    def unpacked(self, position: int = 0) -> Path | None:
        """Return what was unpacked from a published file, where it exists."""
        return store.find_unpacked(self.entry.files[position])

    def substitute(self, position: int = 0) -> Path | None:
        """Return the path of a file in $OPTFAIR_DATA that replaces the published one, where only the former exists."""
        path = store.local(self.entry.local_files[position])
        return path if path is not None and store.find(self.entry.files[position]) is None else None

    def parquet(self, position: int = 0, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read a table of $OPTFAIR_DATA that is not published elsewhere; raise where it is missing."""
        name = self.entry.local_files[position]
        path = store.local(name)
        if path is None:
            raise DataFileError(
                f"{name}: not found in $OPTFAIR_DATA ({store.data_folder() or 'not set'}); {self.entry.name!r} is a "
                f"stand-in for {self.entry.stand_in_for} and is not published: set OPTFAIR_DATA to the folder that "
                "holds it."
            )
        return self.read_parquet(path, columns)

    def read_parquet(self, path: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read a Parquet table; an error names the data set that needs it."""
        need_extra("pyarrow", f"load({self.entry.name!r})")
        with parsing(path, "a Parquet table"):
            return pd.read_parquet(path, columns=None if columns is None else list(columns))


class RawDataset(NamedTuple):
    """The result of a reader: fields of `Dataset`, and a text that says how the source was prepared."""

    X: Any
    y: pd.Series
    sensitive_features: pd.Series | pd.DataFrame
    preparation: str
    stand_in: str | None = None


@contextmanager
def parsing(path: Path, content: str) -> Iterator[None]:
    """Turn the errors of parsers into one line that names the file and its expected content."""
    try:
        yield
    except DataFileError:
        raise
    # ParserError, EmptyDataError and Arrow's errors are ValueErrors; a damaged archive raises any of the others.
    except (ValueError, KeyError, EOFError, OSError, NotImplementedError, *_ARCHIVE_ERRORS) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataFileError(
            f"{path}: cannot be read as {content} ({reason}); remove it and get the published file again."
        ) from error


def check_columns(columns: Iterable[Any], required: Iterable[str], path: Path, content: str) -> None:
    """Raise if a table lacks columns, as an HTML page under the name of a table does."""
    present = set(columns)
    missing = [name for name in required if name not in present]
    if missing:
        count = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise DataFileError(
            f"{path}: has no column {', '.join(missing[:SHOWN])}{count}; must be {content}. Remove it and get the "
            "published file again."
        )
