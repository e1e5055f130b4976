"""Write rows of Z to Parquet files, cut into as many pieces as a test asks for."""

import numpy as np
import pytest

from optfair.storage.engines import Threads

pa = pytest.importorskip("pyarrow", reason="needs the extra parquet")
pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra parquet")

GROUPS, CLASSES = ["a", "b", "c"], ["low", "mid", "high"]
NAMES = {"groups": GROUPS, "classes": CLASSES}
CUTS = {  # files, rows of a row group, rows of a part
    "one part": (1, 10**6, 10**7),
    "files of small row groups": (7, 1_021, 10**7),
    "a part for each row group": (1, 9_000, 1),
    "parts of several row groups": (3, 1_000, 5_500),
}


def cell_names(groups=GROUPS, classes=CLASSES, start="z_"):
    """The columns of the cells, classes within groups."""
    return [f"{start}{group}_{name}" for group in groups for name in classes]


def row_table(Z, weight=None, offset=None, **names):
    """A table of rows of Z (n, A, m), with the columns "w" and "u_…" if there are such."""
    columns = dict(zip(cell_names(**names), Z.reshape(len(Z), Z.shape[1] * Z.shape[2]).T, strict=True))
    if weight is not None:
        columns["w"] = weight
    if offset is not None:
        columns |= {f"u_{k}": column for k, column in enumerate(offset.T)}
    return pa.table({name: np.ascontiguousarray(column) for name, column in columns.items()})


def write_files(folder, table, n_files=1, group_rows=None, **options):
    """Write a table to a new folder as so many files; return the folder.   options : of the writer"""
    folder.mkdir(parents=True)
    for k, rows in enumerate(np.array_split(np.arange(table.num_rows), n_files)):
        piece = table.slice(rows[0] if len(rows) else 0, len(rows))
        pq.write_table(piece, folder / f"part-{k:03}.parquet", row_group_size=group_rows, **options)
    return folder


class WatchedThreads(Threads):
    """Threads that call a function with the number of each reading before it begins."""

    def __init__(self, watch=lambda number: None, n_jobs=1):
        super().__init__(n_jobs)
        self.watch, self.n_readings = watch, 0

    def map(self, function, parts):
        """Watch, then read."""
        self.n_readings += 1
        self.watch(self.n_readings)
        return super().map(function, parts)
