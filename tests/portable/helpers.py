"""Rules to export, and the scorers as other processes run them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

import optfair
from optfair import solve
from optfair.portable.scorer_file import scorer_module

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


def javascript(folder, body, imports="load"):
    """Return `result` of a script that runs beside the scorer in a folder."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    script = folder / f"script-{uuid4().hex}.mjs"
    script.write_text(
        f'import {{ {imports} }} from "./optfair_score.mjs";\n'
        "const attempt = (call) => { try { return call(); } catch (error) { return String(error.message); } };\n"
        f"{body}\nconsole.log(JSON.stringify(result));\n",
        encoding="utf-8",
    )
    process = subprocess.run(["node", str(script)], capture_output=True, text=True, timeout=60)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def attempt(call, *args, **options):
    """Return what a call gives, or the message with which it refuses."""
    try:
        return call(*args, **options)
    except ValueError as error:
        return str(error)


def ask_each(language, path, requests, method="probabilities", key=None):
    """Return what a scorer gives for each request, or its message; "person" is the first argument of `answer`."""
    if language == "python":
        scorer = scorer_module().load(str(path), key=key)
        calls = [(dict(request), request.get("person")) for request in requests]
        if method == "answer":
            return [attempt(scorer.answer, who, **{k: v for k, v in r.items() if k != "person"}) for r, who in calls]
        return [attempt(scorer.probabilities, **request) for request, _ in calls]
    secret = "null" if key is None else f"Buffer.from('{key.hex()}', 'hex')"
    call = "scorer.probabilities(request)"
    if method == "answer":
        call = "(({ person, ...posterior }) => scorer.answer(person, posterior))(request)"
    body = f"""
const scorer = load({json.dumps(str(path))}, {{ key: {secret} }});
const result = {json.dumps(requests)}.map((request) => attempt(() => {call}));"""
    return javascript(path.parent, body)
