"""Write the page of what folders of many rows cost, every number from a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optfair.errors import need_extra
from optfair.storage.parts import PART_ROWS
from optfair.storage.sample import SPARE
from optfair.utils.files import write_atomically
from optfair.utils.progress import duration

TEMPLATE = Path(__file__).with_name("scale.md.j2")
N_NUMBERS = 25  # of a row of Z
ROW_BYTES = 4 * N_NUMBERS
OFFER_BYTES = ROW_BYTES + 4 + 3 * 8  # a row of a sample: Z, leverage, key, mass and number
NAMES = {
    "read": "plain reading of Z",
    "dp": "solve, dp",
    "eo": "solve, eo",
    "dp cached": "solve, dp, `cache=`",
    "dask dp": "solve, dp, Dask",
    "dask eo": "solve, eo, Dask",
    "dask dp, a worker killed": "solve, dp, Dask, a worker killed",
    "read answers": "plain reading of answers",
    "audit": "audit of answers",
}
PLAIN = {"audit": "read answers"}  # what a task is compared with; reading Z, if nothing else
FUTURE = ((1e9, 10), (1e9, 1_000), (1e11, 10), (1e11, 1_000))  # rows and cores that are reckoned with
Line = dict[str, Any]
Table = Mapping[tuple[int, str], Line]


def write_page(lines: Sequence[Line], page: Path) -> None:
    """Write the page from all lines."""
    page.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(page, draft_page(lines).encode())


def draft_page(lines: Sequence[Line]) -> str:
    """Return the text of the page."""
    jinja2 = need_extra("jinja2", "the page of many rows")
    table = {(line["n"], line["name"]): line for line in lines}
    sizes = sorted({n for n, _ in table})
    options = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    template = jinja2.Environment(undefined=jinja2.StrictUndefined, **options).from_string(TEMPLATE.read_text("utf-8"))
    facts = {"sizes": sizes, "table": table, "numbers": N_NUMBERS, "row_bytes": ROW_BYTES}
    rows = [measured_row(table, n, name) for name in NAMES for n in sizes if (n, name) in table]
    future = {"future": future_rows(table, sizes), "limits": limits(table, sizes)}
    text: str = template.render(
        rows=rows, growth=growth(table, sizes), equal=equal_ways(table, sizes), **facts, **future
    )
    return text


def measured_row(table: Table, n: int, name: str) -> dict[str, Any]:
    """Return a line of the table, with the seconds of a plain reading of the same columns, if there is one."""
    line, plain = table[n, name], table.get((n, PLAIN.get(name, "read")))
    seconds = None if plain is None or name in ("read", "read answers") else plain["seconds"]
    return {**line, "title": NAMES[name], "reads": seconds and line["seconds"] / seconds}


def growth(table: Table, sizes: Sequence[int]) -> list[tuple[str, str, float]]:
    """Return (title, whose, memory at the largest size in units of the smallest)."""
    cases = [("dp", "driver"), ("eo", "driver"), ("dp cached", "driver"), ("dask dp", "driver"), ("dask dp", "worker")]
    pairs = [(name, owner, [table.get((n, name)) for n in (sizes[0], sizes[-1])]) for name, owner in cases]
    return [
        (NAMES[name], owner, large[f"{owner}_bytes"] / small[f"{owner}_bytes"])
        for name, owner, (small, large) in pairs
        if small and large and small is not large
    ]


def equal_ways(table: Table, sizes: Sequence[int]) -> list[tuple[str, int, list[str], bool]]:
    """Return (criterion, rows, ways to solve, whether their multipliers are the same to the last bit)."""
    results = []
    for n in sizes:
        for criterion in ("dp", "eo"):
            names = [name for name in NAMES if criterion in name.replace(",", "").split() and (n, name) in table]
            if len(names) > 1:
                digests = {table[n, name]["multipliers"] for name in names}
                results.append((criterion, n, [NAMES[name] for name in names], len(digests) == 1))
    return results


def future_rows(table: Table, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Return what more rows cost on more cores, by the processor seconds per row of the largest size."""
    solves = {name: table.get((sizes[-1], name)) for name in ("dp", "eo")}
    if not all(solves.values()):
        return []
    results = []
    for rows, cores in FUTURE:
        seconds = {name: rows * line["processor"] / sizes[-1] / cores for name, line in solves.items() if line}
        dp = solves["dp"] or {}
        disk = rows * ROW_BYTES * dp["readings"] / cores / seconds["dp"]
        waits = {name: duration(value) for name, value in seconds.items()}
        results.append({"rows": rows, "cores": cores, "bytes": rows * ROW_BYTES, "disk": disk, **waits})
    return results


def limits(table: Table, sizes: Sequence[int]) -> dict[str, Any]:
    """Return what a part costs the scheduler and the driver, for 1e11 rows."""
    empty = next((table[n, "dask, empty tasks"] for n in sizes if (n, "dask, empty tasks") in table), None)
    solve = table.get((sizes[-1], "dp"))
    if empty is None or solve is None:
        return {}
    n_parts, per_part = 1e11 / PART_ROWS, empty["seconds"] / empty["parts"]
    reading, solving = (duration(calls * n_parts * per_part) for calls in (1, solve["calls"]))
    waits = {"part": per_part, "reading": reading, "solving": solving}
    return {"part_rows": PART_ROWS, "parts": n_parts, "spare": SPARE, "sample": n_parts * SPARE * OFFER_BYTES, **waits}
