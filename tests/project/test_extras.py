"""Extras stay out until they are asked for, and say how to get them where they are absent."""

import ast
import re
import subprocess
import sys
from importlib import metadata

import pytest

import optfair
from optfair.errors import need_extra
from tests.project.test_layout import MODULES, SOURCE, module_name

EXTRAS = {
    "matplotlib",
    "torch",
    "PIL",
    "pyarrow",
    "tqdm",
    "fairlearn",
    "skops",
    "polars",
    "lightgbm",
    "jinja2",
    "distributed",
    "onnx",
    "onnxruntime",
    "skl2onnx",
    "onnxscript",
    "starlette",
    "uvicorn",
    "prometheus_client",
}
# Folders whose ``__init__.py`` asks for an extra, so that their modules may import it.
BEHIND_DOORS = {
    "nn": {"torch"},
    "networks": {"torch"},
    "serving": {"starlette", "uvicorn", "prometheus_client"},
}


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_extras_are_not_imported_by_statements(path):
    behind_doors = BEHIND_DOORS.get(path.parent.name, set())
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        assert not {name.split(".")[0] for name in names} & (EXTRAS - behind_doors), f"{path.name}: use need_extra"


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
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]" and result.stderr == ""


def test_import_alone_brings_nothing_heavy():
    code = (
        "import sys, optfair; print([name for name in ('numpy', 'pandas', 'scipy', 'sklearn') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


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
        ("jinja2", "report"),
        ("lightgbm", "experiments"),
        ("distributed", "dask"),
        ("cloudpickle", "dask"),
        ("onnx", "onnx"),
        ("onnxruntime", "onnx"),
        ("skl2onnx", "onnx"),
        ("onnxscript", "onnx"),
        ("starlette", "serve"),
        ("uvicorn", "serve"),
        ("prometheus_client", "serve"),
    ],
)
def test_a_missing_extra_says_how_to_get_it(module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError) as error:
        need_extra(module, "Something")
    assert str(error.value) == f'Something needs {module}: pip install "optfair[{extra}]"'
