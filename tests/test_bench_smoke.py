"""Everything that `optfair bench` does, tiny: all experiments, all methods, the page; then again with nothing to do."""

import json
import os
import subprocess
import sys

import pytest

from optfair.benchmark.catalogue import EXPERIMENTS, read_experiment

pytest.importorskip("torch", reason="the networks of the benchmark")
pytest.importorskip("matplotlib", reason="the pictures of the page")


# Every kind of people and every experiment; without tasks that differ from these in size only, and data slow to read.
PEOPLE = ("adult", "enem", "celeba", "images-c1", "celeba-c1", "world-3x3", "grow")


def bench(folder, *arguments):
    people = [word for name in PEOPLE for word in ("--data", name)]
    command = [sys.executable, "-m", "optfair", "bench", "--smoke", "--out", str(folder), *people, *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.slow
def test_all_experiments_run_and_the_page_is_written(tmp_path):
    done = bench(tmp_path, "--jobs", "2")
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(text) for file in tmp_path.glob("*.jsonl") for text in file.read_text("utf-8").splitlines()]
    failed = [(line["run"]["method"], line["run"]["data"], line["error"]) for line in lines if "error" in line]
    assert not failed
    page = (tmp_path / "results.md").read_text("utf-8")
    for name in EXPERIMENTS:
        assert f"## {read_experiment(name).title}" in page
    assert "these numbers mean nothing" in page and "nan" not in page
    told = done.stdout.split()
    assert str(tmp_path / "results.md") in told and all(os.path.getsize(file) > 0 for file in told)

    # The page again, from the lines alone; and the command again, which finds everything done.
    assert bench(tmp_path, "--only-page").returncode == 0
    assert (tmp_path / "results.md").read_text("utf-8") == page
    again = bench(tmp_path)
    assert again.returncode == 0 and ": 0 of " in again.stderr
    assert all(text.startswith(("note:", "tuning: 0 of")) or ": 0 of " in text for text in again.stderr.splitlines())
    assert (tmp_path / "results.md").read_text("utf-8") == page
