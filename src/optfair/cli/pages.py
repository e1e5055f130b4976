"""Write the report of a command as a page, as Markdown and as JSON."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from pathlib import Path

from optfair.cli.paths import PAGES, check_distinct
from optfair.errors import need_extra
from optfair.reporting.facts import InputFile
from optfair.reporting.report import Report


def check_pages(arguments: Namespace) -> None:
    """Check, before long work, that the files asked for can be made."""
    if arguments.html:
        need_extra("jinja2", "--html")
    key = f"{arguments.output}.key" if arguments.command == "fit" else None
    pages = [getattr(arguments, option) for option in PAGES]
    check_distinct(*pages, arguments.output, key, getattr(arguments, "plot", None))


def input_files(*paths: str) -> list[InputFile]:
    """Return the names of files, without their folders, and the SHA-256 of their content."""
    files = []
    for path in paths:
        with open(path, "rb") as file:
            files.append(InputFile(Path(path).name, hashlib.file_digest(file, "sha256").hexdigest()))
    return files


def write_pages(arguments: Namespace, report: Report) -> list[str]:
    """Write the files asked for, and return their names."""
    files = {option: getattr(arguments, option) for option in PAGES if getattr(arguments, option)}
    for option, path in files.items():
        getattr(report, option)(path)
    return list(files.values())
