"""Let pages be read in two places: beside the code, where links lead to files, and on the site.

A link to a file of the project that has a page of its own leads to that page; one to any other file is a download of
it, because a site that is built offline knows no other address. Of folders the name is left.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Files outside of docs that are pages; the first ones are copied into the page that has their name.
PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CODE_OF_CONDUCT.md": "project/code_of_conduct.md",
    "SECURITY.md": "project/security.md",
    "README.md": "index.md",
}
COPIED = {page: name for name, page in PAGES.items() if page.startswith("project/")}
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def rewrite_links(text: str, source: Path, page: Path) -> str:
    """Return the text of a file as a page. source, page : whose folders its links start from, and should."""

    def rewrite(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        file = Path(os.path.normpath(source.parent / target))
        name = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else ""
        if name in PAGES:
            file = DOCS / PAGES[name]
        elif not file.is_relative_to(DOCS) and file.is_file():
            text = match["text"].strip("`")
            return f"{{download}}`{text} <{os.path.relpath(file, page.parent)}>`"
        elif not file.is_relative_to(DOCS):
            return match["text"] if match["text"].startswith("`") else f"{match['text']} (`{name}`)"
        address = os.path.relpath(file, page.parent)
        return f"[{match['text']}]({address}{f'#{anchor}' if anchor else ''})"

    return LINK.sub(rewrite, text)


def read_source(app: Any, docname: str, content: list[str]) -> None:
    """Change the text of a page before it is read."""
    page = Path(app.env.doc2path(docname))
    if page.suffix != ".md":
        return
    name = COPIED.get(page.relative_to(DOCS).as_posix())
    source = page if name is None else ROOT / name
    text = content[0] if name is None else source.read_text("utf-8")
    content[0] = rewrite_links(text, source, page)


def setup(app: Any) -> dict[str, Any]:
    """Register what happens when a page is read."""
    app.connect("source-read", read_source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
