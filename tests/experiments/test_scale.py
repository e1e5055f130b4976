"""Folders of many rows: the rows are what they are called, the page is made of its lines, and the tasks run."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.scale.__main__ import LINES, main, read_lines
from experiments.scale.page import draft_page
from experiments.scale.rows import CELLS, make_rows, write_rows

ROOT = Path(__file__).parents[2]


def test_rows_are_draws_of_their_posteriors():
    frame = pd.DataFrame(make_rows(200_000, np.random.default_rng(0)))
    Z = frame[CELLS].to_numpy(dtype=float)
    np.testing.assert_allclose(Z.sum(axis=1), 1, atol=1e-5)
    observed = (frame["group"] + "_" + frame["label"]).value_counts(normalize=True)
    expected = pd.Series(Z.mean(axis=0), [name.removeprefix("z_") for name in CELLS])
    assert np.abs(observed.reindex(expected.index).fillna(0) - expected).max() < 6 * np.sqrt(0.25 / len(frame))
    assert (frame["prediction"] == frame["label"]).mean() > 1.5 / 5  # the model knows something


def test_a_folder_that_is_whole_is_left_alone(tmp_path):
    pytest.importorskip("pyarrow", reason="rows are Parquet")
    write_rows(tmp_path / "rows", 1_000)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "rows").iterdir()}
    write_rows(tmp_path / "rows", 1_000)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "rows").iterdir()}
    (tmp_path / "rows" / "_SUCCESS").unlink()  # as after an interruption
    write_rows(tmp_path / "rows", 500)
    assert len(pd.read_parquet(tmp_path / "rows")) == 500


def test_the_page_is_made_of_its_lines():
    pytest.importorskip("jinja2", reason="the template of the page")
    assert (ROOT / "docs" / "results" / "scale.md").read_text("utf-8") == draft_page(read_lines(LINES))


def test_every_way_to_solve_gave_the_same_multipliers():
    """What the page says of its lines: threads, a cache, a cluster, a cluster whose worker was killed."""
    lines = [line for line in read_lines(LINES) if "multipliers" in line]
    for n in {line["n"] for line in lines}:
        for criterion in ("dp", "eo"):
            same = {
                line["multipliers"]
                for line in lines
                if line["n"] == n and criterion in line["name"].replace(",", "").split()
            }
            assert len(same) == 1


def test_a_name_that_is_no_task(capsys):
    assert main(["nothing", "--rows", "10"]) == 2
    assert "scale: nothing: there is no such task; there are read, " in capsys.readouterr().err


@pytest.mark.slow
def test_the_tasks_run(tmp_path):
    pytest.importorskip("distributed", reason="the tasks of a cluster")
    names = ["read", "dp", "audit", "dask dp, a worker killed"]
    words = ["--rows", "2500000", "--folder", str(tmp_path), "--lines", str(tmp_path / "lines.jsonl")]
    assert main([*names, *words, "--page", str(tmp_path / "page.md")]) == 0
    lines = {line["name"]: line for line in map(json.loads, (tmp_path / "lines.jsonl").read_text().splitlines())}
    assert list(lines) == names and all(line["seconds"] > 0 for line in lines.values())
    assert lines["dp"]["multipliers"] == lines["dask dp, a worker killed"]["multipliers"]
    assert lines["dp"]["gap"] <= 1e-3 and lines["dp"]["excess"] == 0
    assert "| solve, dp, Dask, a worker killed | 2,500,000 |" in (tmp_path / "page.md").read_text("utf-8")
    shutil.rmtree(tmp_path / "2500000")
