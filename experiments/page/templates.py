"""Render the templates of a page with Jinja2; their text may hold no number that is not looked up.

Text is checked before it is rendered: a bare number is refused, because it would stay as it is when the runs change.
Names (C1), years after a name (ENEM 2019) and code are no numbers.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from optfair.errors import need_extra

CALLER = "the page of results"
TEMPLATES = Path(__file__).parent / "templates"
SUFFIX = ".md.j2"
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
YEAR = re.compile(r"(?<=[A-Za-z] )(?:19|20)\d\d\b")
BARE = re.compile(r"(?<![A-Za-z\d])\.?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?")  # C1 is a name
WIDTH = 120
WRAP: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
NOT_ON_THIS_PAGE = "\0"  # what a lookup returns where the page lacks its experiment or data


class PageTextError(ValueError):
    """A template that cannot be printed as it is."""


class Renderer:
    """Renders the templates of this package and, as ``notes/…``, those beside the lines. functions : they may call."""

    def __init__(self, notes: Path | None, functions: Mapping[str, Any]) -> None:
        self._notes = notes
        self._functions = {"fold": fold, **functions}
        self.template = ""  # the one that is rendered now, for messages

    def render(self, name: str, **context: Any) -> str:
        """Return the text of a template, as Markdown."""
        jinja2 = need_extra("jinja2", CALLER)
        outer, self.template = self.template, f"{name}{SUFFIX}"
        try:
            return tidy(self._load(name).render(self._functions | context))
        except (jinja2.UndefinedError, jinja2.TemplateSyntaxError) as error:
            line = f", line {error.lineno}" if hasattr(error, "lineno") else ""
            raise PageTextError(f"{self.template}{line}: {error.message}.") from None
        finally:
            self.template = outer

    def _load(self, name: str) -> Any:
        if self._notes is None or not name.startswith("notes/"):
            return environment().get_template(name)
        return environment().from_string(_read(self._notes / f"{name.removeprefix('notes/')}{SUFFIX}"))


@lru_cache
def environment() -> Any:
    """Return the environment of Jinja2, which keeps the templates of this package once they are compiled."""
    jinja2 = need_extra("jinja2", CALLER)
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _read(TEMPLATES / f"{name}{SUFFIX}")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def _read(file: Path) -> str:
    """Read a template, or raise `PageTextError` if its text is not fit to be printed."""
    try:
        source = file.read_text("utf-8")
    except UnicodeDecodeError:
        raise PageTextError(f"{file}: is no text in UTF-8.") from None
    check_numbers(file.name, environment().parse(source))
    return source


def check_numbers(name: str, tree: Any) -> None:
    """Raise `PageTextError` where the text of a template holds a bare number, or prints a literal one."""
    nodes = need_extra("jinja2.nodes", CALLER)
    text = NOT_ON_THIS_PAGE.join(node.data for node in tree.find_all(nodes.TemplateData))
    printed = [child for node in tree.find_all(nodes.Output) for child in node.nodes]
    while printed:  # literals that an expression prints; not the arguments of a lookup
        node = printed.pop()
        if isinstance(node, nodes.Const):
            text += f"{NOT_ON_THIS_PAGE}{node.value}"
        elif isinstance(node, nodes.Concat | nodes.CondExpr | nodes.BinExpr | nodes.Filter):
            printed += [child for child in node.iter_child_nodes() if child is not getattr(node, "test", None)]
    bare = BARE.search(YEAR.sub("", CODE.sub("", text)))
    if bare:
        raise PageTextError(
            f"{name}: {bare.group()} is a bare number; look it up instead, as in "
            '{{ accuracy(data="adult", method="OptFairPost", criterion="dp", value=0.01) }}.'
        )


def tidy(text: str) -> str:
    """Return Markdown with one blank line between its blocks."""
    return re.sub(r"\n[ \t]*(?:\n[ \t]*)+\n", "\n\n", text).strip()


def fold(title: str, caller: Callable[[], str]) -> str:
    """Return a block that the reader opens; blank lines inside, so that its tables are read as Markdown everywhere."""
    return f"\n\n<details><summary>{title}</summary>\n\n{caller().strip()}\n\n</details>\n\n"


def on_this_page(text: str) -> str:
    """Return the text without paragraphs that look up what the page lacks."""
    if NOT_ON_THIS_PAGE not in text:
        return text
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(_without_empty_heads([text for text in paragraphs if NOT_ON_THIS_PAGE not in text]))


def _without_empty_heads(paragraphs: Sequence[str]) -> list[str]:
    """Drop a heading that no paragraph of its own follows."""
    blocks: list[str] = []
    for paragraph in (*paragraphs, "#"):
        while blocks and _level(paragraph) and _level(blocks[-1]) >= _level(paragraph):
            blocks.pop()
        blocks.append(paragraph)
    return blocks[:-1]


def _level(paragraph: str) -> int:
    """Return 2 for a heading of the second level, 0 for a text."""
    return len(paragraph) - len(paragraph.lstrip("#"))


def rewrapped(text: str) -> str:
    """Return the text with its paragraphs wrapped anew: looked-up numbers are shorter than their names."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else _wrapped(part) for part in parts)


def _wrapped(text: str) -> str:
    parts = re.split(r"(\n\s*\n)", text)
    return "".join(_filled(part) if part.strip() else part for part in parts)


def _filled(paragraph: str) -> str:
    """Return a paragraph or the items of a list, wrapped; headings, tables, pictures and HTML as they are."""
    if re.match(r"[#|<:]|!\[", paragraph.lstrip("\n")):
        return paragraph
    start = paragraph[: len(paragraph) - len(paragraph.lstrip("\n"))]
    items = re.split(r"\n(?=- )", paragraph.strip("\n"))
    indent = "  " if items[0].startswith("- ") else ""
    texts = [" ".join(item.split()) for item in items]
    return start + "\n".join(textwrap.fill(text, WIDTH, subsequent_indent=indent, **WRAP) for text in texts)
