"""The worked examples run."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_a_fitted_torch_module():
    pytest.importorskip("torch", reason="the example is about a torch module")
    done = subprocess.run([sys.executable, EXAMPLES / "torch_module.py"], capture_output=True, text=True, check=True)
    assert "plain model" in done.stdout and "decisions (hashed)" in done.stdout
