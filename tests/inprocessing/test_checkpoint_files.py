"""Test that files which are no checkpoints, damaged, or made to run a command are refused, and run nothing."""

import functools
import io
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from optfair import ModelFileError
from tests.inprocessing.checkpoint_helpers import (
    COLUMNS,
    HARMLESS,
    MaliciousObject,
    arrays,
    execute,
    fit,
    second_column,
    with_checkpoint,
)
from tests.inprocessing.helpers import XA, neighbours_by_function, same_run

skops = pytest.importorskip("skops.io", reason="checkpoints of scikit-learn's models need skops")
pytestmark = pytest.mark.filterwarnings(*HARMLESS)


@pytest.fixture(scope="module")
def whole():
    """Return the run of the file, without a file."""
    return fit(with_checkpoint(None, rounds=3))


# -- files that are no checkpoints -------------------------------------------------------------------------
def test_files_of_another_kind_are_refused_and_left_as_they_are(tmp_path):
    path = tmp_path / "run.checkpoint"
    for content in (b"hello", os.urandom(5000), pickle.dumps({"rounds": 3}), b"SQLite format 3\0" + bytes(84)):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"^run\.checkpoint: not a checkpoint \(") as error:
            fit(with_checkpoint(path))
        assert "\n" not in str(error.value) and path.read_bytes() == content
    with pytest.raises(
        ModelFileError,
        match=r"no such folder.nowhere: the checkpoint cannot be written \(unable to open database file\); free the",
    ):
        fit(with_checkpoint(tmp_path / "no such folder" / "nowhere"))
    path.write_bytes(b"")
    assert fit(with_checkpoint(path, rounds=2)).n_fits_ == 3  # an empty file is a new one


def test_databases_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "run.checkpoint"
    for table in ("run (name)", "rounds (name)", "run (format, mark, start)"):
        path.unlink(missing_ok=True)
        execute(path, f"CREATE TABLE {table}")
        with pytest.raises(ModelFileError, match=r"^run\.checkpoint: not a checkpoint \("):
            fit(with_checkpoint(path))
    path.unlink()
    execute(path, "CREATE TABLE books (title)")  # has no table of ours: the run is added
    fit(with_checkpoint(path, rounds=2))


# -- damaged files -----------------------------------------------------------------------------------------
def test_a_truncated_file_is_refused_or_complete(checkpoint_file, checkpoint_content, whole):
    for share in (0.1, 0.3, 0.6, 0.9):
        checkpoint_file.write_bytes(checkpoint_content[: int(share * len(checkpoint_content))])
        try:
            model = fit(with_checkpoint(checkpoint_file, rounds=3))
        except ModelFileError as error:
            assert str(error).startswith("run.checkpoint: ") and "\n" not in str(error)
        else:
            same_run(model, whole, XA)


def test_a_file_with_one_wrong_byte_is_refused_or_complete(checkpoint_file, checkpoint_content, whole):
    refused = 0
    for position in np.random.default_rng(0).choice(len(checkpoint_content), 40, replace=False):
        damaged = bytearray(checkpoint_content)
        damaged[position] ^= 0xFF
        checkpoint_file.write_bytes(bytes(damaged))
        try:
            model = fit(with_checkpoint(checkpoint_file, rounds=3))
        except ModelFileError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            np.testing.assert_array_equal(model.trace_.multipliers, whole.trace_.multipliers)
            np.testing.assert_array_equal(model.predict_proba(XA), whole.predict_proba(XA))
    assert refused > 5


SET_START, SET_NUMBERS = "UPDATE run SET start = ?", "UPDATE rounds SET numbers = ? WHERE round_index = 1"


def numbers(path, **other):
    """Return the numbers of the second round as bytes, some of them replaced."""
    with closing(sqlite3.connect(path)) as db:
        (content,) = db.execute("SELECT numbers FROM rounds WHERE round_index = 1").fetchone()
    with np.load(io.BytesIO(content)) as recorded:
        return arrays(**{**recorded, **other})


OTHER_SIZE = {"multipliers": np.ones(2), "cap": np.array(1.0), "seed": np.array(0), "accuracy": np.full(2, 0.5)}
TAMPERED = {
    "another start": lambda path: execute(path, SET_START, (arrays(hello=np.ones(3)),)),
    "a start of another size": lambda path: execute(path, SET_START, (arrays(**OTHER_SIZE),)),
    "text as start": lambda path: execute(path, "UPDATE run SET start = 'hello'"),
    "no start": lambda path: execute(path, "UPDATE run SET start = NULL"),
    "a number as plain model": lambda path: execute(path, "UPDATE run SET plain = 3"),
    "no model": lambda path: execute(path, "UPDATE rounds SET model = x''"),
    "no numbers": lambda path: execute(path, "UPDATE rounds SET numbers = NULL"),
    "a round left out": lambda path: execute(path, "DELETE FROM rounds WHERE round_index = 1"),
    "other multipliers": lambda path: execute(path, SET_NUMBERS, (numbers(path, lam=np.zeros(6)),)),
    "another shape": lambda path: execute(path, SET_NUMBERS, (numbers(path, J=np.zeros(3)),)),
    "a part missing": lambda path: execute(path, SET_NUMBERS, (arrays(lam=np.zeros(6)),)),
    "another format": lambda path: execute(path, "UPDATE run SET format = 'optfair training 99'"),
    "another mark": lambda path: execute(path, "UPDATE run SET mark = 'hello'"),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_tampered_files_are_refused(kind, checkpoint_file):
    TAMPERED[kind](checkpoint_file)
    with pytest.raises(
        ModelFileError, match=r"^run\.checkpoint: (cannot be read \(|belongs to a run|was written by another version)"
    ) as error:
        fit(with_checkpoint(checkpoint_file, rounds=3))
    assert "\n" not in str(error.value)


def exchange_models(path):
    """Give each of two rounds the model of the other; their multipliers stay."""
    with closing(sqlite3.connect(path)) as db, db:
        models = [db.execute("SELECT model FROM rounds WHERE round_index = ?", (k,)).fetchone()[0] for k in (1, 2)]
        for k, model in zip((2, 1), models, strict=True):
            db.execute("UPDATE rounds SET model = ? WHERE round_index = ?", (model, k))
    assert models[0] != models[1]


def test_models_of_other_rounds_are_refused(checkpoint_file):
    exchange_models(checkpoint_file)
    words = r"^run\.checkpoint: cannot be read \(round 1 has the model or the state of another one\); remove it"
    with pytest.raises(ModelFileError, match=words):
        fit(with_checkpoint(checkpoint_file, rounds=3))


def test_another_state_of_the_optimizer_is_refused(checkpoint_file):
    execute(checkpoint_file, "UPDATE run SET state = x'00'")
    with pytest.raises(ModelFileError, match="round 2 has the model or the state of another one"):
        fit(with_checkpoint(checkpoint_file, rounds=3))


ENDLESS = (
    "WITH RECURSIVE n(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM n) SELECT k, NULL AS numbers, NULL AS model FROM n"
)
SCHEMAS = {
    "an endless view": ("DROP TABLE rounds", f"CREATE VIEW rounds (round_index, numbers, model) AS {ENDLESS}"),
    "a trigger": ("CREATE TRIGGER more AFTER INSERT ON rounds BEGIN DELETE FROM run; END",),
    "another table": ("DROP TABLE rounds", "CREATE TABLE rounds (round_index, numbers, model, more)"),
    "many tables": tuple(f"CREATE TABLE t{k} (x)" for k in range(120)),
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_what_is_no_plain_table_is_refused_at_once(kind, checkpoint_file):
    for statement in SCHEMAS[kind]:
        execute(checkpoint_file, statement)
    with pytest.raises(ModelFileError, match=r"^run\.checkpoint: not a checkpoint \(.* is not one of ours\)\.$"):
        fit(with_checkpoint(checkpoint_file, rounds=3))


def test_a_forged_tree_in_a_round_is_refused(tmp_path):
    """Check that what `load_model` asks of a model is asked of those of rounds too."""
    path = tmp_path / "run.checkpoint"
    estimator = DecisionTreeClassifier(max_depth=2, random_state=0)
    fit(with_checkpoint(path, estimator, rounds=2))
    with closing(sqlite3.connect(path)) as db:
        content = db.execute("SELECT plain FROM run").fetchone()[0]
    model = skops.loads(content, trusted=["sklearn.tree._tree.Tree"])
    nodes = model.tree_.__getstate__()
    nodes["nodes"]["left_child"][0] = 10**9
    model.tree_.__setstate__(nodes)
    execute(path, "UPDATE run SET plain = ?", (skops.dumps(model),))
    with pytest.raises(ModelFileError, match=r"^run\.checkpoint: cannot be read \(Tree: a child is not a later node\)"):
        fit(with_checkpoint(path, estimator, rounds=2))


# -- disks that refuse -------------------------------------------------------------------------------------
def test_a_checkpoint_that_another_process_holds_is_no_damaged_one(checkpoint_file, monkeypatch):
    connect = functools.partial(sqlite3.connect, timeout=0.01)
    monkeypatch.setattr("optfair.inprocessing.checkpoint.sqlite3.connect", connect)
    with closing(sqlite3.connect(checkpoint_file, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(
            ModelFileError, match=r"^run\.checkpoint: the checkpoint cannot be written \(database is locked"
        ):
            fit(with_checkpoint(checkpoint_file, rounds=3))


FULL_DISK = """
import resource, signal, sys
from optfair import ModelFileError
from tests.inprocessing.checkpoint_helpers import fit, with_checkpoint
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    fit(with_checkpoint(sys.argv[1], rounds=9))
except ModelFileError as error:
    sys.exit(str(error))
"""


def test_a_full_disk_is_called_so(tmp_path):
    """A process that may write no more than 20 kB to a file, which SQLite reports as it does a full disk."""
    pytest.importorskip("resource")
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FULL_DISK, str(tmp_path / "run.checkpoint")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 1
    assert process.stderr.startswith("run.checkpoint: the checkpoint cannot be written ("), process.stderr
    assert process.stderr.rstrip().endswith("; free the disk or the file, or name another file.")


# -- files that are made to run a command ------------------------------------------------------------------
@pytest.mark.parametrize("column", COLUMNS)
def test_pickles_are_not_opened(column, checkpoint_file, tmp_path):
    marker = tmp_path / "ran"
    pickled = pickle.dumps(MaliciousObject(marker))
    array = io.BytesIO()
    np.save(array, np.array([MaliciousObject(marker)], dtype=object), allow_pickle=True)
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        for name in ("multipliers", "cap", "seed", "accuracy", "lam", "J", "step", "next", "coef"):
            archive.writestr(f"{name}.npy", array.getvalue())
        archive.writestr("schema.json", pickled)
    for content in (pickled, array.getvalue(), zipped.getvalue()):
        execute(checkpoint_file, f"UPDATE {COLUMNS[column]} SET {column} = ?", (content,))
        with pytest.raises(ModelFileError, match=r"^run\.checkpoint: cannot be read \("):
            fit(with_checkpoint(checkpoint_file, rounds=3))
        assert not marker.exists()
    assert os.system(f"touch {marker}") == 0 and marker.exists()  # it would have worked


def archive_that_calls(module, function):
    """Return a skops archive of a Pipeline that calls a function of a module when it predicts."""
    model = make_pipeline(FunctionTransformer(second_column), LogisticRegression().fit(XA, np.arange(len(XA)) % 2))
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(skops.dumps(model))) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "schema.json":
                for node in nodes(schema := json.loads(data)):
                    if node.get("__loader__") == "FunctionNode":
                        node |= {"__module__": module, "__class__": function}
                data = json.dumps(schema).encode()
            new.writestr(name, data)
    return out.getvalue()


def nodes(part):
    """Yield all mappings in a tree of lists and mappings."""
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    if isinstance(part, list):
        for value in part:
            yield from nodes(value)


@pytest.mark.parametrize(
    "module, function",
    [
        ("os", "system"),
        ("subprocess", "check_output"),
        ("sklearn.utils._testing", "check_output"),  # modules of scikit-learn that have imported such functions
        ("sklearn.datasets._rcv1", "remove"),
        ("sklearn.utils.discovery", "import_module"),
    ],
)
@pytest.mark.parametrize("column", ["plain", "model"])
def test_models_that_name_functions_are_refused(column, module, function, checkpoint_file):
    content = archive_that_calls(module, function)
    execute(checkpoint_file, f"UPDATE {COLUMNS[column]} SET {column} = ?", (content,))
    with pytest.raises(ModelFileError) as error:
        fit(with_checkpoint(checkpoint_file, rounds=3))
    assert str(error.value).startswith("run.checkpoint: cannot be read (holds types that are not of the estimator: ")
    assert f".{function})" in str(error.value)


def test_functions_that_the_user_gave_the_estimator_are_its_own(tmp_path):
    """The same file is refused to a user who did not give them."""
    path, other = tmp_path / "run.checkpoint", tmp_path / "other.checkpoint"
    options = {"rounds": 2, "start": "zero", "without_weights": "resample"}
    model = with_checkpoint(path, neighbours_by_function(), **options)
    fit(model)
    assert fit(model).n_fits_ == 0
    with closing(sqlite3.connect(path)) as db:
        (content,) = db.execute("SELECT plain FROM run").fetchone()
    model = with_checkpoint(other, KNeighborsClassifier(3), **options)
    fit(model)
    execute(other, "UPDATE run SET plain = ?", (content,))
    message = r"not of the estimator: tests\.inprocessing\.helpers\.city_block_distance\)"
    with pytest.raises(ModelFileError, match=message):
        fit(model)
