"""`OptFairIn` with networks: both engines agree, data sets need not fit in memory, images run end to end."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import optfair
from optfair import OptFairIn, OptFairPost, metrics

torch = pytest.importorskip("torch", reason="needs the extra torch")

from optfair.nn import ImageDataset, TorchClassifier  # noqa: E402

# Few rounds, to save time: how close they come is the subject of few tests.
pytestmark = pytest.mark.filterwarnings("ignore:tolerance. training ended outside")


def people(n=1500, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n, p=[0.6, 0.4])
    X = rng.standard_normal((n, 4)) + np.outer(group == "b", [0.9, 0, 0, 0])
    edges = np.linspace(-0.8, 1.2, classes - 1)
    return X, np.digitize(X[:, 0] + X[:, 1] + 0.7 * rng.standard_normal(n), edges), group


class Rows(torch.utils.data.Dataset):
    """Items (x, y, group)."""

    def __init__(self, X, y, group):
        self.X, self.y, self.group = X.astype(np.float32), y, group

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return torch.from_numpy(self.X[i]), int(self.y[i]), str(self.group[i])


@pytest.mark.parametrize(("criterion", "shift"), [("dp", "cell"), ("eo", "cell"), ("dp", "global")])
def test_both_engines_agree_on_a_linear_model(criterion, shift):
    """Weighted copies and soft targets are the same loss: n·mean loss + ‖W‖²/(2C), so weight_decay = 1/(C n)."""
    X, y, group = people()
    options = {"criterion": criterion, "tolerance": 0.02, "rounds": 8, "shift": shift, "start": "zero"}
    copies = OptFairIn(LogisticRegression(C=10, tol=1e-10, max_iter=5000), max_multiplier=3.0, **options)
    linear = TorchClassifier("linear", batch_size=None, dtype="float64", weight_decay=1 / (10 * len(y)), random_state=0)
    soft = OptFairIn(linear, max_multiplier=3.0, inner_epochs=20, **options)
    for model in (copies, soft):
        model.fit(X, y, sensitive_features=group)
    assert np.abs(copies.trace_.multipliers[-1]).sum() > 0.1  # there was something to do
    np.testing.assert_allclose(soft.trace_.multipliers, copies.trace_.multipliers, atol=2e-4)
    np.testing.assert_allclose(soft.trace_.confusions, copies.trace_.confusions, atol=2 / len(y))
    for ours, theirs in zip(soft.mixture_.members, copies.mixture_.members, strict=True):
        W = ours.parameters_state()["weight"]
        np.testing.assert_allclose(W - W.mean(axis=0), theirs.coef_ - theirs.coef_.mean(axis=0), atol=1e-3)


def test_plain_training_is_the_network_itself():
    X, y, group = people(400)
    net = TorchClassifier("mlp", hidden=(8,), epochs=3, batch_size=64, random_state=5)
    loose = OptFairIn(net, tolerance=1.0, rounds=1, start="zero", max_multiplier=2.0).fit(
        X, y, sensitive_features=group
    )
    alone = TorchClassifier("mlp", hidden=(8,), epochs=3, batch_size=64, random_state=5).fit(X, y)
    assert loose.n_fits_ == 1
    for name, value in alone.parameters_state().items():
        np.testing.assert_array_equal(loose.mixture_.members[0].parameters_state()[name], value)


def test_a_network_becomes_fair_on_people_it_has_not_seen():
    X, y, group = people(6000)
    net = make_pipeline(StandardScaler(), TorchClassifier("mlp", hidden=(16,), epochs=8, batch_size=128, lr=0.01))
    model = OptFairIn(net, tolerance=0.03, rounds=25, held_out=0.25, random_state=0)
    model.fit(X[:4000], y[:4000], sensitive_features=group[:4000])
    test = {"sensitive_features": group[4000:], "classes": model.classes_, "criterion": "dp"}
    fair = metrics.violation(y[4000:], model.predict_proba(X[4000:]), **test)
    plain = metrics.violation(y[4000:], model.plain_(X[4000:]), **test)
    assert fair < 0.03 + metrics.noise_floor(y[4000:], model.predict_proba(X[4000:]), **test) < plain
    assert "people held out" in str(model.report())


def test_a_data_set_gives_what_its_arrays_give():
    X, y, group = people(500)
    X = X.astype(np.float32)
    options = {"tolerance": 0.05, "rounds": 4, "random_state": 3}
    net = TorchClassifier("mlp", hidden=(6,), epochs=2, batch_size=50)
    arrays = OptFairIn(net, **options).fit(X, y, sensitive_features=group)
    items = OptFairIn(net, **options).fit(Rows(X, y, group))
    np.testing.assert_array_equal(items.trace_.multipliers, arrays.trace_.multipliers)
    np.testing.assert_array_equal(items.predict_proba(Rows(X, y, group)), arrays.predict_proba(X))
    np.testing.assert_array_equal(items.predict(Rows(X, y, group)), arrays.predict(X))  # the same people, by content
    report = items.report(Rows(X, y, group))
    assert str(report) == str(arrays.report(X, y, sensitive_features=group))
    given = OptFairIn(net, **options).fit(Rows(X, y, group), y, sensitive_features=group)
    np.testing.assert_array_equal(given.trace_.multipliers, items.trace_.multipliers)


def test_a_data_set_cannot_take_groups_as_columns():
    X, y, group = people(60)
    with pytest.raises(ValueError, match="awareness='aware': groups given to fit can be added to a 2-d array"):
        OptFairIn(TorchClassifier(), awareness="aware").fit(Rows(X, y, group))


def test_a_data_set_without_groups_says_so():
    X, y, _ = people(60)
    with pytest.raises(ValueError, match="sensitive_features: missing"):
        OptFairIn(TorchClassifier()).fit(torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(y)))


def test_same_seed_same_result_another_seed_another():
    X, y, group = people(400)
    net = TorchClassifier("mlp", hidden=(8,), epochs=2, batch_size=64)
    runs = [
        OptFairIn(net, tolerance=0.02, rounds=5, start="zero", max_multiplier=2.0, random_state=seed).fit(
            X, y, sensitive_features=group
        )
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(runs[0].trace_.multipliers, runs[1].trace_.multipliers)
    assert not np.array_equal(runs[0].trace_.multipliers, runs[2].trace_.multipliers)


def test_saved_and_read_again(tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    X, y, group = people(400)
    net = make_pipeline(StandardScaler(), TorchClassifier("mlp", hidden=(8,), epochs=2, batch_size=64))
    for kind in (OptFairIn(net, tolerance=0.05, rounds=3, random_state=0), OptFairPost(net, cv=2, random_state=0)):
        model = kind.fit(X, y, sensitive_features=group)
        model.save(tmp_path / "net.skops")
        again = optfair.load_model(tmp_path / "net.skops")
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_images_run_end_to_end():
    PIL = pytest.importorskip("PIL.Image", reason="pictures are read by Pillow")
    import io

    rng = np.random.default_rng(0)
    y, group = rng.integers(0, 2, 60), rng.choice(["old", "young"], 60)
    files = []
    for label in y:
        pixels = rng.integers(0, 60, (20, 24, 3), dtype=np.uint8)
        pixels[..., label] += 150
        buffer = io.BytesIO()
        PIL.fromarray(pixels).save(buffer, format="PNG")
        files.append(buffer.getvalue())
    pictures = ImageDataset(files, y.tolist(), group.tolist(), size=16, cache=True)
    net = TorchClassifier("resnet", epochs=4, batch_size=16, lr=0.003)
    model = OptFairIn(net, tolerance=0.3, rounds=2, start="zero", max_multiplier=2.0, random_state=0).fit(pictures)
    assert (model.predict(pictures) == y).mean() > 0.9
    assert set(model.groups_) == {"old", "young"}


@pytest.mark.slow
def test_a_data_set_larger_than_memory(tmp_path):
    """The process may take 150 MB more than it has; the rows are 300 MB, and reading them at once is seen to fail."""
    code = """
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
    path = tmp_path / "rows.bin"
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for _ in range(30):
            file.write(rng.standard_normal((100, 25_000), dtype=np.float32).tobytes())
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(path)],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["too large to be read at once", "2 (10,)"]


RATES = []


class Watched(TorchClassifier):
    def fit_targets(self, X, cell, table, sample_weight=None, *, rate=1.0, **how):
        RATES.append((how.get("n_epochs"), rate))
        return super().fit_targets(X, cell, table, sample_weight, rate=rate, **how)


def test_rates_fall_over_the_rounds_to_a_tenth():
    rng = np.random.default_rng(0)
    X, group = rng.standard_normal((200, 3)), rng.integers(0, 2, 200)
    y = (X[:, 0] + group > 0.5).astype(int)
    RATES.clear()
    network = Watched(epochs=2, batch_size=50, decay=0.7)
    OptFairIn(network, rounds=8, inner_epochs=2, start="zero", max_multiplier=2.0, random_state=0).fit(
        X, y, sensitive_features=group
    )
    plain, *rounds = RATES
    assert plain == (None, 1.0)  # the first round is plain training, which ends at a rate of its own
    assert rounds == [(2, pytest.approx(max(0.1, 0.49**turn))) for turn in range(1, 8)]


@pytest.mark.parametrize("rate", [0, -1.0, np.inf, np.nan])
def test_rates_that_are_none(rate):
    with pytest.raises(ValueError, match=f"rate={rate!r}: must be a number above 0"):
        TorchClassifier().fit_targets(np.zeros((2, 1)), [0, 1], np.eye(2), rate=rate)
