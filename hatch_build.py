"""Make the page that PyPI shows of README.md: pictures and files of the repository are not there.

Without a public address of the repository, a picture is left out and a link becomes its text and the name of the file.
With one (``repository`` in pyproject.toml) both become absolute.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"^!\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)\n+", flags=re.MULTILINE)
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)")
INLINE_PICTURE = re.compile(r"!\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def is_elsewhere(target: str) -> bool:
    """Tell whether a link works on any page: it is absolute, or leads to a heading."""
    return "://" in target or target.startswith(("#", "mailto:"))


def page_for_pypi(text: str, repository: str = "") -> str:
    """Return the text of README.md as PyPI shows it."""
    root = repository.rstrip("/")

    def link(match: re.Match[str]) -> str:
        target = match["target"]
        if is_elsewhere(target):
            return match[0]
        if root:
            return f"[{match['text']}]({root}/{target})"
        name = target.partition("#")[0]
        return match["text"] if name in match["text"].strip("`") else f"{match['text']} (`{name}` in the repository)"

    def picture(match: re.Match[str]) -> str:
        if is_elsewhere(match["target"]):
            return match[0]
        return f"![{match['text']}]({root}/{match['target']})" if root else ""

    if not root:
        text = PICTURE.sub(lambda match: match[0] if is_elsewhere(match["target"]) else "", text)
    return LINK.sub(link, INLINE_PICTURE.sub(picture, text))


class CustomMetadataHook(MetadataHookInterface):
    """Give the distribution its long description."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme of the project."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        page = page_for_pypi(text, self.config.get("repository", ""))
        metadata["readme"] = {"content-type": "text/markdown", "text": page}
