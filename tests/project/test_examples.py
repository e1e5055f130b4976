"""Run the worked examples of the folder examples."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def test_every_example_is_run_here():
    assert [path.name for path in EXAMPLES.glob("*.py")] == ["torch_module.py"]


def test_the_image_of_the_service_has_all_that_the_package_is_built_of(tmp_path):
    """Build the wheel from what the Dockerfile copies, and from nothing else; no image is built here."""
    pytest.importorskip("hatchling", reason="it builds the package")
    dockerfile = (EXAMPLES / "service" / "Dockerfile").read_text("utf-8")
    allowed = (ROOT / ".dockerignore").read_text("utf-8").split("\n")
    for line in re.findall(r"^COPY (.+)$", dockerfile, flags=re.MULTILINE):
        *sources, target = line.split()
        for name in sources:
            assert f"!{name}" in allowed, f".dockerignore leaves out {name}"
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, tmp_path / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, tmp_path / name)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert len(list((tmp_path / "dist").glob("*.whl"))) == 1


@pytest.mark.slow
def test_a_fitted_torch_module():
    pytest.importorskip("torch", reason="the example is about a torch module")
    process = subprocess.run([sys.executable, EXAMPLES / "torch_module.py"], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "plain model" in process.stdout and "decisions (hashed)" in process.stdout
