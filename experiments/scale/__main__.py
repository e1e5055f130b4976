"""Write rows, measure, and write the page: ``python -m experiments.scale``."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from experiments.scale.page import write_page
from experiments.scale.rows import write_rows
from experiments.scale.tasks import CLUSTER, EMPTY, TASKS, run_apart, run_here
from optfair.utils.files import write_atomically

SUCCESS, BAD_INPUT = 0, 2
ROOT = Path(__file__).parents[2]
LINES = ROOT / "experiments" / "results" / "scale" / "scale.jsonl"
SIZES = (10_000_000, 100_000_000)
SMALL_ONLY = (*tuple(CLUSTER)[1:], EMPTY)  # what takes long, and says at the smaller size what there is to say


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what was asked for, write the page, return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.scale",
        description="Measure folders of many rows: plain readings, solves on threads and on a Dask cluster, an audit. "
        "With the default numbers of rows it needs 25 GB of disk, which are given back, and about an hour.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what is measured: {', '.join(TASKS)}")
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES, help="numbers of rows (default: 1e7 and 1e8)")
    parser.add_argument("--folder", type=Path, help="where the rows are written, and stay; else they are removed")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "results" / "scale.md", help="the page to write")
    parser.add_argument("--lines", type=Path, default=LINES, help="file of what was measured")
    parser.add_argument("--only-page", action="store_true", help="write the page from the lines there are")
    parser.add_argument("--task", help=argparse.SUPPRESS)  # in a process of its own
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.task:
        print(json.dumps(run_here(arguments.task, arguments.folder, arguments.cache)))
        return SUCCESS
    if absent := [name for name in arguments.names if name not in TASKS]:
        print(f"scale: {absent[0]}: there is no such task; there are {', '.join(TASKS)}.", file=sys.stderr)
        return BAD_INPUT
    if not arguments.only_page:
        root = arguments.folder or Path(tempfile.mkdtemp(prefix="optfair-scale-"))
        try:
            for n in arguments.rows:
                measure(root / str(n), n, arguments.names, arguments.lines)
        finally:
            if arguments.folder is None:
                shutil.rmtree(root, ignore_errors=True)
    write_page(read_lines(arguments.lines), arguments.page)
    print(f"wrote {arguments.page}")
    return SUCCESS


def measure(folder: Path, n: int, names: Sequence[str], lines: Path) -> None:
    """Measure the tasks that are named, or all, on n rows; a line each, which replaces the one of before."""
    print(f"{n:,} rows: writing", flush=True)
    write_rows(folder, n)
    cache = folder.parent / f"{folder.name}-cache"
    for name in names or [name for name in TASKS if n < max(SIZES) or name not in SMALL_ONLY]:
        numbers = run_apart(name, folder, cache)
        print(f"{n:,} rows, {name}: {numbers['seconds']:.1f} s", flush=True)
        rest = [line for line in read_lines(lines) if (line["n"], line["name"]) != (n, name)]
        text = "".join(f"{json.dumps(line)}\n" for line in [*rest, {"n": n, "name": name, **numbers}])
        lines.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(lines, text.encode())
        shutil.rmtree(cache, ignore_errors=True)


def read_lines(file: Path) -> list[dict[str, object]]:
    """Return what was measured."""
    return [json.loads(text) for text in file.read_text("utf-8").splitlines()] if file.exists() else []


if __name__ == "__main__":
    sys.exit(main())
