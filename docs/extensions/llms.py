"""Write ``llms.txt``, the list of pages for programs that read text, and the Markdown of every page beside its HTML."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes

MARKDOWN = ".md"


def write_llms(app: Any, error: Exception | None) -> None:
    """Write the list after the pages."""
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir)
    lines = [f"# {app.config.project}", "", f"> {app.config.llms_summary}"]
    for docname in ordered_pages(app.env, app.config.root_doc):
        source = Path(app.env.doc2path(docname))
        if docname == app.config.root_doc or app.env.titles.get(docname) is None:
            continue
        if docname.count("/") == 1 and docname.endswith("/index"):
            lines += ["", f"## {app.env.titles[docname].astext()}", ""]
        address = f"{docname}.html"
        if source.suffix == MARKDOWN and not docname.startswith("project/"):
            address = f"{docname}{MARKDOWN}"
            (folder / address).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / address)
        sentence = first_sentence(app.env.get_doctree(docname))
        lines.append(f"- [{app.env.titles[docname].astext()}]({address}){f': {sentence}' if sentence else ''}")
    (folder / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def ordered_pages(env: Any, docname: str) -> Iterator[str]:
    """Yield a page and those below it in the tables of contents, each once, in their order."""
    seen: set[str] = set()

    def walk(name: str) -> Iterator[str]:
        if name not in seen:
            seen.add(name)
            yield name
            for child in env.toctree_includes.get(name, ()):
                yield from walk(child)

    yield from walk(docname)


def first_sentence(document: nodes.document) -> str:
    """Return the first sentence of a page."""
    paragraph = next(iter(document.findall(nodes.paragraph)), None)
    text = "" if paragraph is None else " ".join(paragraph.astext().split())
    return text.partition(". ")[0].rstrip(".:") if text else ""


def setup(app: Any) -> dict[str, Any]:
    """Register the list."""
    app.add_config_value("llms_summary", "", "html", str)
    app.connect("build-finished", write_llms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
