"""What a message advises exists: every option of the command, every argument and every name of the package in it."""

import argparse
import ast
import importlib
import inspect
import re

import pytest

import optfair
from optfair.cli.arguments import make_parser
from tests.project.test_layout import MODULES, module_name

# Arguments of others that messages speak of, by who takes them.
FOREIGN = {
    "sparse_output": "scikit-learn's OneHotEncoder",
    "handle_unknown": "scikit-learn's OneHotEncoder",
    "OPTFAIR_DATA": "the environment",
    "CLASS": "optfair audit --scores",
    "NAME": "optfair plan --groups",
}


def is_message(node):
    """Whether a node raises an error or warns."""
    if isinstance(node, ast.Raise):
        return isinstance(node.exc, ast.Call)
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("warn", "check_not_missing")
    )


def messages(path):
    """The words of each message of a module, without the values that are filled in."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if is_message(node):
            call = node.exc if isinstance(node, ast.Raise) else node
            for argument in call.args:
                parts = [
                    n.value for n in ast.walk(argument) if isinstance(n, ast.Constant) and isinstance(n.value, str)
                ]
                if parts:
                    yield node.lineno, " ".join(parts)


MESSAGES = [(module_name(path), line, text) for path in MODULES for line, text in messages(path)]


def options_of(parser):
    """All options of the command and its sub-commands."""
    options = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            options |= {name for sub in action.choices.values() for name in options_of(sub)}
    return options


def parameters():
    """The names of all parameters of functions and methods of optfair, and of its data classes."""
    names = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
                arguments = node.args
                names |= {a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
            elif isinstance(node, ast.ClassDef):
                names |= {
                    n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
                }
    return names


def test_options_exist():
    options = options_of(make_parser())
    for module, line, text in MESSAGES:
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text):
            assert option in options, f"{module}:{line}: {option}"


def test_arguments_exist():
    known = parameters() | set(FOREIGN)
    for module, line, text in MESSAGES:
        for name in re.findall(r"(?<![\w.])([A-Za-z_]\w*)=(?=[\w'\[(.,;<]|$)", text):
            assert name in known, f"{module}:{line}: {name}="


@pytest.mark.parametrize("module, line, text", [m for m in MESSAGES if "optfair." in m[2]])
def test_names_of_the_package_exist(module, line, text):
    for name in re.findall(r"optfair\.([a-z_]+(?:\.\w+)*)", text):
        owner, _, attribute = f"optfair.{name}".rpartition(".")
        if name == "nn" or owner == "optfair.nn":
            pytest.importorskip("torch", reason="optfair.nn needs it")
        assert hasattr(importlib.import_module(owner), attribute) or attribute in optfair.__all__, (
            f"{module}:{line}: {name}"
        )


def test_estimators_take_what_the_doors_advise():
    """Checks that all estimators share speak of these."""
    for name in ("OptFairPost", "OptFairIn"):
        assert {"missing", "sensitive_features", "awareness"} <= set(
            inspect.signature(getattr(optfair, name)).parameters
        )


def test_the_checks_can_fail(tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text("def f():\n    raise ValueError(f'--no-such {1} wrong_name=3')\n")
    assert list(messages(file)) == [(2, "--no-such   wrong_name=3")]
