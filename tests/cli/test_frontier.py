"""``optfair frontier``: the table and the picture."""

import os
import sys

import numpy as np
import pandas as pd
import pytest

from tests.cli.helpers import FEATURES, FIT, make_train, read_codes


def test_the_frontier_is_that_of_python(run, train, python_model, tmp_path):
    make_train(seed=1).to_csv(tmp_path / "test.csv", index=False)
    options = [*FIT, "--drop", "race", "--test", tmp_path / "test.csv", "--points", "4"]
    code, out, err = run("frontier", train, *options, "-o", tmp_path / "out.csv")
    assert code == 0, err
    test = read_codes(tmp_path / "test.csv")
    frontier = python_model.frontier(4, test=(test[FEATURES], test["y"], test["sex"]))
    table = pd.read_csv(tmp_path / "out.csv")
    assert list(table.columns) == list(frontier.table.columns)
    for name in ("tolerance", "accuracy", "violation", "test_accuracy", "test_violation"):
        np.testing.assert_allclose(table[name], frontier.table[name], atol=1e-6, err_msg=name)
    assert f"area {frontier.area():.4f}" in out and f"area {frontier.area('test'):.4f}" in out and "test floor" in out
    assert len(out.splitlines()) < 20 and max(map(len, out.splitlines()[:-1])) <= 120


@pytest.mark.parametrize(("ending", "magic"), [(".png", b"\x89PNG"), (".SVG", b"<?xml"), (".pdf", b"%PDF")])
def test_pictures(run, train, tmp_path, ending, magic):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    picture = tmp_path / f"picture{ending}"
    options = [*FIT, "--points", "2", "--test-size", "0.5"]
    assert run("frontier", train, *options, "--plot", picture, "-o", tmp_path / "out.tsv")[0] == 0
    assert picture.read_bytes().startswith(magic) and (tmp_path / "out.tsv").exists()


def test_a_process_without_a_display(process, train, tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    options = [*FIT, "--points", "3", "--aware", "--group", "race", "--criterion", "eo"]
    result = process(
        "-m", "optfair", "frontier", train, *options, "--plot", "p.png", "-o", "o.parquet", DISPLAY="", MPLBACKEND=""
    )
    assert result.returncode == 0, result.stderr
    assert len(pd.read_parquet(tmp_path / "o.parquet")) == 3
    assert sorted(os.listdir(tmp_path)) == ["o.parquet", "p.png", "train.csv"]


def test_pictures_and_points_are_checked_before_any_work(refuse, train, tmp_path, monkeypatch):
    frontier = ["frontier", train, *FIT, "-o", tmp_path / "out.csv"]
    message = refuse(*frontier, "--plot", tmp_path / "picture.gif")
    assert "the name of a picture must end in .png, .svg, .pdf" in message
    assert "--points 1: must be at least 2" in refuse(*frontier, "--points", "1")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refuse(*frontier, "--plot", tmp_path / "picture.png")
    assert 'needs matplotlib: pip install "optfair[plot]"' in message
