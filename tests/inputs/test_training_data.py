"""The facts of training data are what their definitions say, also of a selection of rows."""

from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optfair.inputs.training_data import TrainingData
from tests.inputs.helpers import N_CLASSES, N_GROUPS, gather, random_data

WEIGHTS = {
    "none": lambda rng, n: None,
    "counts": lambda rng, n: rng.integers(1, 4, n).astype(float),
    "survey": lambda rng, n: rng.exponential(size=n),
}


def weighted_data(kind, seed=0, n=60):
    data = random_data(seed, n)
    return gather(data.X, data.a, data.y, WEIGHTS[kind](np.random.default_rng(seed), n))


def assert_facts(data):
    """Compare the facts with loops over the rows."""
    weight = np.ones(len(data.y)) if data.weight is None else data.weight
    counts = np.zeros((len(data.groups), len(data.classes)))
    for a, y, w in zip(data.a, data.y, weight, strict=True):
        counts[a, y] += w
    assert data.cell.tolist() == [a * len(data.classes) + y for a, y in zip(data.a, data.y, strict=True)]
    np.testing.assert_allclose(data.counts, counts, rtol=1e-12)
    np.testing.assert_allclose(data.prior, counts / weight.sum(), rtol=1e-12)
    assert data.prior.sum() == pytest.approx(1)
    whole = all(w == int(w) for w in weight)
    assert data.n_people == (sum(weight) if whole else None)
    assert data.class_index.tolist() == data.classes.tolist()


@pytest.mark.parametrize("kind", WEIGHTS)
def test_facts_are_their_definitions(kind):
    assert_facts(weighted_data(kind))


@given(st.sampled_from(list(WEIGHTS)), st.lists(st.integers(0, 59), min_size=1, max_size=80))
def test_facts_of_a_selection_are_those_of_its_rows(kind, index):
    """Take any rows, also some of them several times."""
    data = weighted_data(kind)
    index = np.array(index)
    selection = data.take(index)
    assert_facts(selection)
    np.testing.assert_array_equal(selection.X, data.X[index])
    np.testing.assert_array_equal(selection.cell, data.cell[index])
    # A selection counts as everything that was given; codes and names stay the same.
    assert selection.n_given == len(index) and selection.positions.tolist() == list(range(len(index)))
    assert selection.groups.equals(data.groups) and selection.classes.tolist() == data.classes.tolist()


def test_a_mask_selects_the_rows_of_its_positions():
    data = weighted_data("counts")
    mask = data.cell != 4
    by_mask, by_positions = data.take(mask), data.take(np.flatnonzero(mask))
    assert_facts(by_mask)
    for name in ("X", "a", "y", "weight", "positions", "n_given"):
        np.testing.assert_array_equal(getattr(by_mask, name), getattr(by_positions, name))


def test_cells_without_rows_count_zero():
    data = random_data()
    selection = data.take(data.cell != 4)
    assert selection.counts[1, 1] == selection.prior[1, 1] == 0 and selection.counts.shape == (N_GROUPS, N_CLASSES)


def test_weights_that_are_whole_numbers_count_people():
    data = random_data(n=4)
    for weight, n_people in ((None, 4.0), ([1, 2, 3, 4], 10.0), ([1, 1, 1, 1.5], None), ([0.25] * 4, None)):
        weight = None if weight is None else np.array(weight, float)
        assert gather(data.X, data.a, data.y, weight).n_people == n_people


def test_classes_may_be_tuples_and_the_data_are_frozen():
    classes = np.empty(2, dtype=object)
    classes[:] = [("a", 1), ("b", 2)]
    codes = np.array([0, 0]), np.array([0, 1])
    data = TrainingData(np.zeros((2, 1)), *codes, None, pd.Index(["g"]), classes, np.arange(2), 2)
    assert data.class_index.tolist() == [("a", 1), ("b", 2)] and not isinstance(data.class_index, pd.MultiIndex)
    with pytest.raises(FrozenInstanceError):
        data.prior = None
