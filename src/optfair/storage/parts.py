"""Name consecutive rows by a recipe, a file and some of its row groups, so that anybody can read them at any time.

A recipe is small and says what the file was like when it was found: whoever reads it later, on whichever machine, reads
the same rows or is told that the file has changed.
"""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from optfair.errors import brief_repr, brief_text, need_extra, warn

PART_ROWS = 2_000_000  # of a part, unless a row group is longer
BATCH_ROWS, BATCH_NUMBERS = 131_072, 4_194_304  # that are decoded at a time: so many rows, fewer of many columns
BUFFER = 1 << 20  # bytes of a column that are read at a time, however long its row group is
UNFINISHED = "_UNFINISHED"  # stands in a folder while its files are made
TABLE_MARKS = {"Delta": "_delta_log", "Iceberg": "metadata/*.metadata.json"}  # what their folders hold
ENDINGS = (".parquet", ".pq", ".parq")
SECRETS = r"(?<=://).*:.*@|(?<=://)[^/@]*@|(?<=key=)[^&\s]+|(?<=secret=)[^&\s]+|(?<=token=)[^&\s]+"  # of an address
UNREADABLE = (OSError, ValueError, KeyError, NotImplementedError)  # the errors of pyarrow are of these types


class PartError(ValueError):
    """A part of the rows cannot be read, or is not what it was; the message names its file."""


@dataclass(frozen=True)
class FilePart:
    """Some row groups of a Parquet file.

    path : of the file, absolute where it is local. row_groups : their numbers. n : rows. start : number of the first
    one among all rows. size, modified : bytes and time of the last change of the file, when it was found. filesystem :
    of pyarrow; None: local. dictionaries : columns that are read as codes of the values that occur.
    """

    path: str
    row_groups: tuple[int, ...]
    n: int
    start: int
    size: int
    modified: int
    filesystem: Any = None
    dictionaries: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the part is called in messages."""
        first, last = self.row_groups[0], self.row_groups[-1]
        groups = f"row group {first}" if first == last else f"row groups {first} to {last}"
        return f"{self.path}, {groups}"

    def check_state(self) -> None:
        """Refuse a file that is not what it was when it was found."""
        if file_state(self.path, self.filesystem) != (self.size, self.modified):
            raise PartError(f"{self.path}: has changed since it was first read; leave files alone while they are read.")

    def batches(self, columns: Sequence[str] | None, rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Yield record batches of some columns, None for all, in order."""
        self.check_state()
        try:
            with open_file(self.path, self.filesystem, self.dictionaries) as file:
                names = None if columns is None else list(columns)
                options = {"row_groups": list(self.row_groups), "columns": names, "use_threads": False}
                yield from file.iter_batches(batch_size=rows, **options)
        except UNREADABLE as error:
            raise PartError(f"{self.name}: cannot be read ({brief_text(error)}).") from None


@dataclass(frozen=True)
class BatchPart:
    """Rows that a function yields as record batches, the same whenever it is called.

    source : takes nothing and returns batches or tables. n : rows, None where they are not counted yet. start : see
    `FilePart`.
    """

    source: Callable[[], Iterable[Any]]
    n: int | None
    start: int
    name: str

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Yield record batches of some columns, in order."""
        n = 0
        try:
            for batch in self.whole_batches():
                n, selection = n + batch.num_rows, batch.select(list(columns))
                yield from (selection.slice(low, rows) for low in range(0, batch.num_rows, rows))
        except PartError:
            raise
        except UNREADABLE as error:
            raise PartError(f"{self.name}: cannot be read ({brief_text(error)}).") from None
        if self.n is not None and n != self.n:
            raise PartError(f"{self.name}: had {self.n:,} rows and now has {n:,}; a source must repeat itself.")

    def whole_batches(self) -> Iterator[Any]:
        """Yield record batches as they come from the source."""
        items = self.source()
        is_series = isinstance(items, Iterable) and not hasattr(items, "to_batches")
        for item in items if is_series else [items]:
            if not hasattr(item, "num_rows"):
                raise PartError(f"{self.name}: returns {type(item).__name__}; it must return record batches of Arrow.")
            yield from item.to_batches() if hasattr(item, "to_batches") else [item]


Part = FilePart | BatchPart


def batch_rows(n_numbers: int) -> int:
    """Return how many rows of so many numbers each are decoded at a time."""
    return int(max(min(BATCH_ROWS, BATCH_NUMBERS // max(n_numbers, 1)), 1_024))


# -- files -------------------------------------------------------------------------------------------------------
def open_file(path: str, filesystem: Any, dictionaries: Sequence[str] = ()) -> Any:
    """Open a Parquet file, read in small pieces. dictionaries : columns that are read as codes."""
    parquet = need_extra("pyarrow.parquet", "reading Parquet")
    options = {"filesystem": filesystem, "pre_buffer": False, "buffer_size": BUFFER}
    return parquet.ParquetFile(path, read_dictionary=list(dictionaries), **options)


def file_state(path: str, filesystem: Any) -> tuple[int, int]:
    """Return bytes and time of the last change of a file."""
    if filesystem is None:
        try:
            state = os.stat(path)
        except FileNotFoundError:
            if not os.path.isdir(os.path.dirname(path) or os.curdir):
                raise PartError(f"{path}: this machine does not see it; keep files where all machines do.") from None
            raise PartError(f"{path}: is not there any more; leave files alone while they are read.") from None
        except OSError as error:
            raise PartError(f"{path}: cannot be reached ({brief_text(error.strerror)}).") from None
        return state.st_size, state.st_mtime_ns
    try:
        info = filesystem.get_file_info(path)
    except UNREADABLE as error:
        raise PartError(f"{path}: cannot be reached ({brief_text(error)}).") from None
    if info.size is None:
        raise PartError(f"{path}: is not there any more; leave files alone while they are read.")
    return info.size, info.mtime_ns or 0


def find_files(source: Any) -> tuple[list[str], Any]:
    """Return the Parquet files of a folder, a pattern, a file, an address such as s3://… or a list, and their system.

    Sorted by name; files and folders whose names begin with a dot or an underscore are left out, as writers ask for.
    A pattern may match folders, with all that is in them, and ``**`` stands for any number of folders. Links are
    followed; a file that is reached in two ways is refused.
    """
    paths, system = _listed_files(source) if isinstance(source, (list, tuple)) else _source_files(source)
    _check_distinct(paths, system)
    return paths, system


def _source_files(source: Any) -> tuple[list[str], Any]:
    """Return the files of a source that is no list, and their system."""
    if not isinstance(source, (str, os.PathLike)):
        raise ValueError(f"source={brief_repr(source)}: must be a folder, a file, a pattern, or a list of these.")
    text = str(os.fspath(source))
    if "://" in text:
        return _remote_files(text)
    if os.path.isdir(text):
        paths = local_files(text)
    elif os.path.isfile(text):
        return [text], None
    else:
        root = os.path.dirname(re.split(r"[*?\[]", text)[0]) or os.curdir
        matches = [path for path in glob.glob(text, recursive=True) if _is_shown(os.path.relpath(path, root))]
        if not matches:
            raise ValueError(f"{text}: there is no such file or folder.")
        paths = sorted({file for path in matches for file in (local_files(path) if os.path.isdir(path) else [path])})
    if not paths:
        raise ValueError(f"{text}: holds no Parquet files ({', '.join(ENDINGS)}); others are not read from folders.")
    return paths, None


def _listed_files(sources: Sequence[Any]) -> tuple[list[str], Any]:
    """Return the files of several sources, in their order."""
    pairs = [find_files(source) for source in sources]
    if not pairs:
        raise ValueError("source: is an empty list; name at least one file or folder.")
    if len({type(system) for _, system in pairs}) > 1:
        raise ValueError("source: names files of several systems; give those of one.")
    return [path for files, _ in pairs for path in files], pairs[0][1]


def _check_distinct(paths: Sequence[str], system: Any) -> None:
    """Refuse a file that is named twice, by another spelling or a link too."""
    is_local = system is None or system.type_name == "local"
    first: dict[str, str] = {}
    for path in paths:
        place = os.path.realpath(path) if is_local else path
        other = first.get(place)
        if other is not None:
            names = f"{path} twice" if other == path else f"one file twice, as {other} and {path}"
            raise ValueError(f"source: names {names}; its rows would be counted twice.")
        first[place] = path


def local_files(folder: str) -> list[str]:
    """Return the Parquet files of a local folder; a link to a folder in which it is has nothing new."""

    def refuse(error: OSError) -> None:
        raise ValueError(f"{error.filename}: cannot be read ({error.strerror}); its rows would be missing.") from None

    if os.path.exists(os.path.join(folder, UNFINISHED)):
        warn(f"{folder}: is not finished; answers are missing until the call that writes them has come to its end.")
    for kind, mark in TABLE_MARKS.items():
        if glob.glob(os.path.join(glob.escape(folder), mark)):
            raise ValueError(
                f"{folder}: is a table of {kind}, whose folder also holds rows that were replaced or removed; ask the "
                "table for its rows, see docs/guide/large_data.md."
            )
    paths, above = list[str](), {folder: [os.path.realpath(folder)]}
    for root, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        chain = above.pop(root)
        places = {name: os.path.realpath(os.path.join(root, name)) for name in folders if _is_shown(name)}
        folders[:] = [name for name, place in places.items() if place not in chain]
        above |= {os.path.join(root, name): [*chain, places[name]] for name in folders}
        paths += [os.path.join(root, name) for name in names if name.lower().endswith(ENDINGS) and _is_shown(name)]
    return sorted(paths, key=os.path.split)


def _remote_files(address: str) -> tuple[list[str], Any]:
    fs = need_extra("pyarrow.fs", "reading Parquet")
    try:
        system, root = fs.FileSystem.from_uri(address)
        kind = system.get_file_info(root).type
        infos = system.get_file_info(fs.FileSelector(root, recursive=True)) if kind == fs.FileType.Directory else []
    except UNREADABLE as error:
        reason = brief_text(without_secrets(str(error)))
        raise ValueError(f"{without_secrets(address)}: cannot be reached ({reason}).") from None
    address = without_secrets(address)
    if kind == fs.FileType.NotFound:
        raise ValueError(f"{address}: there is no such file or folder.")
    if kind == fs.FileType.File:
        return [root], system
    paths = sorted(info.path for info in infos if info.is_file and info.path.lower().endswith(ENDINGS))
    paths = [path for path in paths if _is_shown(path[len(root) :])]
    if not paths:
        raise ValueError(f"{address}: holds no Parquet files ({', '.join(ENDINGS)}); others are not read from folders.")
    return paths, system


def without_secrets(address: str) -> str:
    """Return an address, or a message with one, in which user and password are not readable.

    >>> without_secrets("s3://user:password@bucket/rows")
    's3://***@bucket/rows'
    """
    return re.sub(SECRETS, lambda match: "***@" if match[0].endswith("@") else "***", address)


def _is_shown(path: str) -> bool:
    return not any(piece.startswith((".", "_")) for piece in path.replace(os.sep, "/").split("/"))


def file_parts(
    path: str, filesystem: Any, rows: int = PART_ROWS, row_groups: Iterable[int] | None = None
) -> tuple[list[FilePart], Any]:
    """Return the parts of a file, of at most ``rows`` rows unless a row group is longer, and its Arrow schema.

    row_groups : those that count; all by default.
    """
    state = file_state(path, filesystem)
    try:
        with open_file(path, filesystem) as file:
            metadata, schema = file.metadata, file.schema_arrow
            repeated = [name for name, times in Counter(schema.names).items() if times > 1]
            if repeated:
                raise PartError(f"{path}: has several columns {repeated[0]!r}; rename all but one.")
            numbers = range(metadata.num_row_groups) if row_groups is None else row_groups
            lengths = {k: metadata.row_group(k).num_rows for k in numbers}
    except PartError:
        raise
    except UNREADABLE as error:
        raise PartError(f"{path}: cannot be read as Parquet ({brief_text(error)}).") from None
    if filesystem is None:
        path = os.path.abspath(path)  # for a worker in another folder
    parts: list[FilePart] = []
    groups: list[int] = []
    n = 0
    for k, length in lengths.items():
        if groups and n + length > rows:
            parts.append(FilePart(path, tuple(groups), n, 0, *state, filesystem))
            groups, n = [], 0
        groups.append(k)
        n += length
    if n:
        parts.append(FilePart(path, tuple(groups), n, 0, *state, filesystem))
    return parts, schema


def number_parts(parts: Iterable[Part]) -> tuple[list[Part], int]:
    """Return the parts with the numbers of their first rows, and the number of all rows."""
    numbered, start = list[Part](), 0
    for part in parts:
        numbered.append(replace(part, start=start))
        start += part.n or 0
    return numbered, start
