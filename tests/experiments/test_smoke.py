"""Run everything that ``python -m experiments`` does, tiny: all experiments, methods and pages; then again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.catalogue import EXPERIMENTS, pages_of, read_experiment

for package in ("torch", "matplotlib", "jinja2", "lightgbm"):
    pytest.importorskip(package, reason="what the experiments need")
ROOT = Path(__file__).parents[2]
# Every kind of data and every experiment; without tasks that differ from these in size only, and data slow to read.
DATA = (
    "adult",
    "enem",
    "celeba",
    "images-c1",
    "celeba-c1",
    "world-3x3",
    "grow",
    "adult-arrays",
    "synthetic-arrays",
    "enem-logistic",
    "enem-boosted",
    "enem-network",
)


def run_command(folder, *arguments):
    data = [word for name in DATA for word in ("--data", name)]
    command = [sys.executable, "-m", "experiments", "--smoke", "--out", str(folder), *data, *arguments]
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": path}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.slow
def test_all_experiments_run_and_the_pages_are_written(tmp_path):
    result = run_command(tmp_path, "--jobs", "2")
    assert result.returncode == 0, result.stderr[-2000:]
    lines = [json.loads(text) for file in tmp_path.glob("*.jsonl") for text in file.read_text("utf-8").splitlines()]
    failed = [(line["run"]["method"], line["run"]["data"], line["error"]) for line in lines if "error" in line]
    assert not failed
    names = {file.stem for file in tmp_path.glob("*.md")}  # those of experiments that have some of these data
    assert names <= {*pages_of(read_experiment(name) for name in EXPERIMENTS)} and len(names) > 9
    pages = {name: (tmp_path / f"{name}.md").read_text("utf-8") for name in names}
    assert all("the numbers mean nothing" in text and "nan" not in text for text in pages.values())
    files = result.stdout.split()
    assert all(str(tmp_path / f"{name}.md") in files for name in names)
    assert all(os.path.getsize(file) > 0 for file in files)

    # The pages again, from the lines alone; and the command again, which finds everything done.
    assert run_command(tmp_path, "--only-page").returncode == 0
    assert {name: (tmp_path / f"{name}.md").read_text("utf-8") for name in names} == pages
    second = run_command(tmp_path)
    assert second.returncode == 0 and ": 0 of " in second.stderr
    assert all(": 0 of " in text for text in second.stderr.splitlines())
    assert {name: (tmp_path / f"{name}.md").read_text("utf-8") for name in names} == pages
