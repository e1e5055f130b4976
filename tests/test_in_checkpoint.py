"""The checkpoint of a run: killed anywhere it goes on to the same multipliers, and its file runs nothing."""

import io
import json
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from optfair import ModelFileError, OptFairIn

# Few rounds, to save time: how close they come is the subject of few tests.
pytestmark = pytest.mark.filterwarnings("ignore:tolerance. training ended outside")

pytest.importorskip("skops", reason="checkpoints of scikit-learn's models need skops")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with threadpool_limits(1):
        yield


def people(n=200, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    x = rng.standard_normal((n, 2)) + np.c_[1.2 * sex, np.zeros(n)]
    y = np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), [0, 1.2])
    return x, np.array(list("abc"))[y], np.array(["f", "m"])[sex]


X, Y, SEX = people()
ROUNDS = 7


def quick(path, estimator=None, **options):
    base = LogisticRegression() if estimator is None else estimator
    settings = {"rounds": ROUNDS, "random_state": 0, "tolerance": 0.02, "step": 0.4, "max_multiplier": 4.0}
    return OptFairIn(base, checkpoint=path, **settings | options)


def fit(model, **more):
    with warnings.catch_warnings():
        for harmless in ("Stochastic Optimizer", "estimator: remembers", "max_multiplier"):
            warnings.filterwarnings("ignore", harmless)
        return model.fit(X, Y, sensitive_features=SEX, **more)


def written(path):
    """How many rounds are in the file."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute("SELECT count(*) FROM rounds").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def change(path, *statement):
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(*statement)


def cut(path, rounds):
    """The file as it was after so many rounds (of learners whose state is their last model)."""
    change(path, "DELETE FROM rounds WHERE turn >= ?", (rounds,))


def same(one, other):
    """Bit for bit."""
    np.testing.assert_array_equal(one.trace_.multipliers, other.trace_.multipliers)
    np.testing.assert_array_equal(one.trace_.confusions, other.trace_.confusions)
    np.testing.assert_array_equal(one.trace_.steps, other.trace_.steps)
    np.testing.assert_array_equal(one.trace_.next, other.trace_.next)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_array_equal(one.plain_(X), other.plain_(X))
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


# -- a run that is killed -----------------------------------------------------------------------------------
SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {folder!r})
import test_in_checkpoint as t
t.fit(t.long_run({engine!r}, {path!r}))
"""
LONG = 30


def long_run(engine, path):
    if engine == "torch":
        from optfair.nn import TorchClassifier

        net = TorchClassifier("mlp", hidden=(8,), dropout=0.3, epochs=3, batch_size=32, random_state=3)
        return quick(path, net, rounds=LONG, start="zero")
    return quick(path, MLPClassifier((6,), max_iter=10), rounds=LONG, output="deterministic")


@pytest.mark.parametrize("engine", ["scikit-learn", "torch"])
def test_a_killed_run_goes_on_as_if_nothing_had_happened(engine, tmp_path):
    """A real process, killed without warning at a random round; this one goes on. All multipliers bit for bit."""
    if engine == "torch":
        pytest.importorskip("torch")
    path = tmp_path / "run.checkpoint"
    places = {"folder": str(Path(__file__).parent), "path": str(path), "engine": engine}
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT.format(**places)]
    last = int(np.random.default_rng().integers(1, 20))
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    limit = time.monotonic() + 120
    while written(path) < last and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    _, complaint = process.communicate()
    assert process.returncode == -signal.SIGKILL, complaint.decode()
    done = written(path)
    assert last <= done < LONG
    found, whole = fit(long_run(engine, path)), fit(long_run(engine, None))
    same(found, whole)
    assert found.n_fits_ <= whole.n_fits_ - done and written(path) == LONG


ESTIMATORS = {
    "logistic": lambda: LogisticRegression(),
    "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "gradient": lambda: SGDClassifier(loss="log_loss"),
    "forest": lambda: RandomForestClassifier(3, max_depth=3),
    "network": lambda: MLPClassifier((4,), max_iter=20),
    "neighbours": lambda: KNeighborsClassifier(5),
}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_from_every_round_to_the_same_end(kind, tmp_path):
    options = {"without_weights": "resample", "step": "adaptive", "start": "zero" if kind != "logistic" else "post"}
    whole = fit(quick(None, ESTIMATORS[kind](), **options))
    path = tmp_path / "run.checkpoint"
    first = fit(quick(path, ESTIMATORS[kind](), **options))
    same(first, whole)
    for rounds in (5, 1, 0):
        cut(path, rounds)
        again = fit(quick(path, ESTIMATORS[kind](), **options))
        same(again, whole)
        assert again.n_fits_ == whole.n_fits_ - rounds - (1 if options["start"] == "post" or rounds == 0 else 0)
    change(path, "UPDATE run SET plain = x''")  # killed during plain training
    cut(path, 0)
    same(fit(quick(path, ESTIMATORS[kind](), **options)), whole)


@pytest.mark.parametrize("output", ["mixture", "deterministic"])
def test_a_finished_run_is_there_at_once(output, tmp_path):
    path = tmp_path / "run.checkpoint"
    first = fit(quick(path, output=output))
    again = fit(quick(path, output=output))
    same(first, again)
    assert again.n_fits_ == (0 if output == "mixture" else 1)
    assert str(again.training_) == str(first.training_)
    other = fit(quick(path, output=output, decision="argmax", progress=False))  # what the training does not depend on
    assert other.n_fits_ == again.n_fits_
    assert [p.name for p in tmp_path.iterdir()] == ["run.checkpoint"]


def test_a_run_that_stopped_early_has_stopped(tmp_path):
    path = tmp_path / "run.checkpoint"
    first = fit(quick(path, rounds=30, stop_below=0.2, start="zero"))
    assert len(first.trace_) < 30
    again = fit(quick(path, rounds=30, stop_below=0.2, start="zero"))
    same(first, again)
    assert again.n_fits_ == 0


def test_without_a_seed_the_run_keeps_its_own(tmp_path):
    """random_state=None: rows are drawn with a seed that is in the file."""
    path = tmp_path / "run.checkpoint"
    options = {"without_weights": "resample", "random_state": None, "start": "zero"}
    first = fit(quick(path, KNeighborsClassifier(5), **options))
    cut(path, 2)
    again = fit(quick(path, KNeighborsClassifier(5), **options))
    np.testing.assert_array_equal(again.trace_.multipliers, first.trace_.multipliers)
    other = fit(quick(None, KNeighborsClassifier(5), **options))
    assert (other.trace_.confusions != first.trace_.confusions).any()


# -- whose file it is ---------------------------------------------------------------------------------------
OTHERS = {
    "tolerance": {"tolerance": 0.03},
    "rounds": {"rounds": ROUNDS + 1},
    "seed": {"random_state": 1},
    "criterion": {"criterion": "eo"},
    "start": {"start": "zero"},
    "a setting of the estimator": {"estimator": LogisticRegression(C=2.0)},
    "another estimator": {"estimator": GaussianNB()},
    "costs": {"costs": 1 - np.eye(3)},
    "held out": {"held_out": 0.2},
}


@pytest.mark.parametrize("what", OTHERS)
def test_other_settings_are_refused(what, tmp_path):
    path = tmp_path / "run.checkpoint"
    fit(quick(path, rounds=2) if what != "rounds" else quick(path))
    before = path.read_bytes()
    settings = {"rounds": 2} | OTHERS[what]
    with pytest.raises(ModelFileError) as caught:
        fit(quick(path, **settings))
    assert str(caught.value) == (
        "run.checkpoint: belongs to a run with other data or settings (all but decision, mixture and output "
        "must be the same); remove it, or name another file."
    )
    assert path.read_bytes() == before


def test_other_people_are_refused(tmp_path):
    path = tmp_path / "run.checkpoint"
    model = quick(path, rounds=2)
    fit(model)
    other_x, other_y, other_sex = X.copy(), Y.copy(), SEX.copy()
    other_x[7, 1] += 1e-9
    other_y[7], other_sex[7] = ("a" if Y[7] != "a" else "b"), ("f" if SEX[7] == "m" else "m")
    for x, y, sex, weight in (
        (other_x, Y, SEX, None),
        (X, other_y, SEX, None),
        (X, Y, other_sex, None),
        (X, Y, SEX, np.full(len(Y), 2.0)),
        (X[::-1], Y[::-1], SEX[::-1], None),
        (X, np.char.upper(Y), SEX, None),
    ):
        with pytest.raises(ModelFileError, match="belongs to a run with other data or settings"):
            model.fit(x, y, sensitive_features=sex, sample_weight=weight)


def test_all_kinds_of_people_have_a_mark(tmp_path):
    frame = pd.DataFrame({"x1": X[:, 0], "x2": X[:, 1]})
    for k, (one, other) in enumerate(
        ((frame, frame + 1e-9), (sparse.csr_array(X), sparse.csr_array(X + 1e-9)), (X.tolist(), (X + 1e-9).tolist()))
    ):
        model = quick(tmp_path / f"{k}.checkpoint", rounds=2, start="zero")
        first = model.fit(one, Y, sensitive_features=SEX).trace_
        np.testing.assert_array_equal(model.fit(one, Y, sensitive_features=SEX).trace_.next, first.next)
        assert model.n_fits_ == 0
        with pytest.raises(ModelFileError, match="other data or settings"):
            model.fit(other, Y, sensitive_features=SEX)
    words = np.array([["ann", 1.0], ["bob", 2.0]] * 100, dtype=object)
    pick = make_pipeline(FunctionTransformer(second), LogisticRegression())
    model = quick(tmp_path / "words.checkpoint", pick, rounds=2, start="zero")
    model.fit(words, Y, sensitive_features=SEX)
    assert model.fit(words, Y, sensitive_features=SEX).n_fits_ == 0


def second(X):
    return X[:, 1:].astype(float)


# -- files that are none ------------------------------------------------------------------------------------
@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.checkpoint"
    fit(quick(path, rounds=3))
    return path


def test_garbage(tmp_path):
    path = tmp_path / "run.checkpoint"
    for content in (b"hello", os.urandom(5000), pickle.dumps({"rounds": 3}), b"SQLite format 3\0" + bytes(84)):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"^run\.checkpoint: not a checkpoint \(") as caught:
            fit(quick(path))
        assert "\n" not in str(caught.value) and path.read_bytes() == content
    with pytest.raises(
        ModelFileError, match=r"no such folder.nowhere: not a checkpoint \(unable to open database file\)\.$"
    ):
        fit(quick(tmp_path / "no such folder" / "nowhere"))
    path.write_bytes(b"")
    assert fit(quick(path, rounds=2)).n_fits_ == 3  # an empty file is a new one


def test_another_database(tmp_path):
    path = tmp_path / "run.checkpoint"
    for table in ("run (name)", "rounds (name)", "run (format, mark, start)"):
        path.unlink(missing_ok=True)
        change(path, f"CREATE TABLE {table}")
        with pytest.raises(ModelFileError, match=r"^run\.checkpoint: not a checkpoint \("):
            fit(quick(path))
    path.unlink()
    change(path, "CREATE TABLE books (title)")  # nothing of ours in it: the run is added
    fit(quick(path, rounds=2))


def test_a_truncated_file(file):
    content = file.read_bytes()
    whole = fit(quick(None, rounds=3))
    for share in (0.1, 0.3, 0.6, 0.9):
        file.write_bytes(content[: int(share * len(content))])
        try:
            found = fit(quick(file, rounds=3))
        except ModelFileError as error:
            assert str(error).startswith("run.checkpoint: ") and "\n" not in str(error)
        else:
            same(found, whole)


def test_a_damaged_file_is_refused_or_whole(file):
    content = file.read_bytes()
    whole, refused = fit(quick(None, rounds=3)), 0
    for position in np.random.default_rng(0).choice(len(content), 40, replace=False):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        file.write_bytes(bytes(damaged))
        try:
            found = fit(quick(file, rounds=3))
        except ModelFileError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            np.testing.assert_array_equal(found.trace_.multipliers, whole.trace_.multipliers)
            np.testing.assert_array_equal(found.predict_proba(X), whole.predict_proba(X))
    assert refused > 5


def arrays(**content):
    buffer = io.BytesIO()
    np.savez(buffer, **content)
    return buffer.getvalue()


def blob(path, what, turn=1):
    with closing(sqlite3.connect(path)) as db:
        return db.execute(f"SELECT {what} FROM rounds WHERE turn = ?", (turn,)).fetchone()[0]


def numbers(path, **other):
    with np.load(io.BytesIO(blob(path, "numbers"))) as found:
        return arrays(**{**found, **other})


TAMPERED = {
    "another start": lambda path: change(path, "UPDATE run SET start = ?", (arrays(hello=np.ones(3)),)),
    "a start of another size": lambda path: change(
        path,
        "UPDATE run SET start = ?",
        (arrays(multipliers=np.ones(2), cap=np.array(1.0), seed=np.array(0), accuracy=np.full(2, 0.5)),),
    ),
    "text as start": lambda path: change(path, "UPDATE run SET start = 'hello'"),
    "no start": lambda path: change(path, "UPDATE run SET start = NULL"),
    "a number as plain model": lambda path: change(path, "UPDATE run SET plain = 3"),
    "no model": lambda path: change(path, "UPDATE rounds SET model = x''"),
    "no numbers": lambda path: change(path, "UPDATE rounds SET numbers = NULL"),
    "a round left out": lambda path: change(path, "DELETE FROM rounds WHERE turn = 1"),
    "other multipliers": lambda path: change(
        path, "UPDATE rounds SET numbers = ? WHERE turn = 1", (numbers(path, lam=np.zeros(6)),)
    ),
    "another shape": lambda path: change(
        path, "UPDATE rounds SET numbers = ? WHERE turn = 1", (numbers(path, J=np.zeros(3)),)
    ),
    "a part missing": lambda path: change(
        path, "UPDATE rounds SET numbers = ? WHERE turn = 1", (arrays(lam=np.zeros(6)),)
    ),
    "another format": lambda path: change(path, "UPDATE run SET format = 'optfair training 99'"),
    "another mark": lambda path: change(path, "UPDATE run SET mark = 'hello'"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_tampered_files_are_refused(what, file):
    TAMPERED[what](file)
    with pytest.raises(ModelFileError, match=r"^run\.checkpoint: (cannot be read \(|belongs to a run)") as caught:
        fit(quick(file, rounds=3))
    assert "\n" not in str(caught.value)


# -- files that would run something -------------------------------------------------------------------------
class Evil:
    """Whoever unpickles it has run a command."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


COLUMNS = {"start": "run", "plain": "run", "numbers": "rounds", "model": "rounds"}


@pytest.mark.parametrize("column", COLUMNS)
def test_pickles_are_not_opened(column, file, tmp_path):
    marker = tmp_path / "ran"
    pickled = pickle.dumps(Evil(marker))
    inside = io.BytesIO()
    np.save(inside, np.array([Evil(marker)], dtype=object), allow_pickle=True)
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        for name in ("multipliers", "cap", "seed", "accuracy", "lam", "J", "step", "next", "coef"):
            archive.writestr(f"{name}.npy", inside.getvalue())
        archive.writestr("schema.json", pickled)
    for content in (pickled, inside.getvalue(), zipped.getvalue()):
        change(file, f"UPDATE {COLUMNS[column]} SET {column} = ?", (content,))
        with pytest.raises(ModelFileError, match=r"^run\.checkpoint: cannot be read \("):
            fit(quick(file, rounds=3))
        assert not marker.exists()
    assert os.system(f"touch {marker}") == 0 and marker.exists()  # it would have worked


def payload(function, module="os"):
    """A skops archive of a Pipeline that calls a function of a module when it is asked."""
    skops = pytest.importorskip("skops.io")
    model = make_pipeline(FunctionTransformer(second), LogisticRegression().fit(X, np.arange(len(X)) % 2))
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
    if isinstance(part, dict):
        yield part
        for value in part.values():
            yield from nodes(value)
    elif isinstance(part, list):
        for value in part:
            yield from nodes(value)


@pytest.mark.parametrize(
    "module, function",
    [
        ("os", "system"),
        ("subprocess", "check_output"),
        ("sklearn.utils._testing", "check_output"),  # modules of scikit-learn that know such functions
        ("sklearn.datasets._rcv1", "remove"),
        ("sklearn.utils.discovery", "import_module"),
    ],
)
@pytest.mark.parametrize("column", ["plain", "model"])
def test_models_that_name_functions_are_refused(column, module, function, file):
    change(file, f"UPDATE {COLUMNS[column]} SET {column} = ?", (payload(function, module),))
    with pytest.raises(ModelFileError) as caught:
        fit(quick(file, rounds=3))
    assert str(caught.value).startswith("run.checkpoint: cannot be read (holds types that are not of the estimator: ")
    assert f".{function})" in str(caught.value)


def test_functions_of_the_estimator_itself_are_its_own(tmp_path):
    """What the caller gave is known; the same file is refused to a caller who did not."""
    path = tmp_path / "run.checkpoint"
    model = quick(path, KNeighborsClassifier(3, metric=distance), rounds=2, start="zero", without_weights="resample")
    fit(model)
    assert fit(model).n_fits_ == 0
    with closing(sqlite3.connect(path)) as db:
        (content,) = db.execute("SELECT plain FROM run").fetchone()
    other = tmp_path / "other.checkpoint"
    model = quick(other, KNeighborsClassifier(3), rounds=2, start="zero", without_weights="resample")
    fit(model)
    change(other, "UPDATE run SET plain = ?", (content,))
    with pytest.raises(ModelFileError, match=r"not of the estimator: test_in_checkpoint\.distance\)"):
        fit(model)


def distance(a, b):
    return np.abs(a - b).sum()


class Own(DecisionTreeClassifier):
    """A classifier that skops has never heard of."""


def test_estimators_of_ones_own(tmp_path):
    path = tmp_path / "run.checkpoint"
    first = fit(quick(path, Own(max_depth=2), rounds=2, start="zero"))
    again = fit(quick(path, Own(max_depth=2), rounds=2, start="zero"))
    same(first, again)
    assert again.n_fits_ == 0


def test_without_skops_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ImportError) as caught:
        fit(quick(tmp_path / "run.checkpoint"))
    assert str(caught.value) == 'checkpoint needs skops: pip install "optfair[save]"'


# -- torch --------------------------------------------------------------------------------------------------
def test_a_network_of_torch_goes_on_in_the_same_process(tmp_path):
    """Dropout, shuffles and the optimizer's moments included; the state in the file is that of its last round."""
    pytest.importorskip("torch")
    from optfair.nn import TorchClassifier

    net = TorchClassifier("mlp", hidden=(8,), dropout=0.3, epochs=2, batch_size=32, random_state=3)
    whole = fit(quick(None, net, start="zero"))
    path = tmp_path / "run.checkpoint"
    model = quick(path, net, start="zero", stop_below=None)
    stop = RuntimeError("enough")

    def stop_after(rounds):
        import optfair.inprocessing.checkpoint as module

        original, count = module.Checkpoint.add, [0]

        def add(self, *given):
            original(self, *given)
            count[0] += 1
            if count[0] == rounds:
                raise stop

        return pytest.MonkeyPatch(), module.Checkpoint, add

    patch, owner, add = stop_after(3)
    with patch.context() as p:
        p.setattr(owner, "add", add)
        with pytest.raises(RuntimeError, match="enough"):
            fit(model)
    assert written(path) == 3
    again = fit(model)
    same(again, whole)
    finished = fit(model)
    same(finished, whole)
    assert finished.n_fits_ == 0
    change(path, "UPDATE run SET state = ?", (pickle.dumps(Evil(tmp_path / "ran")),))
    with pytest.raises(ModelFileError, match=r"^run\.checkpoint: cannot be read \("):
        fit(model)
    assert not (tmp_path / "ran").exists()
