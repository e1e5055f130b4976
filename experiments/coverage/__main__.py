"""Run what is missing of the coverage of promises, and write its page: ``python -m experiments.coverage``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.coverage.page import draft_page
from experiments.coverage.run import FILE, SMALLEST, read_lines, run_missing
from experiments.coverage.settings import SETTINGS
from experiments.page.templates import PageTextError
from optfair.errors import DataFileError

SUCCESS, BAD_INPUT = 0, 2
ROOT = Path(__file__).parents[2]
OUT = ROOT / "experiments" / "results" / "coverage"


def main(argv: Sequence[str] | None = None) -> int:
    """Run, write the page, return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.coverage",
        description="Draw samples of worlds and of real people, promise, and see how often the promise is broken. Goes "
        "on where it was stopped; about an hour in all. Real people need $OPTFAIR_DATA.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"settings: {', '.join([*SETTINGS, SMALLEST])}")
    parser.add_argument(
        "--runs", type=int, help="samples of each setting, instead of 400 (worlds) and 200 (real people)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the lines")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "results" / "promise.md", help="the page to write")
    parser.add_argument("--only-page", action="store_true", help="write the page from the lines there are")
    arguments = parser.parse_args(argv)
    names = arguments.names or [*SETTINGS, SMALLEST]
    try:
        if unknown := [name for name in names if name not in (*SETTINGS, SMALLEST)]:
            raise ValueError(f"{unknown[0]}: there is no such setting; there are {', '.join([*SETTINGS, SMALLEST])}.")
        if not arguments.only_page:
            run_missing(arguments.out / FILE, names, arguments.runs, arguments.jobs)
        draft_page(read_lines(arguments.out / FILE), arguments.page).write()
    except (DataFileError, PageTextError, ValueError) as error:
        print(f"coverage: {error}", file=sys.stderr)
        return BAD_INPUT
    print(f"wrote {arguments.page}")
    return SUCCESS


if __name__ == "__main__":
    sys.exit(main())
