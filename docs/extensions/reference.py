"""Lay out the pages of the reference: which members a class shows, in which order, and how signatures read.

The templates of ``docs/templates/autosummary`` call the functions of `autosummary_context`.
"""

from __future__ import annotations

import importlib
import inspect
import re
from enum import Enum
from typing import Any

from docutils import nodes
from sphinx import addnodes

# What a reader looks for first. Other members follow in the order of the source.
FIRST = ("fit", "fit_parts", "predict", "predict_proba", "report", "explain", "promise", "score", "score_parts")
# scikit-learn's own: its documentation describes them, and its texts link to pages that this site does not have.
INHERITED = re.compile(r"set_\w+_request|get_metadata_routing|get_params|set_params|set_output|fit_transform")
GUIDE_LINK = re.compile(r'"(?P<title>[^"\n]+)"\s+in\s+the\s+user\s+guide')


def resolve(fullname: str) -> Any:
    """Return the object that has a full name, the name of its module in front."""
    module, _, name = fullname.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError:
        return getattr(resolve(module), name)


def public_members(fullname: str) -> dict[str, Any]:
    """Return the public members of a class that have a docstring of this project, in the order they are shown."""
    members: dict[str, Any] = {}
    for base in inspect.getmro(resolve(fullname)):
        if base.__module__.partition(".")[0] != "optfair":
            continue
        for name, value in vars(base).items():
            if not name.startswith("_") and not INHERITED.fullmatch(name):
                members.setdefault(name, value)
    order = [*(name for name in FIRST if name in members), *(name for name in members if name not in FIRST)]
    return {name: members[name] for name in order}


def public_methods(fullname: str) -> list[str]:
    """Return the names of the methods that a class shows."""
    return [name for name, value in public_members(fullname).items() if is_method(value) and has_docstring(value)]


def public_properties(fullname: str) -> list[str]:
    """Return the names of the properties that a class shows."""
    return [name for name, value in public_members(fullname).items() if isinstance(value, property) and value.__doc__]


def enum_values(fullname: str) -> list[tuple[str, str]]:
    """Return the names and the values of an enumeration; of other classes nothing."""
    value = resolve(fullname)
    return [(item.name, item.value) for item in value] if issubclass(value, Enum) else []


def is_method(value: Any) -> bool:
    """Tell whether a member is called."""
    return inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)


def has_docstring(value: Any) -> bool:
    """Tell whether a method describes itself."""
    return bool(inspect.getdoc(getattr(value, "__func__", value)))


def hide_result_signature(
    app: Any, what: str, name: str, value: Any, options: Any, signature: str | None, annotation: str | None
) -> tuple[str, str | None] | None:
    """Show no signature of a class that users receive and do not construct: its docstring has no parameters."""
    if (
        signature is not None
        and what in ("class", "exception")
        and "Parameters\n----------" not in (inspect.getdoc(value) or "")
    ):
        return "", None
    return None


def link_to_guide(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Replace ``"Large data" in the user guide`` by a link to that page."""
    text = "\n".join(lines)
    pages = app.config.guide_titles

    def link(match: re.Match[str]) -> str:
        title = " ".join(match["title"].split())
        if title not in pages:
            raise ValueError(f'{name}: the docstring names the page "{title}", which guide_titles in conf.py lacks')
        return f":doc:`{title} </{pages[title]}>` in the user guide"

    lines[:] = GUIDE_LINK.sub(link, text).split("\n")


def add_anchors(app: Any, document: nodes.document) -> None:
    """Give every parameter and attribute an address, such as ``#optfair.solve.tolerance``."""
    for description in document.findall(addnodes.desc):
        signature = next((node for node in description.children if isinstance(node, addnodes.desc_signature)), None)
        content = next((node for node in description.children if isinstance(node, addnodes.desc_content)), None)
        if signature is None or content is None or not signature.get("ids"):
            continue
        known = {name for node in document.findall() if isinstance(node, nodes.Element) for name in node.get("ids", ())}
        for fields in (node for node in content.children if isinstance(node, nodes.field_list)):
            for term in fields.findall(nodes.term):
                name = next(iter(term.findall(nodes.strong)), None)
                if name is not None:
                    add_anchor(term, f"{signature['ids'][0]}.{name.astext()}", known)


def add_anchor(term: nodes.term, address: str, known: set[str]) -> None:
    """Make one entry of a list addressable, with the sign behind it that headings have."""
    if address in known:
        return
    known.add(address)
    term["ids"].append(address)
    term["classes"].append("entry")
    link = nodes.reference("", "#", refuri=f"#{address}", classes=["headerlink"], internal=True)
    term.append(link)


def setup(app: Any) -> dict[str, Any]:
    """Register what happens to docstrings and to pages."""
    app.add_config_value("guide_titles", {}, "env", dict)
    app.connect("autodoc-process-signature", hide_result_signature, priority=100)  # the first answer counts
    app.connect("autodoc-process-docstring", link_to_guide, priority=900)  # after numpydoc
    app.connect("doctree-read", add_anchors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


autosummary_context = {
    "public_methods": public_methods,
    "public_properties": public_properties,
    "enum_values": enum_values,
}
