"""Rules to export, and the scorers as other processes run them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import optfair
from optfair import solve

SCORERS = Path(optfair.__file__).parent / "portable" / "scorers"
LANGUAGES = ["python", "node"]


def make_rule(seed=0, criterion="eo", groups=("a", "b", "c"), classes=("low", "mid", "high"), **options):
    """Return posteriors (n, A, m) and a rule that is undecided on some of them."""
    rng = np.random.default_rng(seed)
    Z = rng.dirichlet(np.full(len(groups) * len(classes), 0.4), 600).reshape(-1, len(groups), len(classes))
    Z[:, 0] *= np.linspace(0.5, 1.5, len(classes))
    Z /= Z.sum(axis=(1, 2), keepdims=True)
    arguments = {"groups": list(groups), "classes": list(classes), "random_state": 0} | options
    return Z, solve(Z, criterion, 0.02, **arguments)


def command(language, folder):
    """Return how a scorer is started; skips where the language is absent."""
    if language == "python":
        return [sys.executable, "-I", str(folder / "optfair_score.py")]  # -I: nothing but the standard library's path
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    return ["node", str(folder / "optfair_score.mjs")]


def run_scorer(language, path, requests, key=None):
    """Return the finished process of a scorer that was asked, without any package of Python."""
    environment = {"PATH": os.environ["PATH"]} | ({} if key is None else {"OPTFAIR_KEY": key.hex()})
    text = "".join(json.dumps(request) + "\n" for request in requests)
    line = [*command(language, path.parent), str(path)]
    return subprocess.run(line, input=text, env=environment, capture_output=True, text=True, timeout=60)


def ask_scorer(language, path, requests, key=None):
    """Return the lines that a scorer answers."""
    process = run_scorer(language, path, requests, key)
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]
