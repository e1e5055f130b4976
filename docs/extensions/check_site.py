"""Check the site that was built: every link leads somewhere, and no page asks the network for anything.

Each finding is a warning of Sphinx, so that ``make docs`` fails on it. The same check runs without Sphinx, on any
folder: ``python docs/extensions/check_site.py build/site``.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "area": "href"}  # followed by a person
LOADED = {  # fetched by a browser when it shows the page
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
    "link": "href",
}
NOT_FETCHED = {"next", "prev", "index", "search", "author", "canonical", "license", "copyright", "alternate", "help"}
CSS_ADDRESS = re.compile(r"""url\(\s*['"]?(?P<address>[^'")]+)|@import\s+['"](?P<imported>[^'"]+)""")
NOT_FILES = ("data", "mailto", "javascript", "blob", "about")


@dataclass
class Page(HTMLParser):
    """Collect what a page offers to links and what it asks for."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read one element."""
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            if values["id"] in self.anchors:
                self.repeated.append(values["id"])
            self.anchors.add(values["id"])
        if tag == "a" and "name" in values:
            self.anchors.add(values["name"])
        if values.get(LINKS.get(tag, "")):
            self.links.append(values[LINKS[tag]])
        if values.get(LOADED.get(tag, "")) and not (tag == "link" and NOT_FETCHED & {*values.get("rel", "").split()}):
            self.loaded.append(values[LOADED[tag]])
        for candidate in values.get("srcset", "").split(","):
            if candidate.strip():
                self.loaded.append(candidate.split()[0])

    handle_startendtag = handle_starttag


def read_page(path: Path) -> Page:
    """Read a page from its file."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


@dataclass
class Site:
    """Check the pages of a folder."""

    folder: Path
    pages: dict[Path, Page] = field(default_factory=dict)
    n_links: int = 0
    problems: list[str] = field(default_factory=list)

    def check(self, paths: list[Path]) -> None:
        """Check pages, those that they lead to, and the style sheets of the folder."""
        waiting = list(paths)
        while waiting:
            path = waiting.pop()
            if path not in self.pages:
                self.pages[path] = read_page(path)
                waiting += self._check_page(path, self.pages[path])
        for path in sorted(self.folder.rglob("*.css")):
            self._check_style_sheet(path)

    def _check_page(self, path: Path, page: Page) -> list[Path]:
        """Check what a page asks for, and return the pages it leads to."""
        for address in page.loaded:
            self._check_loaded(path, address)
        targets = [self._check_link(path, address) for address in page.links + page.loaded]
        return [target for target in targets if target is not None and target.suffix == ".html"]

    def _check_loaded(self, path: Path, address: str) -> None:
        """Complain about what a browser would fetch from elsewhere."""
        parts = urlsplit(address)
        if parts.netloc or parts.scheme not in ("", *NOT_FILES):
            self._complain(path, f"loads {address} from the network")

    def _check_link(self, path: Path, address: str) -> Path | None:
        """Return the file that an address of this folder leads to; complain if it is not there."""
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            return None
        self.n_links += 1
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if target.is_dir():
            target = target / "index.html"
        if not target.is_relative_to(self.folder):
            self._complain(path, f"{address} leads out of the site")
        elif not target.exists():
            self._complain(path, f"{address} leads to a file that is not there")
        elif parts.fragment and target.suffix == ".html" and not self._has_anchor(target, unquote(parts.fragment)):
            self._complain(path, f"{address} leads to a place that is not on that page")
        else:
            return target
        return None

    def _has_anchor(self, path: Path, name: str) -> bool:
        """Tell whether a page has a place of this name."""
        page = self.pages.get(path) or read_page(path)
        return name in page.anchors or name == "top"

    def _check_style_sheet(self, path: Path) -> None:
        """Complain about fonts and pictures that a style sheet takes from the network, or that are not there."""
        for match in CSS_ADDRESS.finditer(path.read_text(encoding="utf-8", errors="replace")):
            address = (match["address"] or match["imported"]).strip()
            parts = urlsplit(address)
            if parts.scheme in NOT_FILES or address.startswith("#"):
                continue
            if parts.netloc or parts.scheme:
                self._complain(path, f"loads {address} from the network")
            elif not (path.parent / unquote(parts.path)).exists():
                self._complain(path, f"{address} leads to a file that is not there")

    def _complain(self, path: Path, text: str) -> None:
        """Keep a finding."""
        self.problems.append(f"{path.relative_to(self.folder)}: {text}")


def check_folder(folder: Path, paths: list[Path] | None = None) -> Site:
    """Check the pages of a folder: those given, by default all, and whatever they lead to."""
    folder = folder.resolve()
    site = Site(folder)
    site.check(sorted(folder.rglob("*.html")) if paths is None else [path.resolve() for path in paths])
    return site


def check_build(app: Any, error: Exception | None) -> None:
    """Check the pages after the build; a folder may hold pages of earlier builds, which do not count."""
    if error is not None or app.builder.name != "html":
        return
    from sphinx.util import logging

    logger = logging.getLogger(__name__)
    paths = [Path(app.builder.get_outfilename(name)) for name in [*sorted(app.env.found_docs), "genindex", "search"]]
    site = check_folder(Path(app.outdir), [path for path in paths if path.exists()])
    for problem in dict.fromkeys(site.problems):
        logger.warning(problem, type="site")
    print(f"{len(site.pages)} pages, {site.n_links} links checked, {len(set(site.problems))} broken")


def setup(app: Any) -> dict[str, Any]:
    """Register the check, after everything else that writes files."""
    app.connect("build-finished", check_build, priority=990)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    result = check_folder(Path(sys.argv[1]))
    print(*dict.fromkeys(result.problems), sep="\n")
    print(f"{len(result.pages)} pages, {result.n_links} links, {len(set(result.problems))} problems")
    sys.exit(bool(result.problems))
