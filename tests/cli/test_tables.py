"""Tables in and out: kinds of files, damaged files, texts and numbers."""

import os

import numpy as np
import pandas as pd
import pytest

from optfair.cli.tables import read_header, read_table, write_table
from tests.cli.helpers import AUDIT, FIT, UNFAIR, make_train

PREDICTION = [*AUDIT, "--prediction", "answer"]


def test_texts_are_kept_as_written(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("code,n\n007,1\n010,2\n")
    assert read_table(str(path))["code"].tolist() == [7, 10]
    assert read_table(str(path), texts=["code"])["code"].tolist() == ["007", "010"]
    assert read_header(str(path)) == ["code", "n"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    write_table(pd.DataFrame({"a": [1]}), str(path))
    content = path.read_bytes()

    def fail(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        write_table(pd.DataFrame({"a": [2]}), str(path))
    assert path.read_bytes() == content and [file.name for file in tmp_path.iterdir()] == ["out.csv"]


# -- kinds of files ---------------------------------------------------------------------------------------------
def test_parquet_and_compressed_tables_are_read_alike(run, predictions, predictions_file, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    expected = run("audit", predictions_file, *PREDICTION)[1].split("\n", 1)[1]
    for name in ("people.parquet", "people.csv.gz", "people.tsv", "people.csv.xz"):
        write_table(predictions, str(tmp_path / name))
        assert run("audit", tmp_path / name, *PREDICTION)[1].split("\n", 1)[1] == expected, name


def test_an_index_of_pandas_is_a_column_or_nothing(run, unfair, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    table = pd.read_csv(unfair)
    expected = run("audit", unfair, *UNFAIR)[1].split("\n", 1)[1]
    for name, frame in {"named": table.set_index("g"), "numbers": table.sample(frac=1, random_state=0)}.items():
        path = tmp_path / f"{name}.parquet"
        frame.to_parquet(path)
        code, out, _ = run("audit", path, *UNFAIR)
        assert code == 1 and out.split("\n", 1)[1] == expected


def test_latin_1_and_semicolons(run, refuse, tmp_path):
    rows = "\n".join(f"{'Á' if k % 3 else 'B'};high;{'low' if k % 2 else 'high'}" for k in range(60))
    path = tmp_path / "latin.csv"
    path.write_bytes(f"race;truth;answer\n{rows}\n".encode("latin-1"))
    options = ["--encoding", "latin-1", "--separator", ";", "--tolerance", 0.5]
    code, out, _ = run("audit", path, *PREDICTION, *options)
    assert code == 0 and "Á" in out
    message = refuse("audit", path, *PREDICTION, "--encoding", "latin-1")
    assert "Is it separated by ';'? Then add --separator ';'." in message


# -- labels and groups ------------------------------------------------------------------------------------------
def test_codes_with_leading_zeros_are_not_merged(run, tmp_path):
    rng = np.random.default_rng(0)
    codes = np.array(["1", "01", "2"])
    table = pd.DataFrame({name: rng.choice(codes, 900) for name in "gyp"})
    table.to_csv(tmp_path / "codes.csv", index=False)
    code, out, _ = run("audit", tmp_path / "codes.csv", *UNFAIR, "--tolerance", 0.5)
    assert code == 0 and "3 groups, 3 classes" in out


def test_whole_numbers_written_with_a_point_are_whole(run, tmp_path):
    rng = np.random.default_rng(0)
    table = {"g": rng.choice(["a", "b"], 400), "y": rng.integers(0, 2, 400) * 1.0, "p": rng.integers(0, 2, 400)}
    pd.DataFrame(table).to_csv(tmp_path / "floats.csv", index=False)
    code, out, _ = run("audit", tmp_path / "floats.csv", *UNFAIR, "--tolerance", 0.5, "--outcome", "1")
    assert code == 0 and "2 classes" in out


def test_labels_of_which_one_is_a_word(run, tmp_path):
    rng = np.random.default_rng(0)
    table = {"g": rng.choice(["1E2", "9E999"], 300), "y": rng.choice(["0", "1", "K"], 300)}
    pd.DataFrame({**table, "p": rng.integers(0, 2, 300)}).to_csv(tmp_path / "k.csv", index=False)
    code, out, _ = run("audit", tmp_path / "k.csv", *UNFAIR, "--tolerance", 0.5)
    assert code == 0 and "2 groups, 3 classes" in out


@pytest.mark.parametrize(("column", "option"), [("g", "--group"), ("y", "--label")])
def test_missing_labels_and_groups_stay_missing(refuse, tmp_path, column, option):
    pytest.importorskip("skops", reason="models are saved by skops")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"g": rng.integers(1, 3, 200), "y": rng.integers(0, 3, 200), "p": rng.integers(0, 3, 200)})
    incomplete = table[column].astype(str).where(table.index > 4, "NA")
    path = tmp_path / "na.csv"
    table.assign(**{column: incomplete}).to_csv(path, index=False)
    message = f"{option} {column} is missing in 5 of 200 rows"
    assert message in refuse("audit", path, *UNFAIR)
    assert message in refuse("fit", path, "--label", "y", "--group", "g", "-o", tmp_path / "m.skops")


def test_lists_are_neither_labels_nor_groups(refuse, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    pytest.importorskip("skops", reason="models are saved by skops")
    path = tmp_path / "lists.parquet"
    pd.DataFrame({"g": [["a"], ["b"]] * 20, "y": [0, 1] * 20, "p": [0, 1] * 20}).to_parquet(path)
    assert "column 'g' holds lists" in refuse("audit", path, *UNFAIR)
    assert "holds lists" in refuse("fit", path, "--label", "y", "--group", "g", "-o", tmp_path / "m.skops")


# -- damaged files ----------------------------------------------------------------------------------------------
DAMAGED = {
    "empty.csv": ("", "the file is empty"),
    "header.csv": ("race,truth,answer\n", "has a header but no rows"),
    "broken.csv": ('race,truth,answer\nA,high,low\n"A,high\n', "cannot be read as CSV"),
    "long.csv": ("race,truth,answer\nA,high,low\nA,high,low,high,low\n", "cannot be read as CSV"),
    "unequal.csv": ("race,truth,answer\nA,high,low\nA,high,low,high\nA,high,low,high,low\n", "cannot be read as CSV"),
    "trailing.csv": ("race,truth,answer\nA,high,low,\nB,high,low,\n", "more cells than the header"),
    "twice.csv": ("race,truth,truth,answer\nA,high,low,low\n", "column 'truth' occurs 2 times"),
    "latin.csv": ("race,truth,answer\nÁ,high,low\n".encode("latin-1"), "is not encoded in utf-8; give its encoding"),
    "binary.csv": (bytes(range(128, 256)) * 20, "is not encoded in utf-8"),
    "all-bytes.csv": (bytes(range(256)) * 20, "--label truth: there is no such column"),  # of its header
    "people.txt": ("race,truth,answer\nA,high,low\n", "the name of a table must end in"),
    "people.csv.gz": ("race,truth,answer\nA,high,low\n", "cannot be read as CSV"),
    "other.csv": ("race,truth\nA,high\n", "--prediction answer: there is no such column"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_tables_are_refused_in_one_line(refuse, tmp_path, name):
    content, message = DAMAGED[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in refuse("audit", tmp_path / name, *PREDICTION, "-o", tmp_path / "gaps.csv")
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_file_that_was_cut_off_is_refused(refuse, unfair):
    unfair.write_text(unfair.read_text() + "a,1")
    message = "the last line (402) has 2 cells, the header has 3; is the file complete?"
    assert message in refuse("audit", unfair, *UNFAIR)


def test_damaged_parquet_is_refused(refuse, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    path = tmp_path / "people.parquet"
    make_train().to_parquet(path)
    path.write_bytes(path.read_bytes()[:-100])
    for command in ("audit", "frontier"):
        options = [*FIT, "-o", tmp_path / "out.csv"] if command == "frontier" else PREDICTION
        assert "cannot be read as Parquet" in refuse(command, path, *options)


def test_tables_too_large_for_the_machine_are_refused_before_they_are_read(refuse, tmp_path):
    path = tmp_path / "huge.csv"
    with open(path, "wb") as file:  # sparse: takes no room on the disk
        file.write(b"race,truth,answer\n")
        file.truncate(1 << 42)
    message = refuse("audit", path, *PREDICTION)
    assert "of memory" in message and "are free" in message
