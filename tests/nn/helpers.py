"""Small data, quick models and comparisons that the tests of `optfair.nn` share. Needs torch."""

import io

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification

from optfair.nn import TorchClassifier

CPU = torch.device("cpu")
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((90, 4)), RNG.integers(0, 3, 90)  # labels that the rows do not tell
GROUP = RNG.integers(0, 2, 90)
CELL, TABLE = RNG.integers(0, 5, 90), RNG.random((5, 3))
IMAGES = RNG.standard_normal((12, 3, 8, 8)).astype(np.float32)


def classification(n=200, m=3, d=6, seed=0):
    """Return (X, y) that a linear model predicts in part."""
    return make_classification(n, d, n_informative=4, n_classes=m, flip_y=0.2, random_state=seed)


def quick(module="linear", **options):
    """Return a network of three epochs."""
    return TorchClassifier(module, **{"epochs": 3, "batch_size": 32, "random_state": 0} | options)


def exact(**options):
    """Return a network that is trained to the optimum, in float64."""
    return TorchClassifier(batch_size=None, dtype="float64", random_state=0, **{"weight_decay": 0.01} | options)


def tiny_factory(input_shape, n_outputs):
    """Return a module with batch normalisation, dropout and a frozen layer."""
    frozen = torch.nn.Linear(input_shape[0], 5).requires_grad_(False)
    return torch.nn.Sequential(frozen, torch.nn.BatchNorm1d(5), torch.nn.Dropout(0.5), torch.nn.Linear(5, n_outputs))


def same_parameters(first, second):
    """Return whether parameters and buffers are the same bit for bit."""
    a, b = first.parameters_state(), second.parameters_state()
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


class ItemDataset(torch.utils.data.Dataset):
    """A map-style dataset of a list of items."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def png(array):
    """Return an array of pixels as the content of a PNG file."""
    Image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()
