"""The shape of the project: imports point one way, also those inside functions; every room has its place."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import optfair

SOURCE = Path(optfair.__file__).parent
ROOT = SOURCE.parent.parent
# A room may import from those before it. `docs` of the layout: CONTRIBUTING.md.
ROOMS = [
    "errors",
    "utils",
    "inputs",
    "constraints",
    "dual",
    "storage",
    "metrics",
    "monitoring",
    "portable",
    "rule",
    "posteriors",
    "inprocessing",
    "reporting",
    "export",
    "estimators",
    "synthetic",
    "nn",
    "baselines",
    "datasets",
    "serving",
    "cli",
    "__main__",
]
MODULES = sorted(SOURCE.rglob("*.py"))


def module_name(path):
    """optfair.rule.driver for src/optfair/rule/driver.py; the name of a package for its __init__.py."""
    parts = ("optfair", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(path) for path in MODULES}


def is_for_type_checkers(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imported(path, names=NAMES):
    """The modules of ours that a file imports, at its top or inside functions; not those for type checkers only."""
    modules = set()
    pending = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if is_for_type_checkers(node):
            continue
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names if alias.name in names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            modules |= {source(node.module, alias.name, names) for alias in node.names} & names
        pending += list(ast.iter_child_nodes(node))
    return modules - {"optfair"}  # the package itself imports nothing until it is asked for a name


def source(module, name, names):
    """The module that `from module import name` imports: a module, where the package has a name from, or its own."""
    if f"{module}.{name}" in names:
        return f"{module}.{name}"
    return getattr(getattr(optfair, name), "__module__", module) if module == "optfair" else module


GRAPH = {module_name(path): imported(path) for path in MODULES}


def room(module):
    return module.split(".")[1]


def test_every_room_is_in_the_list():
    assert {room(name) for name in NAMES - {"optfair"}} == set(ROOMS)


@pytest.mark.parametrize("name", sorted(NAMES - {"optfair"}))
def test_imports_point_one_way(name):
    for other in GRAPH[name]:
        if room(other) != room(name):
            assert ROOMS.index(room(other)) < ROOMS.index(room(name)), f"{name} imports {other}"


def test_no_module_imports_itself_in_a_circle():
    # A package brings its modules together; they do not import it, but their own neighbours.
    graph = {name: imports for name, imports in GRAPH.items() if name != "optfair"}
    assert list(TopologicalSorter(graph).static_order())


IMPORTS = {
    "a name of the package": ("from optfair import FairRule", {"optfair.rule.rule"}),
    "names and modules": (
        "from optfair import OptFairPost, __version__, metrics",
        {"optfair.estimators.post", "optfair.metrics"},
    ),
    "a module": ("from optfair.rule import decisions", {"optfair.rule.decisions"}),
    "a name beside a module": (
        "from optfair.estimators import OptFairIn, post",
        {"optfair.estimators", "optfair.estimators.post"},
    ),
    "in a function": ("def f():\n    from optfair.dual.solver import DualSolver", {"optfair.dual.solver"}),
    "a package, in a function": ("def f():\n    import optfair.nn", {"optfair.nn"}),
    "for type checkers": ("if TYPE_CHECKING:\n    import optfair.cli.main", set()),
    "the version": ("from optfair import __version__", set()),
}


@pytest.mark.parametrize("kind", IMPORTS)
def test_no_import_escapes_the_checks(kind, tmp_path):
    text, modules = IMPORTS[kind]
    wrong = tmp_path / "wrong.py"
    wrong.write_text(text)
    assert imported(wrong) == modules


def test_the_checks_can_fail():
    with pytest.raises(CycleError):
        list(TopologicalSorter({"a": {"b"}, "b": {"a"}}).static_order())


def test_metrics_know_neither_solver_nor_rule():
    for name in (name for name in NAMES if room(f"{name}.x") == "metrics"):
        assert {room(other) for other in GRAPH[name]} <= {"constraints", "inputs", "errors", "utils", "metrics"}, name


def test_the_proof_uses_no_solver():
    """certificate.py must not share code with what it checks."""
    assert GRAPH["optfair.rule.certificate"] <= {
        "optfair.constraints",
        "optfair.constraints.rows",
        "optfair.dual.measure",
        "optfair.rule.decisions",
        "optfair.utils.html",
    }


def test_the_problem_knows_no_algorithm():
    assert not {name for name in GRAPH["optfair.rule.problem"] if name.split(".")[-1] in ("solver", "newton", "lbfgs")}


def test_the_layout_in_contributing_is_this_one():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `([a-z_]+)/?` \|", text, flags=re.M)
    assert [name for name in table if name in ROOMS] == ROOMS[:-1]


def test_only_four_things_stand_in_the_hall():
    assert {path.name for path in SOURCE.iterdir() if path.is_file()} == {
        "__init__.py",
        "__main__.py",
        "errors.py",
        "py.typed",
    }


def test_modules_are_short_enough_to_be_read():
    """Code without docstrings, blank lines and comments; public classes have long docstrings."""
    for path in MODULES:
        assert code_lines(path) <= 330, f"{path}: {code_lines(path)} lines of code"


def code_lines(path):
    text = path.read_text(encoding="utf-8")
    lines = {
        number for number, line in enumerate(text.splitlines(), 1) if line.strip() and not line.strip().startswith("#")
    }
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and body
            and ast.get_docstring(node) is not None
        ):
            lines -= set(range(body[0].lineno, body[0].end_lineno + 1))
    return len(lines)
