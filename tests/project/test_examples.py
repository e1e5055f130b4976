"""Run the worked examples of the folder examples."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_every_example_is_run_here():
    assert [path.name for path in EXAMPLES.glob("*.py")] == ["torch_module.py"]


@pytest.mark.slow
def test_a_fitted_torch_module():
    pytest.importorskip("torch", reason="the example is about a torch module")
    process = subprocess.run([sys.executable, EXAMPLES / "torch_module.py"], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "plain model" in process.stdout and "decisions (hashed)" in process.stdout
