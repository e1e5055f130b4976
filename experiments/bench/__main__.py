"""Compare the speed of this code with that of its previous release and of other libraries: `experiments.bench`."""

from __future__ import annotations

import argparse
import importlib.util
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from experiments.bench.cases import CASES, GROWTH, LIMIT, PEERS, Case
from experiments.bench.copies import CACHE, PREVIOUS, ROOT, commit_of, peer_python, previous_source
from experiments.bench.lines import Lines, machine
from experiments.bench.page import draft_page
from experiments.bench.run import Bench
from experiments.bench.table import report
from experiments.page.templates import PageTextError
from experiments.timings.__main__ import main as timings
from optfair.errors import DataFileError

SUCCESS, BAD_INPUT = 0, 2
TIMINGS = ("prediction", "busy")  # timings that judge themselves
OUT, PAGE = ROOT / "experiments" / "results" / "speed", ROOT / "docs" / "results" / "speed.md"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases and print a report of each; return 2 on bad input."""
    arguments = _parser().parse_args(argv)
    every = CASES | GROWTH
    if arguments.list:
        print("\n".join([*every, *_timings()]))
        return SUCCESS
    try:
        if not arguments.only_page:
            _check(arguments)
            _run(arguments, _chosen(arguments.only, every))
        if arguments.only_page or not (arguments.only or arguments.small):
            draft_page(Lines(arguments.out), arguments.page).write()
            print(f"wrote {arguments.page}")
    except (DataFileError, PageTextError, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return BAD_INPUT
    return SUCCESS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.bench",
        description="Measure seconds of this code, of its previous release and of other libraries, in one run. "
        "Without options all cases run, in about an hour, and the page is written.",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="cases whose name contains one of these")
    parser.add_argument("--small", action="store_true", help="try the cases on a twentieth of the rows; keep no lines")
    previous = "commit to compare with (default: %(default)s)"
    parser.add_argument("--previous", default=PREVIOUS, metavar="REF", help=previous)
    repeat = "take the best of so many runs, as long as they are short (default: %(default)s)"
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help=repeat)
    limit = "stop a run after so many seconds (default: %(default)s)"
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS", help=limit)
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="folder of the lines")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help="page to write")
    parser.add_argument("--only-page", action="store_true", help="write the page from the lines, without running")
    return parser


def _check(arguments: argparse.Namespace) -> None:
    if arguments.repeat < 1:
        raise ValueError(f"--repeat {arguments.repeat}: must be at least 1.")
    if not arguments.limit > 0:
        raise ValueError(f"--limit {arguments.limit:g}: must be positive.")


def _chosen(parts: Sequence[str] | None, every: dict[str, Case]) -> list[str]:
    """Return the names, of cases and timings, that contain one of the parts."""
    names = [*every, *_timings()]
    for part in parts or []:
        if not any(part in name for name in names):
            raise ValueError(f"--only {part}: no case has this in its name; --list shows them.")
    return [name for name in names if parts is None or any(part in name for part in parts)]


def _timings() -> list[str]:
    return [name for name in TIMINGS if importlib.util.find_spec(f"experiments.timings.{name}")]


def _run(arguments: argparse.Namespace, names: Sequence[str]) -> None:
    every = CASES | GROWTH
    cases = [every[name].small() if arguments.small else every[name] for name in names if name in every]
    with_peers = any(version in PEERS for case in cases for version in case.versions)
    python, absent = peer_python() if with_peers else (None, {})
    sources = {"previous": previous_source(arguments.previous), "present": ROOT / "src"}
    commits = {"previous": commit_of(arguments.previous)[:7], "present": commit_of("HEAD")[:7]}
    bench = Bench(sources, commits, python, absent, arguments.repeat, arguments.limit)
    with tempfile.TemporaryDirectory() as nowhere:
        lines = Lines(Path(nowhere) if arguments.small else arguments.out)
        lines.machine = machine()["machine"] | {"repeat": arguments.repeat, "limit": arguments.limit}
        print(", ".join(f"{name} {value}" for name, value in lines.machine.items()))
        small = "; a twentieth of the rows" if arguments.small else ""
        print(f"optfair {commits['previous']} → {commits['present']}{small}\n", flush=True)
        for case, new in bench.lines(cases):
            lines.put(case.name, new)
            print(report(case, new), flush=True)
    chosen = [name for name in names if name not in every]
    if chosen:
        timings([*chosen, "--repeat", str(arguments.repeat), *(["--small"] if arguments.small else [])])


if __name__ == "__main__":
    CACHE.mkdir(exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(BAD_INPUT))  # so that processes and files are cleared away
    raise SystemExit(main())
