"""The pages of the mathematics name code and tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE, THEORY = ROOT / "src" / "optfair", ROOT / "docs" / "theory"
NAMES = sorted(set(re.findall(r"`((?:src|tests)/[^`]+)`", (THEORY / "how_it_works.md").read_text("utf-8"))))
ROWS = [line for line in (THEORY / "glossary.md").read_text("utf-8").splitlines() if line.startswith("| $")]
FILES = sorted({name for row in ROWS for name in re.findall(r"`(\w+/\w+)`", row.split(" | ")[-1])})
METHOD_FILES = re.findall(r"^\*\*File\.\*\* `([^`]+)`", (THEORY / "baselines.md").read_text("utf-8"), re.MULTILINE)


def test_the_tables_are_read():
    assert len(NAMES) > 40 and "src/optfair/dual/kernel.py" in NAMES
    assert len(FILES) > 20 and "constraints/rows" in FILES and len(METHOD_FILES) == 8


@pytest.mark.parametrize("name", NAMES)
def test_what_the_page_names_exists(name):
    file, _, test = name.partition("::")
    assert (ROOT / file).is_file()
    if test:
        tree = ast.walk(ast.parse((ROOT / file).read_text("utf-8")))
        functions = {node.name for node in tree if isinstance(node, ast.FunctionDef)}
        assert test in functions


@pytest.mark.parametrize("name", FILES)
def test_files_of_symbols_exist(name):
    assert (SOURCE / f"{name}.py").is_file()


@pytest.mark.parametrize("name", METHOD_FILES)
def test_files_of_methods_exist(name):
    assert (SOURCE / "baselines" / name).is_file()
