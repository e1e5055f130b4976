"""Test `OptFairIn` with networks: data sets of every form, seeds, files, images, and rows that exceed the memory."""

import io
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair import OptFairIn, OptFairInPost, OptFairPost, load_model, metrics
from tests.inprocessing.helpers import FEW_ROUNDS, draw_groups

torch = pytest.importorskip("torch", reason="needs the extra torch")

from optfair.nn import ImageDataset, TorchClassifier  # noqa: E402

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)

# A network of one epoch is far from calibrated, and calibration changes what it predicts.
LITTLE_TRAINING = "ignore:criterion. the rule gives hardly anybody a class:optfair.OptFairWarning"
SOURCE = Path(__file__).parents[2] / "src"  # for other processes: not what happens to be installed
X, Y, GROUP = draw_groups(400)
FROM_ZERO = {"start": "zero", "max_multiplier": 2.0, "tolerance": 0.05, "random_state": 0}


class RowDataset(torch.utils.data.Dataset):
    """Items (x, y, group) of the rows, x in a shape and the items of a type that can be chosen."""

    def __init__(self, X=X, y=Y, group=GROUP, shape=(-1,), kind=tuple):
        self.X, self.y, self.group, self.shape_, self.kind = X.astype(np.float32), y, group, shape, kind

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return self.kind((torch.from_numpy(self.X[i].reshape(self.shape_)), int(self.y[i]), str(self.group[i])))


def small_network(**options):
    return TorchClassifier("mlp", **{"hidden": (8,), "epochs": 2, "batch_size": 64} | options)


# -- networks ----------------------------------------------------------------------------------------------
def test_a_network_becomes_fair_on_rows_it_has_not_seen():
    X, y, group = draw_groups(6000)
    network = make_pipeline(StandardScaler(), TorchClassifier("mlp", hidden=(16,), epochs=8, batch_size=128, lr=0.01))
    model = OptFairIn(network, tolerance=0.03, rounds=25, held_out=0.25, random_state=0)
    model.fit(X[:4000], y[:4000], sensitive_features=group[:4000])
    test = {"sensitive_features": group[4000:], "classes": model.classes_, "criterion": "dp"}
    h = model.predict_proba(X[4000:])
    fair, plain = (metrics.violation(y[4000:], g, **test) for g in (h, model.plain_(X[4000:])))
    assert fair < 0.03 + metrics.noise_floor(y[4000:], h, **test) < plain
    assert "people held out" in str(model.report())


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    runs = [
        OptFairIn(small_network(), rounds=5, **FROM_ZERO | {"random_state": seed, "tolerance": 0.02}).fit(
            X, Y, sensitive_features=GROUP
        )
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(runs[0].trace_.multipliers, runs[1].trace_.multipliers)
    assert not np.array_equal(runs[0].trace_.multipliers, runs[2].trace_.multipliers)


@pytest.mark.filterwarnings(LITTLE_TRAINING)
def test_a_network_that_is_read_predicts_as_the_one_that_was_written(tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    network = make_pipeline(StandardScaler(), small_network())
    for model in (OptFairIn(network, rounds=3, **FROM_ZERO), OptFairPost(network, cv=2, random_state=0)):
        model.fit(X, Y, sensitive_features=GROUP).save(tmp_path / "network.skops")
        again = load_model(tmp_path / "network.skops")
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


# -- data sets ---------------------------------------------------------------------------------------------
def test_a_data_set_gives_what_its_arrays_give():
    X32, options = X.astype(np.float32), {"tolerance": 0.05, "rounds": 4, "random_state": 3}
    data = RowDataset()
    arrays = OptFairIn(small_network(), **options).fit(X32, Y, sensitive_features=GROUP)
    items = OptFairIn(small_network(), **options).fit(data)
    np.testing.assert_array_equal(items.trace_.multipliers, arrays.trace_.multipliers)
    np.testing.assert_array_equal(items.predict_proba(data), arrays.predict_proba(X32))
    np.testing.assert_array_equal(items.predict(data), arrays.predict(X32))  # the same rows, by content
    assert str(items.report(data)) == str(arrays.report(X32, Y, sensitive_features=GROUP))
    given = OptFairIn(small_network(), **options).fit(data, Y, sensitive_features=GROUP)
    np.testing.assert_array_equal(given.trace_.multipliers, items.trace_.multipliers)


@pytest.mark.filterwarnings(LITTLE_TRAINING)
def test_post_processing_of_a_data_set_gives_what_its_arrays_give():
    X32, data = X.astype(np.float32), RowDataset()
    options = {"tolerance": 0.05, "random_state": 3, "cv": 2}
    arrays = OptFairPost(small_network(), **options).fit(X32, Y, sensitive_features=GROUP)
    items = OptFairPost(small_network(), **options).fit(data)
    np.testing.assert_array_equal(items.rule_.weights, arrays.rule_.weights)
    np.testing.assert_array_equal(items.predict_proba(data), arrays.predict_proba(X32))
    assert str(items.report(data)) == str(arrays.report(X32, Y, sensitive_features=GROUP))


def test_data_sets_of_every_form():
    flat, square, lists = RowDataset(), RowDataset(shape=(2, 2)), RowDataset(kind=list)

    def linear(**options):
        return OptFairIn(TorchClassifier("linear", epochs=1), rounds=2, **FROM_ZERO, **options)

    h = [linear().fit(data).predict_proba(data) for data in (flat, square, lists)]
    np.testing.assert_allclose(h[1], h[0])
    np.testing.assert_array_equal(h[2], h[0])
    named = linear(sensitive_features=lambda data: GROUP).fit(flat)
    np.testing.assert_array_equal(named.predict_proba(flat), h[0])
    assert "fair model" in str(named.report(flat, Y))


def test_data_sets_that_cannot_be_read():
    data = RowDataset()
    with pytest.raises(ValueError, match="X: is a torch data set, which LogisticRegression cannot read"):
        OptFairIn(LogisticRegression(), **FROM_ZERO).fit(data)
    with pytest.raises(ValueError, match="estimator=None: cannot read a torch data set"):
        OptFairIn(**FROM_ZERO).fit(data)
    with pytest.raises(ValueError, match="X: is a DataLoader; give the data set it reads"):
        OptFairIn(TorchClassifier(), **FROM_ZERO).fit(torch.utils.data.DataLoader(data))
    with pytest.raises(ValueError, match="awareness='aware': groups given to fit can be added to a 2-d array"):
        OptFairIn(TorchClassifier(), awareness="aware").fit(data)
    with pytest.raises(ValueError, match=r"^X: is a torch data set, which OptFairInPost cannot divide; give arrays\.$"):
        OptFairInPost(OptFairIn(TorchClassifier())).fit(data, Y)
    without_groups = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    with pytest.raises(ValueError, match="sensitive_features: missing"):
        OptFairIn(TorchClassifier()).fit(without_groups)


def test_images():
    Image = pytest.importorskip("PIL.Image", reason="pictures are read by Pillow")
    rng = np.random.default_rng(0)
    y, group = rng.integers(0, 2, 60), rng.choice(["old", "young"], 60)
    files = []
    for label in y:
        pixels = rng.integers(0, 60, (20, 24, 3), dtype=np.uint8)
        pixels[..., label] += 150
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, format="PNG")
        files.append(buffer.getvalue())
    pictures = ImageDataset(files, y.tolist(), group.tolist(), size=16, cache=True)
    network = TorchClassifier("resnet", epochs=4, batch_size=16, lr=0.003)
    model = OptFairIn(network, rounds=2, **FROM_ZERO | {"tolerance": 0.3}).fit(pictures)
    assert (model.predict(pictures) == y).mean() > 0.9
    assert set(model.groups_) == {"old", "young"}


LIMITED = """
    import resource, sys
    import numpy as np, torch
    from optfair import OptFairIn
    from optfair.nn import TorchClassifier

    n, d = 3000, 25_000
    class Rows(torch.utils.data.Dataset):
        def __init__(self, path):
            self.X = np.memmap(path, np.float32, "r", shape=(n, d))
        def __len__(self):
            return n
        def __getitem__(self, i):
            return torch.from_numpy(self.X[i].copy()), int(self.X[i, 0] > 0), "ab"[int(self.X[i, 1] > 0.3)]

    model = OptFairIn(TorchClassifier("linear", epochs=1, batch_size=64), tolerance=0.05, rounds=2, random_state=0)
    small = Rows(sys.argv[1])
    # Whatever is loaded late comes in before the limit is set.
    OptFairIn(TorchClassifier("linear", epochs=1), rounds=1, tolerance=0.5).fit(
        np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 2, sensitive_features=np.arange(40) // 2 % 2
    )
    used = 1024 * next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData"))
    limit = used + 150 * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        np.array(small.X)
    except MemoryError:
        print("too large to be read at once")
    model.fit(small)
    print(len(model.history_), model.predict(torch.utils.data.Subset(small, range(10))).shape)
"""


@pytest.mark.slow
def test_a_data_set_larger_than_memory(tmp_path):
    """The process may take 150 MB more than it has; the rows are 300 MB, and reading them at once fails."""
    path, rng = tmp_path / "rows.bin", np.random.default_rng(0)
    with path.open("wb") as file:
        for _ in range(30):
            file.write(rng.standard_normal((100, 25_000), dtype=np.float32).tobytes())
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED), str(path)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.split("\n")[:2] == ["too large to be read at once", "2 (10,)"]
