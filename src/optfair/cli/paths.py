"""Are the files that are named there, and can those to be written be? Asked before anything heavy is imported."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

CSV, PARQUET = (".csv", ".tsv"), (".parquet", ".pq")
COMPRESSED = (".gz", ".bz2", ".xz")


class InputError(ValueError):
    """Something the user gave is wrong; the message says what and how to mend it."""


def check_paths(arguments: Namespace) -> None:
    """The files that a command names."""
    if arguments.command in ("demo", "bench"):
        return  # they read no file, and make their folder
    read = () if arguments.command == "datasets" else ("file", "test")
    tables = [path for name in read if (path := getattr(arguments, name, None))]
    models = [arguments.model] if "model" in arguments else []
    if arguments.output and arguments.command != "fit":
        kind_of(arguments.output)
    to_write = ("output", "test") if arguments.command == "datasets" else ("output", "plot")
    written = [path for name in to_write if (path := getattr(arguments, name, None))]
    for path in written:
        check_output(path, *models, *tables)
    if arguments.command == "fit":
        check_output(f"{arguments.output}.key", *tables)
    for path in tables:
        kind_of(path)
    for path in [*models, *tables]:
        check_input(path)


def kind_of(path: str | Path) -> str:
    """ "csv" or "parquet", by the name of a table."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    last = suffixes[-1] if suffixes else ""
    if last in PARQUET:
        return "parquet"
    if last in CSV or (last in COMPRESSED and suffixes[-2:-1] and suffixes[-2] in CSV):
        return "csv"
    raise InputError(f"{path}: its name must end in {', '.join(CSV + PARQUET)}, or .csv with {', '.join(COMPRESSED)}.")


def check_input(path: str) -> None:
    """A file that is to be read: there, and not empty."""
    if Path(path).is_dir():
        raise InputError(f"{path}: is a folder; give a file.")
    if not Path(path).exists():
        raise InputError(f"{path}: there is no such file.")
    if Path(path).is_file() and Path(path).stat().st_size == 0:
        raise InputError(f"{path}: the file is empty.")


def check_output(path: str, *inputs: str) -> None:
    """A file that is to be written: it can be, and is not one that is read."""
    file = Path(path)
    if not file.parent.is_dir():
        raise InputError(f"{path}: there is no folder {file.parent}; make it first.")
    if file.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file.")
    if not os.access(file.parent, os.W_OK):
        raise InputError(f"{path}: the folder {file.parent} cannot be written to.")
    for given in inputs:
        if file.exists() and Path(given).exists() and os.path.samefile(file, given):
            raise InputError(f"{path}: is the file that is read; write to another.")
