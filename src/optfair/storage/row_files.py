"""Name rows that are kept in files, and bring them to the solver."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from optfair.dual.posterior import Posterior
from optfair.errors import brief_text, need_extra
from optfair.storage.cache import RowCache
from optfair.storage.columns import RowColumns, check_cells, check_schema, find_columns, rename
from optfair.storage.engines import as_engine
from optfair.storage.measure import PartMeasure, Reader, first_reading
from optfair.storage.parts import PART_ROWS, BatchPart, Part, PartError, file_parts, find_files, number_parts
from optfair.utils.checks import check_integer
from optfair.utils.parallel import map_items


@dataclass(frozen=True, eq=False)
class RowFiles:
    """Rows of Z that are kept in files, as `optfair.read_parquet` finds them; nothing but their footers is read.

    Attributes
    ----------
    parts : sequence of parts
        Where the rows are: files and row groups.
    columns : Columns
        What the columns of the files are.
    client : object or None
        The cluster that reads them, see `on`; None for threads of this process.
    cache : str or None
        Folder where decoded rows are kept.

    Examples
    --------
    >>> import optfair
    >>> files = optfair.read_parquet("scores/", z="z_*", weight="w")  # doctest: +SKIP
    >>> rule = optfair.solve(files, "dp", 0.01)  # doctest: +SKIP
    """

    parts: Sequence[Part]
    columns: RowColumns
    client: Any = None
    cache: str | None = None

    def __repr__(self) -> str:
        n = self.n
        shape = len(self.columns.groups), len(self.columns.classes)
        rows = "rows not counted yet" if n is None else f"{n:,} rows"
        return f"<RowFiles: {rows} in {len(self.parts)} parts, {shape[0]} groups, {shape[1]} classes>"

    @property
    def n(self) -> int | None:
        """The number of rows; None where a source has to be read to count them."""
        lengths = [part.n for part in self.parts]
        return None if None in lengths else sum(length or 0 for length in lengths)

    def on(self, client: Any) -> RowFiles:
        """Return the same rows, read by a cluster.

        Parameters
        ----------
        client : dask.distributed.Client, concurrent.futures.Executor, or object with an ordered ``map``
            What runs functions on parts of the rows; None for threads of this process.

        Returns
        -------
        RowFiles
            The same rows.

        Examples
        --------
        >>> import optfair
        >>> from distributed import Client  # doctest: +SKIP
        >>> files = optfair.read_parquet("scores/").on(Client("tcp://scheduler:8786"))  # doctest: +SKIP
        """
        as_engine(client)
        return replace(self, client=client)

    def as_measure(
        self,
        groups: Sequence[Any] | pd.Index | None = None,
        classes: Sequence[Any] | pd.Index | None = None,
        sample_weight: Any = None,
        offset: Any = None,
        n_jobs: int | None = None,
    ) -> PartMeasure | Posterior:
        """Read all rows once, and return their measure; weights and offsets are columns of the files.

        Parameters
        ----------
        groups, classes : sequence of names or pandas.Index, optional
            Names, where those of the columns are not meant.
        sample_weight, offset : None
            Columns of the files, which are named where these are found.
        n_jobs : int, optional
            Threads, where there is no client.

        Returns
        -------
        PartMeasure or Posterior
            The measure; of few rows that of an array.

        Examples
        --------
        >>> import optfair
        >>> optfair.read_parquet("scores/").as_measure()  # doctest: +SKIP
        """
        for name, value in (("sample_weight", sample_weight), ("offset", offset)):
            if value is not None:
                column = name.replace("sample_", "")
                raise ValueError(
                    f"{name}: rows in files have a column of it; name it as {column}= where they are read."
                )
        columns: Any = self.columns
        engine = as_engine(self.client, n_jobs)
        group_names, class_names = rename(columns.groups, groups, "groups"), rename(columns.classes, classes, "classes")
        columns = replace(columns, groups=group_names, classes=class_names)
        parts, n = self.parts, self.n
        if n is None:
            counts = list(engine.map(_count_rows, parts))
            parts, n = number_parts(replace(part, n=count) for part, count in zip(parts, counts, strict=True))
        parts = [part for part in parts if part.n]
        if not n:
            raise ValueError("Z: the files have no rows.")
        reader = Reader(columns, cache=None if self.cache is None else RowCache(self.cache))
        return first_reading(parts, n, reader, engine, n_jobs)


def _count_rows(part: Part) -> int:
    return sum(batch.num_rows for batch in part.batches([])) if part.n is None else part.n


def read_parquet(
    source: Any,
    z: str | Sequence[str] = "z_*",
    *,
    weight: str | None = None,
    offset: str | Sequence[str] | None = None,
    groups: Sequence[Any] | pd.Index | None = None,
    classes: Sequence[Any] | pd.Index | None = None,
    part_rows: int = PART_ROWS,
    cache: str | os.PathLike[str] | None = None,
) -> RowFiles:
    """Find rows of Z in Parquet files, for `optfair.solve` and `optfair.frontier`; they need not fit in memory.

    Only the footers of the files are read here. To solve reads all rows five to twelve times, a batch at a time, on
    all cores or on a cluster (``client=``).

    Parameters
    ----------
    source : str, path, list of these, or pyarrow.dataset.Dataset
        A folder with all that is in it, a file, a pattern such as ``"scores/2024-*.parquet"``, or an address such as
        ``s3://bucket/scores``.
    z : str or sequence of str, default "z_*"
        Columns of ``P(A=a, Y=i | X=x)``: a pattern, or names in the order of the cells, classes within groups. Or one
        column of lists, which are the fastest to read where they are of a fixed size.
    weight : str, optional
        Column of the weights of the rows.
    offset : str or sequence of str, optional
        Columns of utilities that are added to the scores of the classes, in their order: a pattern, or names.
    groups, classes : sequence of names or pandas.Index, optional
        Names of groups and classes, in the order of the columns. Found in columns that are named by both, such as
        ``z_female_low``, where that can be read in one way only.
    part_rows : int, default 2,000,000
        Rows that are worked on together, which is what is done again when a worker is lost.
    cache : str or path, optional
        Folder on a disk where decoded rows are kept, as large as Z in memory: every reading but the first is then
        several times as fast. Later calls use it too; remove it when you are done. On a cluster, a folder that all
        machines share, or one on the disk of each.

    Returns
    -------
    RowFiles
        The rows, to be given to `optfair.solve` in place of an array.

    Examples
    --------
    >>> import optfair
    >>> files = optfair.read_parquet("scores/", z="z_*", weight="w")  # doctest: +SKIP
    >>> rule = optfair.solve(files, "dp", 0.01, client=None)  # doctest: +SKIP
    """
    check_integer("part_rows", part_rows, 1)
    need_extra("pyarrow.parquet", "read_parquet")
    if type(source).__module__.startswith("pyarrow") and hasattr(source, "get_fragments"):
        rows = _from_dataset(source, (z, weight, offset, groups, classes), part_rows)
        if cache is not None and any(isinstance(part, BatchPart) for part in rows.parts):
            raise ValueError("cache: is for files of Parquet; leave it out.")
        return replace(rows, cache=_absolute(cache))
    paths, filesystem = find_files(source)
    files = map_items(lambda path: file_parts(path, filesystem, part_rows), paths)
    first = files[0][1]
    columns = find_columns(first, z, weight, offset, groups, classes)
    for path, (_, schema) in zip(paths[1:], files[1:], strict=True):
        check_schema(schema, first, columns.names, path)
        check_cells(schema, z, columns, path)
    parts, _ = number_parts(part for file, _ in files for part in file)
    return RowFiles(parts, columns, cache=_absolute(cache))


def _absolute(cache: str | os.PathLike[str] | None) -> str | None:
    """Return the path of a folder as workers in another one need it."""
    return None if cache is None else os.path.abspath(os.fspath(cache))


def read_batches(
    sources: Iterable[Callable[[], Iterable[Any]]],
    z: str | Sequence[str] = "z_*",
    *,
    weight: str | None = None,
    offset: str | Sequence[str] | None = None,
    groups: Sequence[Any] | pd.Index | None = None,
    classes: Sequence[Any] | pd.Index | None = None,
) -> RowFiles:
    """Find rows of Z in anything that yields Arrow record batches: tables of Delta or Iceberg, queries, streams.

    Parameters
    ----------
    sources : iterable of callables
        Each takes nothing and returns record batches (or tables), the same ones at every call; each is a part of the
        rows. For a cluster they must be functions that can be pickled.
    z : str or sequence of str, default "z_*"
        Columns of Z; see `optfair.read_parquet`.
    weight : str, optional
        Column of the weights of the rows.
    offset : str or sequence of str, optional
        Columns of utilities that are added to the scores of the classes.
    groups, classes : sequence of names or pandas.Index, optional
        Names of groups and classes, where the columns are not named by both.

    Returns
    -------
    RowFiles
        The rows, to be given to `optfair.solve` in place of an array.

    Examples
    --------
    >>> import optfair
    >>> files = optfair.read_batches([lambda: table.scan().to_arrow_batch_reader()])  # doctest: +SKIP
    """
    functions = list(sources) if isinstance(sources, Iterable) else [None]
    if not functions or not all(callable(function) for function in functions):
        raise ValueError("sources: must be a list of functions that take nothing and return record batches.")
    parts = [BatchPart(function, None, 0, f"source {k}") for k, function in enumerate(functions)]
    schema = next((batch.schema for part in parts for batch in part.whole_batches()), None)
    if schema is None:
        raise ValueError("sources: return no record batches of Arrow.")
    return RowFiles(parts, find_columns(schema, z, weight, offset, groups, classes))


def _from_dataset(dataset: Any, question: tuple[Any, ...], part_rows: int) -> RowFiles:
    """Return the rows of a dataset of pyarrow, of Parquet or of something else."""
    columns = find_columns(dataset.schema, *question)
    try:
        fragments = list(dataset.get_fragments())
    except ValueError as error:
        raise ValueError(f"source: {brief_text(error)}") from None
    parts: list[Part] = []
    for k, fragment in enumerate(fragments):
        name = getattr(fragment, "path", None) or f"fragment {k}"
        absent = [column for column in columns.names if column not in fragment.physical_schema.names]
        if absent:
            raise PartError(f"{name}: has no column {absent[0]!r}, which the dataset has.")
        check_cells(fragment.physical_schema, question[0], columns, name)
        if hasattr(fragment, "row_groups"):
            # Not by `to_batches`, which keeps a row group in memory, and reads on while its batches are worked on.
            row_groups = [group.id for group in fragment.row_groups]
            parts += file_parts(fragment.path, fragment.filesystem, part_rows, row_groups)[0]
        else:
            parts.append(BatchPart(FragmentBatches(fragment, dataset.schema, tuple(columns.names)), None, 0, name))
    if not fragments:
        raise ValueError("source: the dataset has no fragments.")
    return RowFiles(number_parts(parts)[0], columns)


@dataclass(frozen=True)
class FragmentBatches:
    """Yields the batches of a fragment of a pyarrow dataset, with the types of the dataset."""

    fragment: Any
    schema: Any
    columns: tuple[str, ...]

    def __call__(self) -> Iterable[Any]:
        """Return batches, read ahead by as little as pyarrow allows."""
        options = {"batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
        batches: Iterable[Any] = self.fragment.to_batches(schema=self.schema, columns=list(self.columns), **options)
        return batches
