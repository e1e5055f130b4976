"""Load a service, and write the page: ``python -m experiments.service``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.service.page import write_page
from experiments.service.tasks import SMALL, Numbers, Sizes, run_all
from optfair.utils.files import write_atomically

SUCCESS = 0
ROOT = Path(__file__).parents[2]
LINES = ROOT / "experiments" / "results" / "service" / "service.jsonl"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write the page, return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.service",
        description="Load `optfair serve` with requests, malformed ones too, and end it in mid-load; a few minutes.",
    )
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "results" / "service.md", help="the page to write")
    parser.add_argument("--lines", type=Path, default=LINES, help="file of what was measured")
    parser.add_argument("--small", action="store_true", help="few requests, to try the script")
    parser.add_argument("--only-page", action="store_true", help="write the page from the lines there are")
    arguments = parser.parse_args(argv)
    if not arguments.only_page:
        lines: list[Numbers] = []

        def report(name: str, numbers: Numbers) -> None:
            lines.append({"name": name, **numbers})
            print(f"{name}: {json.dumps(numbers)}", flush=True)

        run_all(SMALL if arguments.small else Sizes(), report)
        arguments.lines.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(arguments.lines, "".join(f"{json.dumps(line)}\n" for line in lines).encode())
    write_page(read_lines(arguments.lines), arguments.page)
    print(f"wrote {arguments.page}")
    return SUCCESS


def read_lines(file: Path) -> list[Numbers]:
    """Return what was measured."""
    return [json.loads(text) for text in file.read_text("utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
