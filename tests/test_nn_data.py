"""Networks and what they read: the paper's layers counted by hand, Datasets, pictures."""

import io
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

torch = pytest.importorskip("torch")

from optfair.nn import ImageDataset, TorchClassifier, make_module  # noqa: E402
from optfair.nn.batches import read_labels  # noqa: E402
from optfair.nn.images import MEAN, STD, decode  # noqa: E402

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((90, 4)).astype(np.float32), RNG.integers(0, 3, 90)
GROUP = RNG.integers(0, 2, 90)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The models are tiny: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(before)


def quick(module="linear", **options):
    return TorchClassifier(module, **{"epochs": 2, "batch_size": 32, "random_state": 0} | options)


def same(one, other):
    a, b = one.parameters_state(), other.parameters_state()
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


# -- networks -------------------------------------------------------------------------------------------------
def size(net):
    return sum(parameter.numel() for parameter in net.parameters())


def test_the_layers_of_linear_and_mlp():
    assert size(make_module("linear", (106,), 2)) == 106 * 2 + 2
    assert size(make_module("mlp", (106,), 2)) == (106 + 1) * 200 + (200 + 1) * 2
    deep = make_module("mlp", (106,), 5, hidden=(200, 100, 50), dropout=0.1)
    assert size(deep) == 107 * 200 + 201 * 100 + 101 * 50 + 51 * 5
    assert [type(layer).__name__ for layer in deep] == ["Linear", "ReLU"] * 3 + ["Dropout", "Linear"]
    assert deep[6].p == 0.1
    assert make_module("mlp", (3, 4, 4), 2)(torch.zeros(5, 3, 4, 4)).shape == (5, 2)


def test_the_layers_of_the_resnet():
    net = make_module("resnet", (3, 64, 64), 10).eval()

    def conv(kernel, before, after):
        return kernel * kernel * before * after + after

    def block(before, after):
        shortcut = conv(1, before, after) if before != after else 0
        return conv(3, before, after) + conv(3, after, after) + 2 * (2 * after) + shortcut

    blocks = block(64, 64) + block(64, 128) + block(128, 256)
    assert size(net) == conv(7, 3, 64) + 2 * 64 + blocks + 256 * 10 + 10
    x, shapes = torch.zeros(2, 3, 64, 64), []
    for layer in net:
        x = layer(x)
        shapes.append(tuple(x.shape[1:]))
    assert shapes == [
        *[(64, 32, 32)] * 3,
        *[(64, 16, 16)] * 2,
        (128, 8, 8),
        (256, 4, 4),
        (256, 1, 1),
        *[(256,)] * 2,
        (10,),
    ]


def test_an_unknown_module():
    with pytest.raises(ValueError, match="module='cnn': must be one of 'linear', 'mlp', 'resnet', or a callable"):
        make_module("cnn", (3,), 2)


# -- datasets -------------------------------------------------------------------------------------------------
class Items(torch.utils.data.Dataset):
    """(x, y) made when asked for; knows how many of the x were alive at once."""

    def __init__(self):
        self.alive = self.most = 0

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        self.alive += 1
        self.most = max(self.most, self.alive)
        return Counted(X[i], self), int(Y[i])


class Counted:
    """An array that its dataset counts."""

    def __init__(self, values, owner):
        self.values, self.owner = values, owner

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __del__(self):
        self.owner.alive -= 1


class Plain(torch.utils.data.Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


PAIRS = [(x, y.item(), g.item()) for x, y, g in zip(X, Y, GROUP, strict=True)]


@pytest.mark.parametrize("options", [{}, {"module": "mlp"}, {"batch_size": None}, {"early_stopping": True}])
def test_a_dataset_is_an_array(options):
    by_array = quick(**options).fit(X, Y)
    by_items = quick(**options).fit(Plain(PAIRS))
    assert same(by_array, by_items)
    np.testing.assert_array_equal(by_array.predict_proba(X), by_items.predict_proba(Plain(list(X))))
    weight = RNG.integers(0, 3, 90)
    assert same(by_array.fit(X, Y, weight), by_items.fit(Plain(list(X)), Y, weight))
    assert by_items.score(Plain(PAIRS), Y) == by_array.score(X, Y)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of Python 3.12, for fork where threads are
def test_workers_change_nothing():
    assert same(quick(num_workers=1).fit(Plain(PAIRS)), quick().fit(X, Y))
    before = torch.get_rng_state()
    workers = quick(num_workers=2).fit(Plain(PAIRS))
    np.testing.assert_array_equal(workers.predict_proba(Plain(PAIRS)), quick().fit(X, Y).predict_proba(X))
    assert torch.equal(before, torch.get_rng_state())


def test_only_batches_are_in_memory(monkeypatch):
    monkeypatch.setattr("optfair.nn.batches.BLOCK_ROWS", 16)
    asked = []
    stack = torch.stack
    monkeypatch.setattr(torch, "stack", lambda tensors: asked.append(len(tensors)) or stack(tensors))
    data = Plain(PAIRS)
    quick(batch_size=8, early_stopping=True).fit(data).predict_proba(data)
    assert max(asked) == 16 and sum(asked) > 2 * 90
    asked.clear()
    quick(batch_size=None).fit_targets(data, Y, np.eye(3))
    assert max(asked) == 16


class Noisy(torch.utils.data.Dataset):
    """Augmented: every item anew with noise from torch's global generator."""

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        return torch.from_numpy(X[i]) + torch.randn(4), int(Y[i])


def test_datasets_that_draw_are_reproducible_too():
    before = torch.get_rng_state()
    one, other = (quick(early_stopping=True).fit(Noisy(), Y) for _ in range(2))
    assert same(one, other)
    np.testing.assert_array_equal(one.predict_proba(Noisy()), one.predict_proba(Noisy()))
    assert torch.equal(before, torch.get_rng_state())


def test_labels_are_read_alone():
    labels, groups = read_labels(Plain(PAIRS))
    assert labels == Y.tolist() and groups == GROUP.tolist()
    assert read_labels(torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))) == (Y.tolist(), None)
    subset = torch.utils.data.Subset(Plain(PAIRS), [5, 3])
    assert read_labels(subset) == (Y[[5, 3]].tolist(), GROUP[[5, 3]].tolist())
    counted = Items()
    read_labels(counted)
    assert counted.most <= 2  # the item at hand, and the one that takes its place


def test_datasets_are_checked():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(X)

    with pytest.raises(ValueError, match="X: Stream gives its items in its own order only; must be a map-style"):
        quick().fit(Stream(), Y)
    with pytest.raises(ValueError, match="X: Plain has no items; give at least one"):
        quick().fit(Plain([]), [])
    with pytest.raises(ValueError, match="y: missing, and item 0 of the dataset has no label; give y, or items"):
        quick().fit(Plain(list(X)))
    with pytest.raises(ValueError, match="X: 1 of 2 items of the dataset have a group; all must have one, or none"):
        read_labels(Plain([(X[0], 1, 1), (X[0], 0)]))
    with pytest.raises(ValueError, match=r"X: item 1 of the dataset has shape \(3,\) and item 0 \(4,\); all must have"):
        quick().fit(Plain([X[0], X[1][:3]]), [0, 1])
    with pytest.raises(ValueError, match="X: an item of the dataset contains NaN or infinity; fill it in"):
        quick().fit(Plain([X[0], X[1] * np.nan]), [0, 1])
    with pytest.raises(ValueError, match=r"X: its rows have shape \(3,\), those of fit had \(4,\)"):
        quick().fit(X, Y).predict(Plain(list(X[:, :3])))
    with pytest.raises(ValueError, match="y: has 3 rows but X has 90"):
        quick().fit(Plain(PAIRS), Y[:3])


# -- pictures -------------------------------------------------------------------------------------------------
def png(array):
    Image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


def test_the_square_around_the_centre():
    """10 × 6 pixels (wide), each of its own colour: columns 2..7 are the square, and 6 → 6 pixels is no change."""
    picture = RNG.integers(0, 256, (6, 10, 3), dtype=np.uint8)
    np.testing.assert_array_equal(decode(png(picture), 6), picture[:, 2:8])
    tall = picture.transpose(1, 0, 2).copy()
    np.testing.assert_array_equal(decode(png(tall), 6), tall[2:8])
    # An even reduction of blocks of one colour keeps the colours of their middles.
    blocks = np.kron(np.array([[10, 200], [90, 30]], dtype=np.uint8), np.ones((32, 32), dtype=np.uint8))
    small = decode(png(np.stack([blocks] * 3, axis=2)), 8)
    assert small.shape == (8, 8, 3)
    np.testing.assert_array_equal(small[[1, 1, 6, 6], [1, 6, 1, 6], 0], [10, 200, 90, 30])
    assert decode(png(picture), 5, "none").shape == (5, 5, 3)


def test_the_numbers_of_a_picture():
    colour = np.array([255, 0, 51], dtype=np.uint8)
    data = ImageDataset([png(np.broadcast_to(colour, (8, 8, 3)).copy())], size=4)
    assert len(data) == 1 and data[0].shape == (3, 4, 4) and data[0].dtype == torch.float32
    expected = (np.array([1.0, 0.0, 0.2]) - MEAN) / STD
    np.testing.assert_allclose(data[0].numpy(), np.broadcast_to(expected[:, None, None], (3, 4, 4)), rtol=1e-6)
    grey = ImageDataset([png(np.full((4, 4), 51, dtype=np.uint8))], size=4)
    np.testing.assert_allclose(grey[0][:, 0, 0], (0.2 - np.array(MEAN)) / STD, rtol=1e-5)


def coloured(n=8, side=16):
    """Red or blue pictures with some noise, as files."""
    noise = RNG.integers(0, 60, (n, side, side + 2, 3), dtype=np.uint8)
    y = np.arange(n) % 2
    noise[y == 0, ..., 0] += 190
    noise[y == 1, ..., 2] += 190
    return [png(picture) for picture in noise], np.array(["red", "blue"])[y]


def test_a_resnet_learns_colours(tmp_path):
    files, y = coloured()
    data = ImageDataset(files, y, np.arange(8), size=16, cache=True)
    model = quick("resnet", epochs=6, batch_size=4, lr=0.002).fit(data)
    assert model.score(data, y) == 1
    assert model.classes_.tolist() == ["blue", "red"] and model.input_shape_ == (3, 16, 16)
    stacked = np.stack([data[i][0].numpy() for i in range(8)])
    np.testing.assert_array_equal(model.predict_proba(stacked), model.predict_proba(data))
    assert same(model, quick("resnet", epochs=6, batch_size=4, lr=0.002).fit(stacked, y))
    paths = [tmp_path / f"{i}.png" for i in range(8)]
    for path, content in zip(paths, files, strict=True):
        path.write_bytes(content)
    np.testing.assert_array_equal(model.predict(ImageDataset([str(path) for path in paths], size=16)), y)


def test_labels_of_pictures_need_no_decoding():
    data = ImageDataset([b"broken"] * 3, ["a", "b", "a"], np.array([1, 2, 3]))
    assert read_labels(data) == (["a", "b", "a"], [1, 2, 3])
    assert read_labels(ImageDataset([b"broken"], [1])) == ([1], None)


def test_the_cache_decodes_once(monkeypatch):
    files, y = coloured(2)
    calls = []
    monkeypatch.setattr("optfair.nn.images.decode", lambda *args: calls.append(1) or decode(*args))
    data = ImageDataset(files, y, size=8, cache=True)
    first = data[0][0]
    assert torch.equal(first, data[0][0]) and torch.equal(first, data[-2][0]) and len(calls) == 1
    data = ImageDataset(files, y, size=8)
    _ = data[0], data[0]
    assert len(calls) == 3


def test_pictures_are_checked(tmp_path):
    files, y = coloured(2)
    for arguments, message in [
        ({"size": 0}, "size=0: must be a whole number of at least 1"),
        ({"crop": "left"}, "crop='left': must be one of 'centre', 'none'"),
        ({"y": y[:1]}, "y: has 1 entries, images 2; give one per image"),
        ({"group": y}, "group: given without y; items are"),
    ]:
        with pytest.raises(ValueError, match=message):
            ImageDataset(files, **arguments)
    with pytest.raises(ValueError, match="images=bytes: must be a sequence of files"):
        ImageDataset(files[0])
    with pytest.raises(ValueError, match=r"images: 6 bytes cannot be decoded .*; must be a JPEG or PNG file"):
        ImageDataset([b"broken"])[0]
    with pytest.raises(ValueError, match="cannot be decoded"):
        ImageDataset([files[0][:100]])[0]
    with pytest.raises(FileNotFoundError):
        ImageDataset([tmp_path / "nowhere.png"])[0]
    with pytest.raises(IndexError, match="row=2: there are 2 images"):
        ImageDataset(files)[2]
    with pytest.raises(ValueError, match="y: missing, and the images have no labels"):
        quick("resnet").fit(ImageDataset(files))


def test_without_pillow(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r'ImageDataset needs PIL: pip install "optfair\[torch\]"'):
        ImageDataset([])
