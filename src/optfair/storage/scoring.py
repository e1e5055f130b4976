"""Write an answer beside every row of Parquet files: file by file, each whole or absent, and resumed where it stopped.

An output knows what it was made from: the state of its input file and a mark of whoever answered. A second call leaves
those alone that are still true, and makes the others.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from optfair.errors import brief_repr, brief_text, need_extra, warn
from optfair.storage.engines import as_engine
from optfair.storage.parts import (
    BATCH_ROWS,
    UNFINISHED,
    UNREADABLE,
    FilePart,
    PartError,
    batch_rows,
    file_parts,
    find_files,
    local_files,
    open_file,
    without_secrets,
)
from optfair.storage.tables import batch_frame
from optfair.utils.files import replacing
from optfair.utils.parallel import map_items
from optfair.utils.progress import stage

MADE_FROM = b"optfair made from"  # in the metadata of an output
SCORING = "answering"
GROUP_BYTES = 64 << 20  # of a row group in memory: fewer rows than BATCH_ROWS of many columns


@dataclass(frozen=True)
class ScoredFiles:
    """What a call of `score_files` did.

    Attributes
    ----------
    written, kept : list of str
        Outputs that were made, and that were there already.
    n_rows : int
        Rows of those that were made.
    seconds : float
        That they took.
    stale : list of str
        Outputs of input files that are gone, or have no rows any more; they were left alone.
    replaced : list of str
        Those of `written` that were there before, made by another model, in another way, or from another input.
    """

    written: list[str]
    kept: list[str]
    n_rows: int
    seconds: float
    stale: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)


def folder_files(source: Any) -> tuple[Path, list[str]]:
    """Return a folder and its Parquet files, with paths below it."""
    paths, system = find_files(source)
    if system is not None or not isinstance(source, (str, os.PathLike)) or not os.path.isdir(source):
        raise ValueError(f"{without_secrets(brief_repr(source))}: must be a folder of this machine.")
    return Path(source), [os.path.relpath(path, source) for path in paths]


@dataclass(frozen=True)
class FileJob:
    """A file to answer for.

    part : all of its rows. target : path. origin : what the target is made from. n_columns : of the file.
    """

    part: FilePart
    target: Path
    origin: str
    n_columns: int

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.part.n

    @property
    def name(self) -> str:
        """What the file is called in messages."""
        return self.part.path


@dataclass(frozen=True, eq=False)
class FileScorer:
    """Writes one file. answer, columns, only : see `score_files`."""

    answer: Callable[[pd.DataFrame], pd.DataFrame]
    columns: Sequence[str] | None
    only: bool

    def __call__(self, job: FileJob) -> int:
        """Return the number of rows that were written."""
        return sum(self.batches(job))

    def batches(self, job: FileJob) -> Iterator[int]:
        """Write a file, and yield the rows of each batch."""
        with _naming(job.target):
            job.target.parent.mkdir(parents=True, exist_ok=True)
        return _score_file(job, self.answer, self.columns, self.only)


def score_files(
    source: Any,
    out: Any,
    answer: Callable[[pd.DataFrame], pd.DataFrame],
    mark: str,
    *,
    columns: Sequence[str] | None = None,
    only: bool = False,
    client: Any = None,
    n_jobs: int | None = None,
) -> ScoredFiles:
    """Write the files of a folder into another one, each row with its answer; files without rows are left out.

    answer : returns the new columns of some rows. mark : of whoever answers; another one makes all outputs anew.
    columns : that `answer` reads; all by default. only : write the new columns alone. client : of a cluster whose
    machines share both folders, see `optfair.storage.engines`. n_jobs : files at a time, where there is no client.
    """
    root, names = folder_files(source)
    target = Path(out).absolute()  # for a worker in another folder
    if root.resolve() in (target.resolve(), *target.resolve().parents) or (target.exists() and not target.is_dir()):
        raise ValueError(f"{out}: must be a folder outside of {root}, or one that is not there yet.")
    start = time.monotonic()
    jobs: dict[str, FileJob] = {}
    for name in names:
        parts, schema = file_parts(str(root / name), None, sys.maxsize)
        absent = [column for column in columns or () if column not in schema.names]
        if absent:
            raise PartError(f"{root / name}: has no column {absent[0]!r}.")
        for part in parts:  # one, or none where there are no rows
            origin = f"{mark} {(part.size, part.modified)} {'only' if only else 'all'}"
            jobs[name] = FileJob(part, target / name, origin, len(schema.names))
    _check_targets(root, jobs)
    is_true = {name: _is_made_from(job.target, job.origin) for name, job in jobs.items()}
    missing = [name for name in jobs if not is_true[name]]
    todo, replaced = [jobs[name] for name in missing], [name for name in missing if jobs[name].target.exists()]
    scorer = FileScorer(answer, columns, only)
    with _unfinished(target, todo):
        results = _score_on_threads(scorer, todo, n_jobs) if client is None else as_engine(client).map(scorer, todo)
        n_rows = sum(results)
    stale = _stale_outputs(target, jobs)
    if stale:
        number = "1 file is" if len(stale) == 1 else f"{len(stale)} files are"
        warn(f"{out}: {number} of inputs that are gone or empty, first {stale[0]!r}; remove them, or they are counted.")
    valid = [name for name in jobs if is_true[name]]
    return ScoredFiles(missing, valid, n_rows, time.monotonic() - start, stale, replaced)


@contextmanager
def _unfinished(target: Path, jobs: Sequence[FileJob]) -> Iterator[None]:
    """Mark a folder while its files are made, so that whoever reads what is there is told."""
    mark = target / UNFINISHED
    if jobs:
        target.mkdir(parents=True, exist_ok=True)
        with _naming(mark):
            mark.touch()
    try:
        yield
    except BaseException:
        if not any(job.target.exists() for job in jobs):  # nobody can mistake that for answers
            mark.unlink(missing_ok=True)
            with suppress(OSError):
                target.rmdir()
        raise
    mark.unlink(missing_ok=True)


def _check_targets(root: Path, jobs: Mapping[str, FileJob]) -> None:
    """Refuse to write where the rows come from, which links may lead to."""
    sources = {os.path.realpath(job.part.path) for job in jobs.values()}
    for job in jobs.values():
        place = job.target.resolve()
        if str(place) in sources or root.resolve() in place.parents:
            raise ValueError(f"{job.target}: is a link into {root}, whose files would be replaced; remove the link.")


def _stale_outputs(target: Path, jobs: Mapping[str, FileJob]) -> list[str]:
    """Return the outputs in a folder that no input has a name for."""
    paths = local_files(str(target)) if target.is_dir() else []
    names = [os.path.relpath(path, target) for path in paths]
    return [name for name in names if name not in jobs and _mark(target / name) is not None]


def _score_on_threads(scorer: FileScorer, jobs: Sequence[FileJob], n_jobs: int | None) -> list[int]:
    """Write files side by side, and return how many rows each has."""
    with stage(SCORING, sum(job.n for job in jobs), unit="rows") as work:

        def score(job: FileJob) -> int:
            n_rows = 0
            for n in scorer.batches(job):
                work.advance(n)
                n_rows += n
            return n_rows

        return map_items(score, jobs, n_jobs)


def _is_made_from(path: Path, origin: str) -> bool:
    """Tell whether an output is there and was made from this; refuse to replace a file that is no output."""
    if not path.exists():
        return False
    mark = _mark(path)
    if mark is None:
        raise ValueError(f"{path}: is there, but does not hold such answers; remove it, or write to another folder.")
    return mark == origin.encode()


def _mark(path: Path) -> bytes | None:
    """Return what an output says it was made from; None: it is no output."""
    mark: bytes | None = None
    with suppress(*UNREADABLE), open_file(str(path), None) as file:
        mark = (file.schema_arrow.metadata or {}).get(MADE_FROM)
    return mark


@contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Name the file that cannot be written, as on a full disk."""
    try:
        yield
    except OSError as error:
        raise PartError(f"{target}: cannot be written ({brief_text(error.strerror or error)}).") from None


class RowGroups:
    """Writes tables to a Parquet file, collected to row groups: of a batch each, wide files had large footers."""

    def __init__(self, path: Path, schema: Any) -> None:
        self.schema, self.tables = schema, list[Any]()
        self.writer = need_extra("pyarrow.parquet", "writing Parquet").ParquetWriter(path, schema)

    def write(self, table: Any) -> None:
        """Add rows, and write those that are a row group."""
        self.tables.append(table.cast(self.schema))
        if sum(rows.num_rows for rows in self.tables) >= BATCH_ROWS or self.n_bytes() >= GROUP_BYTES:
            self.flush()

    def n_bytes(self) -> int:
        """Return the size of the rows that are not written yet."""
        return sum(rows.nbytes for rows in self.tables)

    def flush(self) -> None:
        """Write the rows that were collected as a row group."""
        if self.tables:
            rows = need_extra("pyarrow", "writing Parquet").concat_tables(self.tables)
            self.tables = []
            self.writer.write_table(rows, row_group_size=rows.num_rows)


def _score_file(
    job: FileJob, answer: Callable[[pd.DataFrame], pd.DataFrame], columns: Sequence[str] | None, only: bool
) -> Iterator[int]:
    """Write a file, and yield the rows of each batch that is written."""
    arrow = need_extra("pyarrow", "writing Parquet")
    writer = None
    with _naming(job.target), replacing(job.target) as temporary:
        try:
            for batch in job.part.batches(columns if only else None, batch_rows(job.n_columns)):
                question = batch if columns is None else batch.select(list(columns))
                try:
                    answers = arrow.RecordBatch.from_pandas(answer(batch_frame(question)), preserve_index=False)
                except (ValueError, OSError, arrow.ArrowTypeError) as error:
                    raise PartError(f"{job.name}: {error}") from None
                rows = [] if only else [batch]
                repeated = [name for part in rows for name in answers.schema.names if name in part.schema.names]
                if repeated:
                    raise PartError(
                        f"{job.name}: already has a column {repeated[0]!r}; rename it, or write only answers."
                    )
                if writer is None:
                    metadata = {**((not only and batch.schema.metadata) or {}), MADE_FROM: job.origin.encode()}
                    fields = [field for part in (*rows, answers) for field in part.schema]
                    writer = RowGroups(temporary, arrow.schema(fields, metadata))
                arrays = [array for part in (*rows, answers) for array in part.columns]
                writer.write(arrow.table(arrays, names=writer.schema.names))
                yield batch.num_rows
            if writer is not None:
                writer.flush()
        finally:
            if writer is not None:
                writer.writer.close()
