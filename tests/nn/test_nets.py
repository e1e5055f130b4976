"""The paper's networks: their layers, counted by hand."""

import pytest

torch = pytest.importorskip("torch")

from optfair.nn import make_module  # noqa: E402


def size(net):
    """Return the number of parameters."""
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
