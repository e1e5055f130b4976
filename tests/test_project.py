"""The shape of the project: imports point one way, extras stay out until they are asked for."""

import ast
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import optfair
from optfair.errors import need_extra

SOURCE = Path(optfair.__file__).parent
# A module may import what stands before it. Several on one line do not know each other.
LAYERS = [
    ["errors", "parallel", "files"],
    ["labels"],
    ["features"],
    ["people", "nn"],
    ["constraints"],
    ["posterior"],
    ["decisions"],
    ["dual"],
    ["determinism"],
    ["options"],
    ["rule"],
    ["rule_file"],
    ["task"],
    ["solving"],
    ["metrics"],
    ["path"],
    ["base"],
    ["record"],
    ["estimation"],
    ["labelled", "inprocessing"],
    ["report"],
    ["post", "inprocess"],
    ["in_then_post"],
    ["model_file"],
    ["baselines"],
    ["datasets"],
    ["benchmark"],
    ["cli"],
    ["__main__"],
]
INSIDE = {
    "constraints": [["criteria", "comparisons"], ["rows"]],
    "dual": [
        ["kernel", "penalty"],
        ["problem", "canonical"],
        ["newton"],
        ["lbfgs", "spectral"],
        ["certificate"],
        ["exact"],
        ["solver"],
        ["feasibility"],
    ],
    "metrics": [["confusion"], ["influence"], ["gaps"], ["nulls"], ["intervals"], ["checks", "scoring"]],
    "estimation": [["models", "calibration"], ["recipe"]],
    "nn": [
        ["nets", "batches", "images"],
        ["training"],
        ["settings", "full_batch", "stopping", "inputs"],
        ["saved"],
        ["classifier"],
    ],
    "datasets": [
        ["dataset"],
        ["download", "entries", "world"],
        ["store"],
        ["tables"],
        ["adult", "acs", "enem", "faces", "compas"],
        ["registry", "synthetic"],
    ],
    "cli": [
        ["arguments", "console", "paths"],
        ["tables"],
        ["main", "pictures", "encoding"],
        ["audit", "datasets", "demo"],
        ["training"],
        ["fit", "predict", "frontier"],
        ["bench"],
    ],
    "baselines": [
        ["base", "registry"],
        ["posteriors", "networks"],
        ["erm", "weighted_erm", "fair_projection", "linear_post"],
    ],
    "baselines/networks": [["network"], ["adv_debias", "fair_batch", "f_divergence", "frappe"]],
    "benchmark": [
        ["areas", "ledger"],
        ["people"],
        ["catalogue"],
        ["plan"],
        ["work"],
        ["pool"],
        ["run", "page"],
    ],
    "benchmark/page": [
        ["results"],
        ["panels"],
        ["tables", "figures"],
        ["notes", "who_wins", "paper", "beyond", "about"],
        ["write"],
    ],
    "inprocessing": [["game"], ["learners", "summary", "start"], ["mixture", "checkpoint"], ["run"]],
}
EXTRAS = {"matplotlib", "torch", "PIL", "pyarrow", "tqdm", "fairlearn", "skops", "polars", "lightgbm"}
MODULES = sorted(SOURCE.rglob("*.py"))


def module_name(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path, at_module_level):
    """Full names imported by a file: by statements at its top level, or anywhere; not those for type checkers only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if at_module_level else list(ast.walk(tree))
    found = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            found += [node.module] if node.module != "optfair" else [f"optfair.{alias.name}" for alias in node.names]
    return found


def rank(name, layers):
    return {module: depth for depth, layer in enumerate(layers) for module in layer}[name]


def test_every_module_has_its_place():
    top = {module_name(path).split(".")[0] for path in MODULES} - {""}
    assert top == {module for layer in LAYERS for module in layer}
    for package, layers in INSIDE.items():
        files = {path.stem for path in (SOURCE / package).glob("*.py")} - {"__init__"}
        folders = {path.parent.name for path in (SOURCE / package).glob("*/__init__.py")}
        assert files | folders == {module for layer in layers for module in layer}


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_point_one_way(path):
    own = module_name(path).split(".")
    if own == [""]:
        return  # the package itself brings everything together
    for name in imports(path, at_module_level=True):
        if name.split(".")[0] != "optfair":
            continue
        other = name.split(".")[1:]
        # In the innermost folder that both are in.
        depth = next((d for d, pair in enumerate(zip(own, other, strict=False)) if pair[0] != pair[1]), None)
        if depth is not None:
            layers = INSIDE["/".join(own[:depth])] if depth else LAYERS
            assert rank(other[depth], layers) < rank(own[depth], layers), f"{'.'.join(own)} imports {name}"


def test_metrics_do_not_know_the_solver():
    for path in (SOURCE / "metrics").glob("*.py"):
        known = {name.split(".")[1] for name in imports(path, at_module_level=False) if name.startswith("optfair.")}
        assert known <= {"constraints", "features", "labels", "errors", "metrics"}, path.name


def test_the_proof_uses_no_solver():
    """certificate.py must not share code with what it checks."""
    known = {name for name in imports(SOURCE / "dual" / "certificate.py", at_module_level=False)}
    ours = {name for name in known if name.startswith("optfair.")}
    assert ours <= {"optfair.constraints", "optfair.decisions", "optfair.parallel", "optfair.posterior"}


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_extras_are_not_imported_by_statements(path):
    allowed = {"torch"} if path.parent.name in ("nn", "networks") else set()  # behind the doors of their __init__.py
    for name in imports(path, at_module_level=False):
        assert name.split(".")[0] not in EXTRAS - allowed, f"{path.name} imports {name}; use need_extra"


def test_the_import_check_can_fail(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import matplotlib.pyplot\nfrom optfair import solve\nfrom optfair.dual.solver import DualSolver\n"
    )
    assert imports(wrong, True) == ["matplotlib.pyplot", "optfair.solve", "optfair.dual.solver"]


def test_import_brings_no_extras():
    """Beyond what its own dependencies import where they find it (pandas looks for pyarrow)."""
    code = f"""
import sys
import numpy, pandas, scipy.optimize, scipy.sparse, sklearn, threadpoolctl
before = set(sys.modules)
import optfair
from optfair.errors import need_extra
print(sorted({{name.partition(".")[0] for name in sys.modules.keys() - before}} & set({sorted(EXTRAS)!r})))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]" and done.stderr == ""


def test_the_public_names():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|a\d+|b\d+|rc\d+)?", optfair.__version__)
    assert metadata.version("optfair") == optfair.__version__
    assert sorted(optfair.__all__) == optfair.__all__
    for name in optfair.__all__:
        assert getattr(optfair, name).__doc__, name
    assert (SOURCE / "py.typed").exists()


@pytest.mark.parametrize(
    "module, extra",
    [
        ("matplotlib", "plot"),
        ("pyarrow", "parquet"),
        ("torch", "torch"),
        ("tqdm", "cli"),
        ("skops", "save"),
        ("PIL", "torch"),
    ],
)
def test_a_missing_extra_says_how_to_get_it(module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError) as error:
        need_extra(module, "Something")
    assert str(error.value) == f'Something needs {module}: pip install "optfair[{extra}]"'
