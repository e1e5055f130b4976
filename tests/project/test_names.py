"""Names are nouns: no function binds a pronoun or a participle where a noun exists."""

import ast

import pytest

from tests.project.test_layout import MODULES, module_name

VAGUE = set(
    """
    found told said asked known kept own there here how what who whom which wish wishes wished one some each both any
    every nobody everybody everyone somebody someone others judged learned wanted needed drawn seen shown moved settled
    written done gone made taken chosen now then again more less few many much enough apart aside it they them this that
    these those tried played answered loaded shared twins front live turn owed taught allowed himself itself
    """.split()  # noqa: SIM905 - a list of quoted words could not be read
)


def bound_names(function):
    """The names that a function binds: arguments and assignments."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def vague_names(text):
    functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return sorted({f"{f.name}: {name}" for f in functions for name in bound_names(f) if name.strip("_") in VAGUE})


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_names_are_nouns(path):
    assert vague_names(path.read_text(encoding="utf-8")) == []


def test_the_check_can_fail():
    assert vague_names("def f(wish):\n    found = wish\n    result = found\n") == ["f: found", "f: wish"]
