"""Check the shape of experiments/: imports point one way, extras only by need_extra, nothing of it in the wheel."""

import ast
import tomllib
from pathlib import Path

import pytest

import experiments
import optfair

SOURCE = Path(experiments.__file__).parent
# A module may import what stands before it. Several on one line do not know each other.
LAYERS = [
    ["areas", "ledger", "data_plan"],
    ["catalogue"],
    ["plan"],
    ["features", "base_models"],
    ["splits", "label_correction"],
    ["walk", "alternatives"],
    ["evaluate"],
    ["pool"],
    ["run"],
    ["page"],
    ["command", "timings"],
    ["bench", "coverage", "export", "scale", "service"],
    ["overview"],
    ["__main__"],
]
INSIDE = {
    "page": [
        ["results", "templates"],
        ["style", "tables", "panels"],
        ["contests", "figures", "lookups", "page"],
        ["frontiers", "paper", "extensions", "tightening", "provenance"],
        ["comparisons", "scaling"],
        ["write"],
    ],
    "timings": [
        ["clock", "internals", "adult"],
        [
            "solver",
            "prediction",
            "baselines",
            "adult_post",
            "adult_in",
            "warm_start",
            "closed",
            "aware",
            "posterior",
            "unknown",
            "busy",
            "images",
        ],
        ["__main__"],
    ],
    "bench": [
        ["worlds", "cases", "clock", "reads"],
        ["people", "copies"],
        ["tasks", "peers", "run"],
        ["lines", "table"],
        ["growth"],
        ["page"],
        ["__main__"],
    ],
    "export": [["cases"], ["measure", "page"], ["__main__"]],
    "scale": [["rows"], ["tasks", "page"], ["__main__"]],
    "coverage": [["settings"], ["rules"], ["run", "pictures"], ["page"], ["__main__"]],
    "service": [["client", "people", "process"], ["malformed"], ["tasks", "page"], ["__main__"]],
    "overview": [["pictures"], ["facts"], ["__main__"]],
}
EXTRAS = {"matplotlib", "torch", "PIL", "pyarrow", "tqdm", "fairlearn", "skops", "polars", "lightgbm", "jinja2"}
# The modules that reach into optfair.dual; `reads` apart, because it must run with previous releases too, and those of
# `coverage`, whose problems have the posteriors of one model and the labels of each sample.
REACHING = [["timings", "internals"], ["bench", "reads"], ["coverage", "run"]]
MODULES = sorted(SOURCE.rglob("*.py"))


def module_name(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path):
    """Return full names of all imports of a file, also those inside functions."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]  # the name may be a module
    return names


def rank(name, layers):
    return {module: depth for depth, layer in enumerate(layers) for module in layer}[name]


def test_every_module_has_its_place():
    top = {module_name(path).split(".")[0] for path in MODULES} - {""}
    assert top == {module for layer in LAYERS for module in layer}
    for package, layers in INSIDE.items():
        files = {path.stem for path in (SOURCE / package).glob("*.py")} - {"__init__"}
        assert files == {module for layer in layers for module in layer}


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_point_one_way_and_extras_are_not_imported_by_statements(path):
    place = module_name(path).split(".")
    for name in imports(path):
        package, *other = name.split(".")
        assert package not in EXTRAS, f"{path.name} imports {name}; use need_extra"
        if package == "optfair" and other[:1] == ["dual"]:
            assert place in REACHING, f"{'.'.join(place)} reaches into optfair.dual"
        if package == "experiments" and place != [""]:
            depth = 0 if place[0] != other[0] else 1
            layers = INSIDE[place[0]] if depth else LAYERS
            assert rank(other[depth], layers) < rank(place[depth], layers), f"{'.'.join(place)} imports {name}"


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("plan.py", "from experiments import evaluate"),
        ("plan.py", "from experiments.run import run_all"),
        ("page/tables.py", "from experiments.page import write"),
        ("timings/solver.py", "def f():\n    from optfair import dual"),
        ("timings/solver.py", "from optfair.dual.solver import DualSolver"),
        ("page/figures.py", "def f():\n    from matplotlib import pyplot"),
    ],
)
def test_the_checks_can_fail(place, text, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    wrong = tmp_path / place
    wrong.parent.mkdir(exist_ok=True)
    wrong.write_text(text)
    with pytest.raises(AssertionError):
        test_imports_point_one_way_and_extras_are_not_imported_by_statements(wrong)
    wrong.write_text("from experiments.areas import area\nfrom optfair import metrics\n")
    test_imports_point_one_way_and_extras_are_not_imported_by_statements(wrong)


def test_the_package_does_not_know_the_experiments():
    for path in Path(optfair.__file__).parent.rglob("*.py"):
        assert "experiments" not in {name.split(".")[0] for name in imports(path)}, path


def test_the_wheel_has_no_experiments():
    project = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/optfair"]
    extra = " ".join(project["project"]["optional-dependencies"]["experiments"])
    assert all(word in extra for word in ("report", "lightgbm", "plot", "parquet", "torch"))
