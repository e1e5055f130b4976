"""Rules answer for rows of Z in folders as they do for arrays."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import optfair
from optfair import load_rule, solve
from optfair.storage.parts import PartError
from tests.problems import blind

pa = pytest.importorskip("pyarrow", reason="rows are in Parquet files")
pq = pytest.importorskip("pyarrow.parquet", reason="rows are in Parquet files")

N, A, M = 3_000, 3, 3
GROUPS, CLASSES = ["a", "b", "c"], ["low", "mid", "high"]
CELLS = [f"z_{group}_{name}" for group in GROUPS for name in CLASSES]
Z = blind(4, N, A, M)
U = np.random.default_rng(4).normal(0, 0.05, (N, M))  # utilities of each row
IDS = np.arange(N) // 3
TABLE = pd.DataFrame(Z.reshape(N, -1), columns=CELLS).assign(**dict(zip("uvw", U.T, strict=True)), id=IDS, place="here")


@pytest.fixture(scope="module")
def rule():
    """Return a rule that is undecided on many rows."""
    return solve(Z, "eo", 0.01, groups=GROUPS, classes=CLASSES, temperature=0.2, random_state=0, n_jobs=1)


def write(folder, table=TABLE, n_files=3, **arrays):
    """Write a table, with further columns of Arrow, as so many files."""
    folder.mkdir()
    whole = pa.Table.from_pandas(table, preserve_index=False)
    for name, array in arrays.items():
        whole = whole.append_column(name, array)
    for k, rows in enumerate(np.array_split(np.arange(len(table)), n_files)):
        pq.write_table(whole.slice(rows[0], len(rows)), folder / f"{k}.parquet", row_group_size=400)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(Z.ravel()), A * M)
    return write(tmp_path_factory.mktemp("rows") / "scores", cells=lists)


def read(folder):
    return pd.read_parquet(folder).reset_index(drop=True)


def assert_answers(rule, folder, out, Z=Z, decision="hashed", **options):
    """Check the answers in files against those for an array."""
    rule.score_parts(folder, out, decision=decision, probabilities=True, **options)
    answers = read(out)
    np.testing.assert_array_equal(answers["prediction"], rule.predict(Z, decision))
    h = answers[[f"p_{name}" for name in CLASSES]].to_numpy()
    np.testing.assert_allclose(h, rule.predict_proba(Z), rtol=0, atol=1e-12)
    return answers


@pytest.mark.parametrize("z", ["z_*", CELLS, "cells"], ids=["pattern", "names", "lists"])
def test_answers_are_those_of_an_array(rule, folder, tmp_path, z):
    answers = assert_answers(rule, folder, tmp_path / "out", z=z)
    pd.testing.assert_frame_equal(answers[TABLE.columns], TABLE)


def test_offsets_are_added(rule, folder, tmp_path):
    rule.score_parts(folder, tmp_path / "out", offset=["u", "v", "w"], probabilities=True)
    answers = read(tmp_path / "out")
    np.testing.assert_array_equal(answers["prediction"], rule.predict(Z, offset=U))
    h = answers[[f"p_{name}" for name in CLASSES]].to_numpy()
    np.testing.assert_allclose(h, rule.predict_proba(Z, offset=U), rtol=0, atol=1e-12)
    assert (answers["prediction"] != rule.predict(Z)).any()


def test_offsets_are_as_exact_as_they_stand(rule, tmp_path):
    """Large utilities whose differences would be lost in single precision, beside Z in single precision."""
    single, large = Z.astype(np.float32), 2.0**25 + np.random.default_rng(0).integers(0, 4, (N, M))
    table = pd.DataFrame(single.reshape(N, -1), columns=CELLS).assign(**dict(zip("uvw", large.T, strict=True)))
    rule.score_parts(write(tmp_path / "large", table), tmp_path / "out", offset=["u", "v", "w"], decision="argmax")
    np.testing.assert_array_equal(read(tmp_path / "out")["prediction"], rule.predict(single, "argmax", offset=large))


def test_a_file_whose_columns_differ_is_named(rule, tmp_path):
    folder = write(tmp_path / "scores", pd.DataFrame(Z.reshape(N, -1), columns=CELLS), n_files=2)
    pd.read_parquet(folder / "1.parquet").astype({CELLS[0]: str}).to_parquet(folder / "1.parquet")
    message = f"1.parquet: column {CELLS[0]!r} is of type "
    with pytest.raises(ValueError, match=re.escape(message)):
        rule.score_parts(folder, tmp_path / "out")


@pytest.mark.parametrize(
    ("columns", "keys"),
    [("id", IDS), (["place", "id"], [("here", int(k)) for k in IDS])],
    ids=["one column", "two columns"],
)
def test_keys_tell_people(rule, folder, tmp_path, columns, keys):
    rule.score_parts(folder, tmp_path / "out", keys=columns, only=True)
    answers = read(tmp_path / "out")
    assert list(answers) == ["prediction"]
    np.testing.assert_array_equal(answers["prediction"], rule.predict(Z, keys=keys))
    assert (answers["prediction"] != rule.predict(Z)).any()


def test_the_likeliest_class(rule, folder, tmp_path):
    assert_answers(rule, folder, tmp_path / "out", decision="argmax")


def test_sampled_classes_are_drawn_anew_in_each_file(rule, tmp_path):
    alike = pd.DataFrame(np.full((60, A * M), 1 / 9), columns=CELLS)
    folder = write(tmp_path / "alike", alike, n_files=60)
    assert rule.predict_proba(np.full((1, A, M), 1 / 9)).max() < 0.9
    rule.score_parts(folder, tmp_path / "out", decision="sampled")
    assert read(tmp_path / "out")["prediction"].nunique() > 1


def test_single_precision(rule, tmp_path):
    single = Z.astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(single.ravel()), A * M)
    folder = write(tmp_path / "scores", pd.DataFrame(single.reshape(N, -1), columns=CELLS), cells=lists)
    for z in ("z_*", "cells"):
        assert_answers(rule, folder, tmp_path / f"out {z[0]}", Z=single, z=z)


def test_groups_of_two_attributes(tmp_path):
    groups = pd.MultiIndex.from_product([["f", "m"], [0, 1]], names=["sex", "old"])
    rows = blind(1, 400, 4, 2)
    rule = solve(rows, "dp", 0.05, groups=groups, classes=[0, 1], random_state=0, n_jobs=1)
    names = [f"z_{a}_{i}" for a in range(4) for i in range(2)]
    folder = write(tmp_path / "scores", pd.DataFrame(rows.reshape(400, -1), columns=names))
    rule.score_parts(folder, tmp_path / "out", z=names)
    np.testing.assert_array_equal(read(tmp_path / "out")["prediction"], rule.predict(rows))


def test_a_second_call_makes_what_is_not_there(rule, folder, tmp_path):
    out = tmp_path / "out"
    assert len(rule.score_parts(folder, out).written) == 3
    os.unlink(out / "1.parquet")
    rule.predict(Z)
    again = rule.score_parts(folder, out)
    assert (again.written, again.kept) == (["1.parquet"], ["0.parquet", "2.parquet"])
    for options in ({"keys": "id"}, {"decision": "argmax"}, {"offset": ["u", "v", "w"]}, {"z": "cells"}):
        assert len(rule.score_parts(folder, out, **options).written) == 3
        assert rule.score_parts(folder, out, **options).written == []
    other = solve(Z, "eo", 0.02, groups=GROUPS, classes=CLASSES, random_state=0, n_jobs=1)
    assert len(other.score_parts(folder, out).written) == 3


AGAIN = """
import sys
from optfair import load_rule
print(len(load_rule(sys.argv[1]).score_parts(sys.argv[2], sys.argv[3]).written))
"""


def test_a_saved_rule_is_known_again_in_another_process(rule, folder, tmp_path):
    rule.save(tmp_path / "rule.json")
    loaded = load_rule(tmp_path / "rule.json")
    loaded.score_parts(folder, tmp_path / "out")
    np.testing.assert_array_equal(read(tmp_path / "out")["prediction"], rule.predict(Z))
    command = [sys.executable, "-c", AGAIN, *map(str, (tmp_path / "rule.json", folder, tmp_path / "out"))]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "7"})
    assert result.stdout == "0\n", result.stderr


def test_a_rule_solved_on_the_same_files_answers_for_them(tmp_path):
    folder = write(tmp_path / "scores")
    rule = optfair.solve(optfair.read_parquet(folder), "dp", 0.02, random_state=0)
    assert_answers(rule, folder, tmp_path / "out")
    assert rule.groups.tolist() == GROUPS and rule.classes.tolist() == CLASSES


# -- refusals ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keys": "ssn"}, "keys='ssn': is not a column of the files."),
        ({"keys": "id", "decision": "argmax"}, "keys: only decision='hashed' uses them; got decision='argmax'."),
        ({"decision": "best"}, "decision='best': must be"),
        ({"z": "y_*"}, "z='y_*': matches no column; "),
        ({"z": CELLS[:-1]}, "z: has 8 numbers a row; 3 groups and 3 classes need 9"),
        ({"z": CELLS[::-1]}, "groups: ['a', 'b', 'c'] is not the order of the columns, ['c', 'b', 'a']"),
        ({"offset": ["u", "v"]}, "offset: names 2 columns; needs one for each of 3 classes."),
        ({"z": "place"}, "z: has 1 numbers a row; 3 groups and 3 classes need 9"),
    ],
    ids=str,
)
def test_questions_that_are_refused(rule, folder, tmp_path, options, message):
    with pytest.raises(ValueError) as caught:
        rule.score_parts(folder, tmp_path / "out", **options)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_rows_that_are_refused_name_their_file(rule, tmp_path):
    table = TABLE.copy()
    table.loc[N - 1, CELLS[0]] = np.nan
    folder = write(tmp_path / "scores", table)
    with pytest.raises(PartError, match=f"^{folder}/2.parquet: Z: "):
        rule.score_parts(folder, tmp_path / "out")
    assert not (tmp_path / "out" / "2.parquet").exists()
    pq.write_table(pq.read_table(folder / "0.parquet").drop_columns([CELLS[1]]), folder / "1.parquet")
    with pytest.raises(PartError, match=f"^{folder}/1.parquet: has no column '{CELLS[1]}'"):
        rule.score_parts(folder, tmp_path / "again")


def test_a_rule_without_its_key_draws_for_nobody(rule, folder, tmp_path):
    bare = replace(rule, key=None)
    with pytest.raises(PartError, match="was loaded without its key"):
        bare.score_parts(folder, tmp_path / "out")
    bare.score_parts(folder, tmp_path / "out", decision="argmax")
