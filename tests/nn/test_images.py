"""`ImageDataset`: the square around the centre, the numbers of an image, and a network that reads them."""

import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from optfair.inputs.containers import read_dataset_labels  # noqa: E402
from optfair.nn import ImageDataset  # noqa: E402
from optfair.nn.images import MEAN, STD, decode  # noqa: E402
from tests.nn.helpers import png, quick, same_parameters  # noqa: E402


def test_the_square_around_the_centre():
    """10 × 6 pixels (wide), each of its own colour: columns 2..7 are the square, and 6 → 6 pixels is no change."""
    picture = np.random.default_rng(0).integers(0, 256, (6, 10, 3), dtype=np.uint8)
    np.testing.assert_array_equal(decode(png(picture), 6), picture[:, 2:8])
    tall = picture.transpose(1, 0, 2).copy()
    np.testing.assert_array_equal(decode(png(tall), 6), tall[2:8])
    # An even reduction of blocks of one colour keeps the colours of their middles.
    blocks = np.kron(np.array([[10, 200], [90, 30]], dtype=np.uint8), np.ones((32, 32), dtype=np.uint8))
    small = decode(png(np.stack([blocks] * 3, axis=2)), 8)
    assert small.shape == (8, 8, 3)
    np.testing.assert_array_equal(small[[1, 1, 6, 6], [1, 6, 1, 6], 0], [10, 200, 90, 30])
    assert decode(png(picture), 5, "none").shape == (5, 5, 3)


def test_the_numbers_of_an_image():
    colour = np.array([255, 0, 51], dtype=np.uint8)
    data = ImageDataset([png(np.broadcast_to(colour, (8, 8, 3)).copy())], size=4)
    assert len(data) == 1 and data[0].shape == (3, 4, 4) and data[0].dtype == torch.float32
    expected = (np.array([1.0, 0.0, 0.2]) - MEAN) / STD
    np.testing.assert_allclose(data[0].numpy(), np.broadcast_to(expected[:, None, None], (3, 4, 4)), rtol=1e-6)
    grey = ImageDataset([png(np.full((4, 4), 51, dtype=np.uint8))], size=4)
    np.testing.assert_allclose(grey[0][:, 0, 0], (0.2 - np.array(MEAN)) / STD, rtol=1e-5)


def coloured(n=8, side=16):
    """Return red or blue images with noise, as files, and their colours."""
    noise = np.random.default_rng(0).integers(0, 60, (n, side, side + 2, 3), dtype=np.uint8)
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
    assert same_parameters(model, quick("resnet", epochs=6, batch_size=4, lr=0.002).fit(stacked, y))
    paths = [tmp_path / f"{i}.png" for i in range(8)]
    for path, content in zip(paths, files, strict=True):
        path.write_bytes(content)
    np.testing.assert_array_equal(model.predict(ImageDataset([str(path) for path in paths], size=16)), y)


def test_labels_of_images_need_no_decoding():
    data = ImageDataset([b"broken"] * 3, ["a", "b", "a"], np.array([1, 2, 3]))
    assert read_dataset_labels(data) == (["a", "b", "a"], [1, 2, 3])
    assert read_dataset_labels(ImageDataset([b"broken"], [1])) == ([1], None)


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


def test_images_are_checked(tmp_path):
    files, y = coloured(2)
    for arguments, message in [
        ({"size": 0}, "size=0: must be an integer >= 1"),
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
