"""What an attack on the command line found: it must not come back."""

import os
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import Request

import numpy as np
import pandas as pd
import pytest

from optfair.cli.main import main
from optfair.datasets.download import _Redirects

AUDIT = ["--label", "y", "--prediction", "p", "--group", "g"]


def run(*argv):
    return main([str(word) for word in argv])


@pytest.fixture
def unfair(tmp_path):
    """Answers in which group b is answered 1 far more often: the audit exits 1."""
    rng = np.random.default_rng(0)
    g = rng.choice(["a", "b"], 800)
    table = pd.DataFrame(
        {"g": g, "y": rng.integers(0, 2, 800), "p": (rng.random(800) < np.where(g == "b", 0.9, 0.2)) * 1}
    )
    path = tmp_path / "unfair.csv"
    table.to_csv(path, index=False)
    return path


# -- the exit code is the verdict, whatever becomes of the output ----------------------------------------------
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("reader", ["head -1", "true"])
def test_the_verdict_survives_a_reader_that_leaves(unfair, unbuffered, reader):
    command = f"{sys.executable} -m optfair audit {unfair} {' '.join(AUDIT)} | {reader}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_the_verdict_survives_a_terminal_without_the_signs(unfair, encoding):
    command = [sys.executable, "-m", "optfair", "audit", str(unfair), *AUDIT, "--group", "y"]
    done = subprocess.run(command, env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True)
    assert done.returncode == 1 and b"FAIL" in done.stdout and done.stderr == b""


def test_a_full_disk_is_bad_input_not_a_verdict(unfair):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m optfair audit {unfair} {' '.join(AUDIT)} > /dev/full"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "No space left" in done.stderr and "Traceback" not in done.stderr


# -- tables -----------------------------------------------------------------------------------------------------
def test_an_index_of_pandas_is_a_column_or_nothing(unfair, tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    table = pd.read_csv(unfair)
    run("audit", unfair, *AUDIT)
    expected = capsys.readouterr().out.split("\n", 1)[1]
    for name, frame in {"named": table.set_index("g"), "numbers": table.sample(frac=1, random_state=0)}.items():
        path = tmp_path / f"{name}.parquet"
        frame.to_parquet(path)
        assert run("audit", path, *AUDIT) == 1
        assert capsys.readouterr().out.split("\n", 1)[1] == expected


def test_ids_kept_as_an_index_are_handed_on(tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    pytest.importorskip("skops", reason="models are saved by skops")
    table = people(300)
    path, model, out = tmp_path / "people.parquet", tmp_path / "m.skops", tmp_path / "out.parquet"
    pid = 7000 + np.random.default_rng(1).permutation(300)
    table.assign(pid=pid).set_index("pid").to_parquet(path)
    assert run("fit", path, "--label", "y", "--group", "g", "--drop", "pid", "-o", model) == 0
    assert run("predict", model, path, "-o", out) == 0
    assert pd.read_parquet(out)["pid"].tolist() == pid.tolist()
    table[table["x"] > 0].to_parquet(path)  # rows left out: pandas writes their numbers as __index_level_0__
    assert run("predict", model, path, "-o", tmp_path / "some.csv") == 0
    assert not any("index" in name for name in pd.read_csv(tmp_path / "some.csv").columns)


def test_lists_are_no_labels_and_no_groups(tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    path = tmp_path / "lists.parquet"
    pd.DataFrame({"g": [["a"], ["b"]] * 20, "y": [0, 1] * 20, "p": [0, 1] * 20}).to_parquet(path)
    assert run("audit", path, *AUDIT) == 2
    assert "column 'g' holds lists" in capsys.readouterr().err
    assert run("fit", path, "--label", "y", "--group", "g", "-o", tmp_path / "m.skops") == 2


def test_codes_with_leading_zeros_are_not_merged(tmp_path, capsys):
    rng = np.random.default_rng(0)
    codes = np.array(["1", "01", "2"])
    path = tmp_path / "codes.csv"
    table = pd.DataFrame({"g": rng.choice(codes, 900), "y": rng.choice(codes, 900), "p": rng.choice(codes, 900)})
    table.to_csv(path, index=False)
    assert run("audit", path, *AUDIT, "--tolerance", 0.5) == 0
    assert "3 classes, 3 groups" in capsys.readouterr().out


def test_whole_numbers_written_with_a_point_are_whole(tmp_path, capsys):
    path = tmp_path / "floats.csv"
    rng = np.random.default_rng(0)
    pd.DataFrame(
        {"g": rng.choice(["a", "b"], 400), "y": rng.integers(0, 2, 400) * 1.0, "p": rng.integers(0, 2, 400)}
    ).to_csv(path, index=False)
    assert run("audit", path, *AUDIT, "--tolerance", 0.5, "--outcome", "1") == 0
    assert "2 classes" in capsys.readouterr().out


def test_a_file_that_was_cut_off_is_refused(unfair, capsys):
    text = unfair.read_text()
    unfair.write_text(text + "a,1")
    assert run("audit", unfair, *AUDIT) == 2
    assert "line 802, the last, has 2 cells, the header 3; is the file complete?" in capsys.readouterr().err


def test_truth_values_of_which_one_is_never_the_label(tmp_path, capsys):
    rng = np.random.default_rng(0)
    path, q = tmp_path / "true.csv", rng.random(100)
    pd.DataFrame({"g": rng.choice(["a", "b"], 100), "y": True, "p_False": q, "p_True": 1 - q}).to_csv(path, index=False)
    assert run("audit", path, "--label", "y", "--group", "g", "--scores", "p_False,p_True", "--tolerance", 1) == 0
    assert "2 classes" in capsys.readouterr().out


def test_one_criterion_by_two_names_is_one(unfair, capsys):
    run("audit", unfair, *AUDIT, "--criterion", "dp", "--criterion", "demographic_parity")
    twice = capsys.readouterr().out
    run("audit", unfair, *AUDIT, "--criterion", "dp")
    assert capsys.readouterr().out == twice
    assert run("audit", unfair, *AUDIT, "--rows", -1) == 2
    assert "--rows -1: must be at least 0" in capsys.readouterr().err


# -- what was fitted is what is predicted -----------------------------------------------------------------------
def people(n, seed=0):
    """The kind "None" makes the class: whoever reads it as missing answers differently."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["None", "Some"], n)
    y = np.where(rng.random(n) < 0.9, np.where(kind == "None", "no", "yes"), rng.choice(["no", "yes"], n))
    code = rng.integers(5, 9, n)
    return pd.DataFrame({"kind": kind, "code": code, "x": rng.normal(size=n), "g": rng.choice(["a", "b"], n), "y": y})


def test_none_and_na_are_words_in_texts(tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    pytest.importorskip("skops", reason="models are saved by skops")
    table = people(400)
    table.to_parquet(tmp_path / "people.parquet")
    table.to_csv(tmp_path / "people.csv", index=False)
    assert run("fit", tmp_path / "people.parquet", "--label", "y", "--group", "g", "-o", tmp_path / "m.skops") == 0
    for kind in ("parquet", "csv"):
        assert run("predict", tmp_path / "m.skops", tmp_path / f"people.{kind}", "-o", tmp_path / f"{kind}.csv") == 0
    answers = [pd.read_csv(tmp_path / f"{kind}.csv")["prediction"].tolist() for kind in ("parquet", "csv")]
    assert answers[0] == answers[1]
    capsys.readouterr()
    table.assign(kind=table["kind"].where(table.index > 9)).to_csv(tmp_path / "holes.csv", index=False)
    assert run("predict", tmp_path / "m.skops", tmp_path / "holes.csv", "-o", tmp_path / "out.csv") == 0
    assert "column 'kind': is missing in 10 of 400 rows, and never was" in capsys.readouterr().err


def test_codes_are_the_same_with_and_without_a_point(tmp_path, capsys):
    pytest.importorskip("skops", reason="models are saved by skops")
    table = people(400)
    with_gap = table.assign(code=table["code"].astype(float).where(table.index > 0))  # pandas now writes 7.0
    with_gap.to_csv(tmp_path / "gap.csv", index=False)
    table.to_csv(tmp_path / "whole.csv", index=False)
    asked = ["--label", "y", "--group", "g", "--category", "code", "-o", tmp_path / "m.skops"]
    assert run("fit", tmp_path / "gap.csv", *asked) == 0
    capsys.readouterr()
    assert run("predict", tmp_path / "m.skops", tmp_path / "whole.csv", "-o", tmp_path / "out.csv") == 0
    assert "has not seen" not in capsys.readouterr().err
    table.assign(kind="?").to_csv(tmp_path / "other.csv", index=False)
    assert run("predict", tmp_path / "m.skops", tmp_path / "other.csv", "-o", tmp_path / "other-out.csv") == 2
    assert "the model has seen none of its texts, such as '?' (it knows None, Some)" in capsys.readouterr().err
    assert not (tmp_path / "other-out.csv").exists()


def test_labels_between_whole_numbers_are_not_cut(tmp_path, capsys):
    pytest.importorskip("skops", reason="models are saved by skops")
    table = people(300).assign(y=lambda t: (t["y"] == "yes") * 1)
    table.to_csv(tmp_path / "train.csv", index=False)
    table.assign(y=table["y"] + 0.4).to_csv(tmp_path / "test.csv", index=False)
    asked = ["--label", "y", "--group", "g", "--test", tmp_path / "test.csv", "-o", tmp_path / "m.skops"]
    assert run("fit", tmp_path / "train.csv", *asked) == 2
    assert "0.4" in capsys.readouterr().err and not (tmp_path / "m.skops").exists()


# -- the rest -----------------------------------------------------------------------------------------------------
def test_data_sets_in_two_parts_and_without_download(tmp_path, capsys):
    assert run("datasets", "adult", "-o", tmp_path / "train.csv", "--test", tmp_path / "test.csv") == 0
    train, test = (len(pd.read_csv(tmp_path / name)) for name in ("train.csv", "test.csv"))
    assert train + test == 48_842 and abs(test / 48_842 - 0.3) < 1e-3
    capsys.readouterr()
    assert run("datasets", "adult", "--download") == 0
    assert "nothing to download; it is in the package" in capsys.readouterr().out
    assert run("datasets", "adult", "--test", tmp_path / "test.csv") == 2
    assert "goes with -o" in capsys.readouterr().err


def test_downloads_do_not_leave_https():
    ask = Request("https://example.org/x.zip")
    with pytest.raises(HTTPError, match="not secure"):
        _Redirects().redirect_request(ask, None, 302, "Found", {}, "http://example.org/x.zip")
    assert _Redirects().redirect_request(ask, None, 302, "Found", {}, "https://example.com/x.zip") is not None


# -- a second attack ----------------------------------------------------------------------------------------------
def test_missing_labels_and_groups_stay_missing(tmp_path, capsys):
    rng = np.random.default_rng(0)
    path = tmp_path / "na.csv"
    table = pd.DataFrame({"g": rng.integers(1, 3, 200), "y": rng.integers(0, 3, 200), "p": rng.integers(0, 3, 200)})
    for column in ("g", "y"):
        holed = table[column].astype(str).where(table.index > 4, "NA")
        table.assign(**{column: holed}).to_csv(path, index=False)
        assert run("audit", path, *AUDIT) == 2
        assert run("fit", path, "--label", "y", "--group", "g", "-o", tmp_path / "m.skops") == 2
        assert "missing in 5 of 200 rows" in capsys.readouterr().err or column == "y"


def test_groups_that_are_texts_of_numbers_are_found_again(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    pytest.importorskip("skops", reason="models are saved by skops")
    table = people(300).assign(g=np.random.default_rng(2).choice(["1", "2"], 300))
    table.to_parquet(tmp_path / "p.parquet")
    table.to_csv(tmp_path / "p.csv", index=False)
    model = tmp_path / "m.skops"
    assert run("fit", tmp_path / "p.parquet", "--label", "y", "--group", "g", "--aware", "-o", model) == 0
    for name in ("p.parquet", "p.csv"):
        assert run("predict", model, tmp_path / name, "-o", tmp_path / "out.csv") == 0


def test_no_stdout_is_no_fault(unfair):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m optfair audit {unfair} {' '.join(AUDIT)} >&-"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (1, "")


def test_nameless_columns_blank_lines_and_short_lines(tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    path = tmp_path / "people.csv"
    table = people(300).assign(note=np.where(np.arange(300) % 3, "some", None))
    table.index = pd.Index(np.where(np.arange(300) % 7, "row", None))
    table.to_csv(path)
    asked = ["fit", path, "--label", "y", "--group", "g", "-o", tmp_path / "m.skops"]
    assert run(*asked) == 0
    lines = path.read_text().splitlines()
    lines[1] = lines[1].rstrip(",")  # some programs leave out empty cells at the end
    path.write_text("\n".join([*lines, "   ", ""]))
    assert run(*asked) == 0


def test_labels_of_which_one_is_a_word(tmp_path, capsys):
    rng = np.random.default_rng(0)
    path = tmp_path / "k.csv"
    y = rng.choice(["0", "1", "K"], 300)
    pd.DataFrame({"g": rng.choice(["1E2", "9E999"], 300), "y": y, "p": rng.integers(0, 2, 300)}).to_csv(
        path, index=False
    )
    assert run("audit", path, *AUDIT, "--tolerance", 0.5) == 0
    assert "3 classes, 2 groups" in capsys.readouterr().out
