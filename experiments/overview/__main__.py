"""Write the overview of all results from recorded lines: ``python -m experiments.overview``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.bench.lines import Lines
from experiments.catalogue import EXPERIMENTS, read_experiment
from experiments.coverage.run import FILE as COVERAGE
from experiments.coverage.run import read_lines as read_coverage
from experiments.ledger import Ledger
from experiments.overview.facts import comparisons, production_facts, promise_facts, speed_facts
from experiments.page.page import Draft
from experiments.page.results import Results
from experiments.page.templates import PageTextError
from experiments.page.write import make_writer
from experiments.plan import Plan
from optfair.errors import DataFileError

SUCCESS, BAD_INPUT = 0, 2
ROOT = Path(__file__).parents[2]
COMMAND = "python -m experiments.overview"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, return the exit code."""
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Write the overview of results: six pictures and three tables, from the lines of all experiments. "
        "Nothing is run.",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "experiments" / "results", help="folder of the lines")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "results" / "index.md", help="the page to write")
    arguments = parser.parse_args(argv)
    try:
        for file in draft_page(arguments.out, arguments.page).write():
            print(file)
    except (DataFileError, PageTextError, ValueError, OSError) as error:
        print(f"overview: {error}", file=sys.stderr)
        return BAD_INPUT
    return SUCCESS


def draft_page(folder: Path, page: Path) -> Draft:
    """Return the page; every number has been found when this returns. folder : of the lines."""
    plan = Plan(Ledger(folder).lines, finished=True)
    results = Results(plan, [read_experiment(name) for name in EXPERIMENTS], COMMAND)
    files = {name: read_json(folder / name / f"{name}.jsonl") for name in ("scale", "export", "service")}
    context = (
        comparisons(results)
        | promise_facts(read_coverage(folder / "coverage" / COVERAGE))
        | speed_facts(Lines(folder / "speed"), files["scale"])
        | production_facts(files["export"], files["service"])
    )
    return make_writer(results, folder).draft("index", page, command=COMMAND, **context)


def read_json(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a file."""
    return [json.loads(text) for text in file.read_text("utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
