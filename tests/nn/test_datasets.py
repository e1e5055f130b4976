"""Rows from torch data sets: the same networks as from arrays, of which only batches are in memory."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from optfair.inputs.containers import read_dataset_labels  # noqa: E402
from tests.nn.helpers import GROUP, ItemDataset, Y, quick, same_parameters  # noqa: E402
from tests.nn.helpers import X as X64  # noqa: E402

X = X64.astype(np.float32)


class CountingDataset(torch.utils.data.Dataset):
    """(x, y) made on access; counts how many of the x are alive at once."""

    def __init__(self):
        self.alive = self.most = 0

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        self.alive += 1
        self.most = max(self.most, self.alive)
        return CountedArray(X[i], self), int(Y[i])


class CountedArray:
    """An array that its dataset counts."""

    def __init__(self, values, owner):
        self.values, self.owner = values, owner

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __del__(self):
        self.owner.alive -= 1


PAIRS = [(x, y.item(), g.item()) for x, y, g in zip(X, Y, GROUP, strict=True)]


@pytest.mark.parametrize("options", [{}, {"module": "mlp"}, {"batch_size": None}, {"early_stopping": True}])
def test_a_dataset_is_an_array(options):
    by_array = quick(**options).fit(X, Y)
    by_items = quick(**options).fit(ItemDataset(PAIRS))
    assert same_parameters(by_array, by_items)
    np.testing.assert_array_equal(by_array.predict_proba(X), by_items.predict_proba(ItemDataset(list(X))))
    weight = np.random.default_rng(1).integers(0, 3, 90)
    assert same_parameters(by_array.fit(X, Y, weight), by_items.fit(ItemDataset(list(X)), Y, weight))
    assert by_items.score(ItemDataset(PAIRS), Y) == by_array.score(X, Y)


@pytest.mark.filterwarnings(
    "ignore:This process:DeprecationWarning"
)  # of Python 3.12, for fork in a process with threads
def test_workers_change_nothing():
    assert same_parameters(quick(num_workers=1).fit(ItemDataset(PAIRS)), quick().fit(X, Y))
    before = torch.get_rng_state()
    workers = quick(num_workers=2).fit(ItemDataset(PAIRS))
    np.testing.assert_array_equal(workers.predict_proba(ItemDataset(PAIRS)), quick().fit(X, Y).predict_proba(X))
    assert torch.equal(before, torch.get_rng_state())


def test_only_batches_are_in_memory(monkeypatch):
    monkeypatch.setattr("optfair.nn.batches.BLOCK_ROWS", 16)
    sizes = []
    stack = torch.stack
    monkeypatch.setattr(torch, "stack", lambda tensors: sizes.append(len(tensors)) or stack(tensors))
    data = ItemDataset(PAIRS)
    quick(batch_size=8, early_stopping=True).fit(data).predict_proba(data)
    assert max(sizes) == 16 and sum(sizes) > 2 * 90
    sizes.clear()
    quick(batch_size=None).fit_targets(data, Y, np.eye(3))
    assert max(sizes) == 16


class NoisyDataset(torch.utils.data.Dataset):
    """Augmented items: each access adds new noise from torch's global generator."""

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        return torch.from_numpy(X[i]) + torch.randn(4), int(Y[i])


def test_datasets_that_draw_are_reproducible_too():
    before = torch.get_rng_state()
    first, second = (quick(early_stopping=True).fit(NoisyDataset(), Y) for _ in range(2))
    assert same_parameters(first, second)
    np.testing.assert_array_equal(first.predict_proba(NoisyDataset()), first.predict_proba(NoisyDataset()))
    assert torch.equal(before, torch.get_rng_state())


def test_labels_are_read_alone():
    labels, groups = read_dataset_labels(ItemDataset(PAIRS))
    assert labels == Y.tolist() and groups == GROUP.tolist()
    assert read_dataset_labels(torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))) == (
        Y.tolist(),
        None,
    )
    subset = torch.utils.data.Subset(ItemDataset(PAIRS), [5, 3])
    assert read_dataset_labels(subset) == (Y[[5, 3]].tolist(), GROUP[[5, 3]].tolist())
    counted = CountingDataset()
    read_dataset_labels(counted)
    assert counted.most <= 2  # the current item, and the next one


def test_datasets_are_checked():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(X)

    with pytest.raises(ValueError, match="X: Stream gives its items in its own order only; must be a map-style"):
        quick().fit(Stream(), Y)
    with pytest.raises(ValueError, match="X: ItemDataset has no items; give at least one"):
        quick().fit(ItemDataset([]), [])
    with pytest.raises(ValueError, match="y: missing, and item 0 of the dataset has no label; give y, or items"):
        quick().fit(ItemDataset(list(X)))
    with pytest.raises(ValueError, match="X: 1 of 2 items of the dataset have a group; all must have one, or none"):
        read_dataset_labels(ItemDataset([(X[0], 1, 1), (X[0], 0)]))
    with pytest.raises(ValueError, match=r"X: item 1 of the dataset has shape \(3,\) and item 0 \(4,\); all must have"):
        quick().fit(ItemDataset([X[0], X[1][:3]]), [0, 1])
    with pytest.raises(ValueError, match="X: an item of the dataset contains NaN or infinity; fill it in"):
        quick().fit(ItemDataset([X[0], X[1] * np.nan]), [0, 1])
    with pytest.raises(ValueError, match=r"X: its rows have shape \(3,\), those of fit had \(4,\)"):
        quick().fit(X, Y).predict(ItemDataset(list(X[:, :3])))
    with pytest.raises(ValueError, match="y: has 3 rows but X has 90"):
        quick().fit(ItemDataset(PAIRS), Y[:3])
