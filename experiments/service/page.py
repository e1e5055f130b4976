"""Write the page of what a service does under load, every number from a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optfair.errors import need_extra
from optfair.utils.files import write_atomically

TEMPLATE = Path(__file__).with_name("service.md.j2")
STOPS = {"stop": "connections that are kept", "stop, a connection each": "a connection for each request"}


def write_page(lines: Sequence[Mapping[str, Any]], page: Path) -> None:
    """Write the page from all lines."""
    page.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(page, draft_page(lines).encode())


def draft_page(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the page."""
    jinja2 = need_extra("jinja2", "the page of the service")
    options = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, **options)
    table = {line["name"]: line for line in lines}
    stops = [(title, table[name]) for name, title in STOPS.items() if name in table]
    template = environment.from_string(TEMPLATE.read_text("utf-8"))
    text: str = template.render(**{name: line for name, line in table.items() if name.isidentifier()}, stops=stops)
    return text
