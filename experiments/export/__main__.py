"""Compare exported models, and write the page: ``python -m experiments.export``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.export.cases import all_cases
from experiments.export.measure import measure_case
from experiments.export.page import write_page
from optfair.utils.files import write_atomically

SUCCESS = 0
ROOT = Path(__file__).parents[2]
LINES = ROOT / "experiments" / "results" / "export" / "export.jsonl"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, write the page, return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.export",
        description="Compare exported models with native ones on real data (needs $OPTFAIR_DATA; half an hour). Cases "
        "that were measured already are left alone.",
    )
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "results" / "export.md", help="the page to write")
    parser.add_argument("--lines", type=Path, default=LINES, help="file of what was measured")
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose name has this text")
    parser.add_argument("--again", action="store_true", help="measure these cases again")
    parser.add_argument("--small", action="store_true", help="few people, to try the script")
    parser.add_argument("--only-page", action="store_true", help="write the page from the lines there are")
    arguments = parser.parse_args(argv)
    lines = read_lines(arguments.lines)
    for case in () if arguments.only_page else all_cases():
        is_measured = case.name in lines and not arguments.again
        if arguments.only in case.name and not is_measured:
            lines[case.name] = {**vars(case), **measure_case(case, arguments.small)}
            print(f"{case.name}: {summary(lines[case.name])}", flush=True)
            text = "".join(f"{json.dumps(line)}\n" for line in lines.values())
            arguments.lines.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(arguments.lines, text.encode())
    write_page(list(lines.values()), arguments.page)
    print(f"wrote {arguments.page}")
    return SUCCESS


def read_lines(file: Path) -> dict[str, dict[str, object]]:
    """Return what was measured, by the name of the case."""
    lines = [json.loads(text) for text in file.read_text("utf-8").splitlines()] if file.exists() else []
    return {f"{line['data']}: {line['model']}, {line['setting']}": line for line in lines}


def summary(line: dict[str, object]) -> str:
    """Return the differences of a case in a few words."""
    results = {name: entry for name, entry in line.items() if isinstance(entry, dict) and "different" in entry}
    return "; ".join(f"{name} {entry['largest']:.0e}, {entry['different']} others" for name, entry in results.items())


if __name__ == "__main__":
    sys.exit(main())
