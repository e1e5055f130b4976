"""Test that a run killed anywhere continues to the same multipliers, bit for bit, and only the run it belongs to."""

import os
import pickle
import signal
import subprocess
import sys
import time
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

from optfair import ModelFileError, OptFairIn, Rows
from optfair.inprocessing.checkpoint import Checkpoint, _text
from tests.inprocessing.checkpoint_helpers import (
    GROUP,
    HARMLESS,
    LONG,
    InterruptedRegression,
    Interruption,
    MaliciousObject,
    OwnTree,
    count_rounds,
    cut,
    execute,
    fit,
    long_run,
    second_column,
    with_checkpoint,
)
from tests.inprocessing.helpers import CODE, XA, Y, same_run

pytestmark = pytest.mark.filterwarnings(*HARMLESS)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path):
    """Return the path of a file that does not exist yet."""
    pytest.importorskip("skops", reason="checkpoints of scikit-learn's models need skops")
    return tmp_path / "run.checkpoint"


def test_without_skops_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ImportError) as error:
        fit(with_checkpoint(tmp_path / "run.checkpoint"))
    assert str(error.value) == 'checkpoint needs skops: pip install "optfair[save]"'


# -- a run that is killed ----------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["scikit-learn", "torch"])
def test_a_killed_run_continues_as_if_nothing_had_happened(engine, path):
    """A process of its own, killed without warning at a random round; this one continues."""
    if engine == "torch":
        pytest.importorskip("torch", reason="needs the extra torch")
    code = f"from tests.inprocessing import checkpoint_helpers as c; c.fit(c.long_run({engine!r}, {str(path)!r}))"
    threads = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    here = os.pathsep.join([str(ROOT / "src"), str(ROOT)])  # not what happens to be installed
    environment = os.environ | threads | {"PYTHONPATH": here}
    last = int(np.random.default_rng().integers(1, LONG // 2))
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, env=environment, stderr=subprocess.PIPE
    )
    limit = time.monotonic() + 120
    while count_rounds(path) < last and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    _, stderr = process.communicate()
    assert process.returncode == -signal.SIGKILL, stderr.decode()
    done = count_rounds(path)
    assert last <= done < LONG
    continued, whole = fit(long_run(engine, path)), fit(long_run(engine, None))
    same_run(continued, whole, XA)
    assert continued.n_fits_ <= whole.n_fits_ - done and count_rounds(path) == LONG


ESTIMATORS = {
    "logistic": LogisticRegression(),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "gradient": SGDClassifier(loss="log_loss"),
    "forest": RandomForestClassifier(3, max_depth=3),
    "network": MLPClassifier((4,), max_iter=20),
    "neighbours": KNeighborsClassifier(5),
}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_from_every_round_to_the_same_end(kind, path):
    start = "post" if kind == "logistic" else "zero"
    options = {"without_weights": "resample", "step": "adaptive", "start": start}
    whole = fit(with_checkpoint(None, ESTIMATORS[kind], **options))
    same_run(fit(with_checkpoint(path, ESTIMATORS[kind], **options)), whole, XA)
    for rounds in (5, 1, 0):
        cut(path, rounds)
        again = fit(with_checkpoint(path, ESTIMATORS[kind], **options))
        same_run(again, whole, XA)
        assert again.n_fits_ == whole.n_fits_ - rounds - (1 if start == "post" or rounds == 0 else 0)
    execute(path, "UPDATE run SET plain = x''")  # killed during plain training
    cut(path, 0)
    same_run(fit(with_checkpoint(path, ESTIMATORS[kind], **options)), whole, XA)


def test_a_network_of_torch_continues_in_the_same_process(path, tmp_path, monkeypatch):
    """Dropout, shuffles and the optimizer's moments included; the state in the file is that of its last round."""
    pytest.importorskip("torch", reason="needs the extra torch")
    from optfair.nn import TorchClassifier

    network = TorchClassifier("mlp", hidden=(8,), dropout=0.3, epochs=2, batch_size=32, random_state=3)
    whole = fit(with_checkpoint(None, network, start="zero"))
    model, add = with_checkpoint(path, network, start="zero"), Checkpoint.add

    def add_three(self, round_index, *given):
        add(self, round_index, *given)
        if round_index == 2:
            raise Interruption

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "add", add_three)
        with pytest.raises(Interruption):
            fit(model)
    assert count_rounds(path) == 3
    same_run(fit(model), whole, XA)
    finished = fit(model)
    same_run(finished, whole, XA)
    assert finished.n_fits_ == 0
    execute(path, "UPDATE run SET state = ?", (pickle.dumps(MaliciousObject(tmp_path / "ran")),))
    with pytest.raises(ModelFileError, match=r"^run\.checkpoint: cannot be read \("):
        fit(model)
    assert not (tmp_path / "ran").exists()


def test_a_run_with_a_generator_continues_with_the_seed_it_drew(path):
    options = {"held_out": 0.25, "rounds": 6, "max_multiplier": "auto"}
    whole = fit(with_checkpoint(None, **options, random_state=np.random.default_rng(3)))
    InterruptedRegression.fits = 0
    first, second = (
        with_checkpoint(path, InterruptedRegression(), **options, random_state=np.random.default_rng(seed))
        for seed in (3, 99)
    )
    with pytest.raises(Interruption):
        fit(first)
    np.testing.assert_array_equal(fit(second).trace_.multipliers, whole.trace_.multipliers)


def test_a_run_without_a_seed_keeps_its_own(path):
    """random_state=None: rows are drawn with a seed that is in the file."""
    options = {"without_weights": "resample", "random_state": None, "start": "zero"}
    first = fit(with_checkpoint(path, KNeighborsClassifier(5), **options))
    cut(path, 2)
    again = fit(with_checkpoint(path, KNeighborsClassifier(5), **options))
    np.testing.assert_array_equal(again.trace_.multipliers, first.trace_.multipliers)
    other = fit(with_checkpoint(None, KNeighborsClassifier(5), **options))
    assert (other.trace_.confusions != first.trace_.confusions).any()


# -- a run that is finished --------------------------------------------------------------------------------
@pytest.mark.parametrize("output", ["mixture", "deterministic"])
def test_a_finished_run_is_not_fitted_again(output, path, tmp_path):
    first = fit(with_checkpoint(path, output=output))
    again = fit(with_checkpoint(path, output=output))
    same_run(first, again, XA)
    assert again.n_fits_ == (0 if output == "mixture" else 1)
    assert str(again.training_) == str(first.training_)
    # what the training does not depend on
    other = fit(with_checkpoint(path, output=output, decision="argmax", progress=False))
    assert other.n_fits_ == again.n_fits_
    assert [file.name for file in tmp_path.iterdir()] == ["run.checkpoint"]


def test_a_run_that_stopped_early_is_finished(path):
    first, again = (fit(with_checkpoint(path, rounds=30, stop_below=0.2, start="zero")) for _ in range(2))
    assert len(first.trace_) < 30
    same_run(first, again, XA)
    assert again.n_fits_ == 0


def test_estimators_of_the_users_own(path):
    first, again = (fit(with_checkpoint(path, OwnTree(max_depth=2), rounds=2, start="zero")) for _ in range(2))
    same_run(first, again, XA)
    assert again.n_fits_ == 0


def test_datasets_that_are_drawn_anew_continue(path):
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    from optfair.nn import TorchClassifier

    class NoisyDataset(torch.utils.data.Dataset):
        def __len__(self):
            return len(Y)

        def __getitem__(self, i):
            return torch.from_numpy(XA[i].astype(np.float32)) + 0.1 * torch.randn(2), int(CODE[i]), GROUP[i].item()

    options = {"start": "zero", "rounds": 3}
    models = [with_checkpoint(path, TorchClassifier(epochs=1), **options).fit(NoisyDataset()) for _ in range(2)]
    np.testing.assert_array_equal(models[0].trace_.multipliers, models[1].trace_.multipliers)
    assert models[1].n_fits_ == 0


# -- the run it belongs to ---------------------------------------------------------------------------------
OTHER_SETTINGS = {
    "tolerance": {"tolerance": 0.03},
    "rounds": {"rounds": 4},
    "seed": {"random_state": 1},
    "criterion": {"criterion": "eo"},
    "start": {"start": "zero"},
    "a setting of the estimator": {"estimator": LogisticRegression(C=2.0)},
    "another estimator": {"estimator": GaussianNB()},
    "costs": {"costs": 1 - np.eye(3)},
    "held out": {"held_out": 0.2},
}


@pytest.mark.parametrize("name", OTHER_SETTINGS)
def test_other_settings_are_refused(name, checkpoint_file):
    before = checkpoint_file.read_bytes()
    with pytest.raises(ModelFileError) as error:
        fit(with_checkpoint(checkpoint_file, **{"rounds": 3} | OTHER_SETTINGS[name]))
    assert str(error.value) == (
        "run.checkpoint: belongs to a run with other data or settings (all but decision, mixture and output "
        "must be the same); remove it, or name another file."
    )
    assert checkpoint_file.read_bytes() == before


def test_other_rows_are_refused(checkpoint_file):
    model = with_checkpoint(checkpoint_file, rounds=3)
    other_x, other_y, other_group = XA.copy(), Y.copy(), GROUP.copy()
    other_x[7, 1] += 1e-9
    other_y[7], other_group[7] = ("a" if Y[7] != "a" else "b"), ("f" if GROUP[7] == "m" else "m")
    for x, y, group, weight in (
        (other_x, Y, GROUP, None),
        (XA, other_y, GROUP, None),
        (XA, Y, other_group, None),
        (XA, Y, GROUP, np.full(len(Y), 2.0)),
        (XA[::-1], Y[::-1], GROUP[::-1], None),
        (XA, np.char.upper(Y), GROUP, None),
    ):
        with pytest.raises(ModelFileError, match="belongs to a run with other data or settings"):
            model.fit(x, y, sensitive_features=group, sample_weight=weight)
    with pytest.raises(ModelFileError, match="belongs to a run with other data or settings"):
        model.fit(XA, Y, sensitive_features=GROUP, cluster=np.arange(len(Y)) // 2)


CONTAINERS = {
    "frame": (lambda x: pd.DataFrame(x, columns=["x1", "x2"]), None),
    "sparse": (sparse.csr_array, None),
    "lists": (lambda x: x.tolist(), None),
    "objects": (
        lambda x: np.column_stack([np.array(["ann", "bob"] * (len(x) // 2), dtype=object), x[:, 1]]),
        make_pipeline(FunctionTransformer(second_column), LogisticRegression()),
    ),
}


def test_a_file_of_another_version_is_refused(checkpoint_file):
    execute(checkpoint_file, "UPDATE run SET format = ?", ("optfair training 1",))
    with pytest.raises(ModelFileError) as error:
        fit(with_checkpoint(checkpoint_file, rounds=3))
    assert str(error.value) == (
        "run.checkpoint: was written by another version of optfair; remove it, or name another file."
    )


@pytest.mark.parametrize("kind", CONTAINERS)
def test_rows_of_every_container_are_told_apart(kind, path):
    contain, estimator = CONTAINERS[kind]
    model = with_checkpoint(path, estimator, rounds=2, start="zero")
    first = model.fit(contain(XA), Y, sensitive_features=GROUP).trace_
    np.testing.assert_array_equal(model.fit(contain(XA), Y, sensitive_features=GROUP).trace_.next, first.next)
    assert model.n_fits_ == 0
    with pytest.raises(ModelFileError, match="other data or settings"):
        model.fit(contain(XA + 1e-9), Y, sensitive_features=GROUP)


def test_other_rows_of_d_columns_and_functions_are_refused(path):
    def refuses(first, second, X_first=XA, X_second=XA, **groups):
        path.unlink(missing_ok=True)
        first.set_params(checkpoint=path).fit(X_first, Y, **groups)
        with pytest.raises(ModelFileError, match="belongs to a run with other data or settings"):
            second.set_params(checkpoint=path).fit(X_second, Y, **groups)

    def short(**options):
        return with_checkpoint(None, rounds=1, start="zero", **options)

    D, E = (sparse.csr_array(np.full((1, 18), 0.01 * k)) for k in (1, 2))
    refuses(*(short(criterion=Rows(d, lower=[-1], upper=[1])) for d in (D, E)), sensitive_features=GROUP)
    frames = (pd.DataFrame(XA, columns=names) for names in (["a", "b"], ["a", "c"]))
    refuses(short(), short(), *frames, sensitive_features=GROUP)
    refuses(*(short(sensitive_features=f) for f in (lambda X: X[:, 0] > 0, lambda X: X[:, 0] > 1)))


def powers(k):
    return lambda X: np.column_stack([X[:, 0] ** j for j in range(k)])


def test_functions_are_known_by_what_they_do():
    """Nested code and closures count; names, addresses, paths and orders of sets do not."""
    assert _text(powers(2)) != _text(powers(3))
    assert _text(powers(2)) == _text(powers(2))

    def compiled(source, file):
        namespace = {}
        exec(compile(source, file, "exec"), namespace)
        return namespace["f"]

    here = compiled("def f(v):\n    return [v + 1 for _ in range(3)]", "/one/place.py")
    there = compiled("\n\n\ndef f(v):\n    return [v + 1 for _ in range(3)]", "/another/place.py")
    other = compiled("def f(v):\n    return [v + 2 for _ in range(3)]", "/one/place.py")
    assert _text(here) == _text(there) != _text(other)
    words = [f"word {k}" for k in range(50)]
    assert _text(set(words)) == _text(set(reversed(words)))
    objects = [np.array(list("".join(words)), dtype=object) for _ in range(2)]
    assert _text(objects[0]) == _text(objects[1]) != _text(objects[0][::-1])


def test_the_fingerprint_of_many_rows_keeps_d_sparse(path):
    """EO of 12 groups and 10 classes has 1,200 rows and columns."""
    rng = np.random.default_rng(0)
    n = 2_400
    y, group = np.arange(n) % 10, np.arange(n) // 10 % 12
    options = {"criterion": "eo", "rounds": 1, "start": "zero", "max_multiplier": 1.0, "random_state": 0}
    model = OptFairIn(LogisticRegression(), checkpoint=path, tolerance=0.05, **options)
    model.fit(rng.standard_normal((n, 2)), y, sensitive_features=group)
    assert len(model.game_.rows) == 1_200
