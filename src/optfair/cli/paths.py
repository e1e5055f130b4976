"""Check the files that a command names, before anything heavy is imported."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

CSV, PARQUET = (".csv", ".tsv"), (".parquet", ".pq", ".parq")
PAGES = ("html", "markdown", "json")  # files that a report can be written to
COMPRESSED = (".gz", ".bz2", ".xz")
FOLDER_COMMANDS = ("audit", "fit", "predict")  # whose table may be a folder of Parquet files


class InputError(ValueError):
    """Invalid input; the message says what is wrong and how to correct it."""


def check_paths(arguments: Namespace) -> None:
    """Check the input and output files of a command."""
    if arguments.command == "demo":
        return  # it reads no file, and makes its folder
    table_options = () if arguments.command == "datasets" else ("file", "test")
    tables = [path for name in table_options if (path := getattr(arguments, name, None))]
    models = [arguments.model] if "model" in arguments else []
    is_folder = False
    if arguments.command in FOLDER_COMMANDS:
        refuse_folder_options(arguments)
        is_folder = Path(arguments.file).is_dir()
    if is_folder and arguments.command == "predict":
        return _check_folders(arguments)
    if arguments.output and arguments.command not in ("fit", "report", "export"):
        table_kind(arguments.output)
    output_options = ("output", "test") if arguments.command == "datasets" else ("output", "plot", *PAGES)
    outputs = [path for name in output_options if (path := getattr(arguments, name, None))]
    for path in outputs:
        check_output(path, *models, *tables)
    if arguments.command == "fit":
        check_output(f"{arguments.output}.key", *tables)
        if arguments.key_file:  # it may be that of the model which is replaced, and nothing else that is written
            for path in outputs:
                check_output(path, arguments.key_file)
    if arguments.command == "monitor":
        check_output(arguments.state, *tables)
        if arguments.output:
            check_output(arguments.output, arguments.state)
    if is_folder:
        tables.remove(arguments.file)
    for path in tables:
        table_kind(path, hint=swap_hint(*models))
    for path in [*models, *tables]:
        check_input(path)


def _check_folders(arguments: Namespace) -> None:
    """Check the folders of ``optfair predict MODEL DIR -o DIR``."""
    check_input(arguments.model)
    target = Path(arguments.output)
    if not target.exists() and target.suffix.lower() in (*CSV, *PARQUET):
        raise InputError(f"{arguments.output}: is the name of a table; answers for a folder are written to a folder.")
    if target.exists() and not target.is_dir():
        raise InputError(f"{arguments.output}: is a file; the answers for a folder are written to a folder.")
    if target.resolve() == Path(arguments.file).resolve():
        raise InputError(f"{arguments.output}: is also the input; write to another folder.")
    if not target.resolve().parent.is_dir():
        raise InputError(f"{arguments.output}: the folder {target.parent} does not exist; create it first.")


def swap_hint(*models: str) -> str:
    """Return a question to the user if a model has the name of a table."""
    return " Are MODEL and FILE swapped?" if any(path.lower().endswith((*CSV, *PARQUET)) for path in models) else ""


def table_kind(path: str | Path, hint: str = "") -> str:
    """Return "csv" or "parquet", by the name of a table. hint : added to the error message."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    last = suffixes[-1] if suffixes else ""
    if last in PARQUET:
        return "parquet"
    if last in CSV or (last in COMPRESSED and suffixes[-2:-1] and suffixes[-2] in CSV):
        return "csv"
    raise InputError(
        f"{path}: the name of a table must end in {', '.join(CSV + PARQUET)}, or in .csv with "
        f"{', '.join(COMPRESSED)}.{hint}"
    )


def check_input(path: str) -> None:
    """Check that a file exists and is not empty."""
    if Path(path).is_dir():
        raise InputError(f"{path}: is a folder; give a file.")
    if not Path(path).exists():
        raise InputError(f"{path}: there is no such file.")
    if Path(path).is_file() and Path(path).stat().st_size == 0:
        raise InputError(f"{path}: the file is empty.")


def refuse_folder_options(arguments: Namespace) -> None:
    """Refuse options of folders where the table is a file."""
    if Path(arguments.file).is_dir():
        return
    for option in ("sample", "cache", "scheduler"):
        value = getattr(arguments, option, None)
        if value is not None:
            raise InputError(f"--{option} {value}: is for folders of Parquet files; leave it out.")


def check_distinct(*outputs: str | None) -> None:
    """Refuse two outputs that are the same file, however it is written."""
    files = [os.path.realpath(path) for path in outputs if path]
    repeated = next((path for path in outputs if path and files.count(os.path.realpath(path)) > 1), None)
    if repeated is not None:
        raise InputError(f"{repeated}: is named twice; give each output a file of its own.")


def check_output(path: str, *inputs: str) -> None:
    """Check that a file can be written, and is not one of the input files."""
    file = Path(path)
    if not file.parent.is_dir():
        raise InputError(f"{path}: the folder {file.parent} does not exist; create it first.")
    if file.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file.")
    if not os.access(file.parent, os.W_OK):
        raise InputError(f"{path}: the folder {file.parent} is not writable; choose another.")
    for source in inputs:
        if file.exists() and Path(source).exists() and os.path.samefile(file, source):
            raise InputError(f"{path}: is also an input file; write to another file.")
