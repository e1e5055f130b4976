"""The page of the mathematics names code and tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "theory" / "how_it_works.md"
NAMES = sorted(set(re.findall(r"`((?:src|tests)/[^`]+)`", PAGE.read_text("utf-8"))))


def test_the_table_is_read():
    assert len(NAMES) > 40 and "src/optfair/dual/kernel.py" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_what_the_page_names_exists(name):
    file, _, test = name.partition("::")
    assert (ROOT / file).is_file()
    if test:
        tree = ast.walk(ast.parse((ROOT / file).read_text("utf-8")))
        functions = {node.name for node in tree if isinstance(node, ast.FunctionDef)}
        assert test in functions
