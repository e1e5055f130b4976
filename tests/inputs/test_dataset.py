"""`Dataset`: a split is a partition of the rows, whatever they are."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from optfair.datasets import Dataset


def make_dataset(n=50, columns=1):
    """Return a data set whose rows can be told apart, with an index that is not 0, 1, …"""
    index = np.arange(n) + 100
    groups = pd.DataFrame({f"g{k}": np.where(np.arange(n) % (k + 2), "a", "b") for k in range(columns)}, index=index)
    return Dataset(
        name="numbers",
        X=pd.DataFrame({"x": np.arange(n)}, index=index),
        y=pd.Series(np.arange(n) % 3, index=index, name="y"),
        sensitive_features=groups if columns > 1 else groups["g0"],
        feature_names=["x"],
        class_names=[0, 1, 2],
        group_names=["a", "b"],
        description="",
    )


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize(("share", "size"), [(0.6, 30), (0.01, 0), (0.02, 1), (0.99, 49)])
def test_a_split_is_a_partition(share, size, columns):
    data = make_dataset(columns=columns)
    if size == 0:
        with pytest.raises(ValueError, match=r"share=0.01: leaves one part of 50 people empty\."):
            data.split(share)
        return
    parts = data.split(share, random_state=1)
    assert [len(part) for part in parts] == [size, 50 - size]
    assert sorted([*parts[0].X["x"], *parts[1].X["x"]]) == list(range(50))
    for part in parts:
        rows = part.X["x"].to_numpy()
        np.testing.assert_array_equal(part.y, data.y.to_numpy()[rows])
        np.testing.assert_array_equal(part.sensitive_features, data.sensitive_features.to_numpy()[rows])
        assert isinstance(part.X.index, pd.RangeIndex) and part.class_names == data.class_names
    assert parts[0].X.equals(data.split(share, random_state=1)[0].X)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, np.nan])
def test_a_share_is_between_0_and_1(share):
    with pytest.raises(ValueError, match=r"must be between 0 and 1, e\.g\. 0\.6"):
        make_dataset().split(share)


def test_take_accepts_positions_and_masks():
    data = make_dataset()
    assert data.take([3, 3, 0]).X["x"].tolist() == [3, 3, 0]
    assert data.take(data.X["x"].to_numpy() < 2).X["x"].tolist() == [0, 1]


def test_the_text_of_a_stand_in():
    data = replace(make_dataset(), stand_in="all numbers", feature_names=[])
    assert repr(data) == "<Dataset numbers: 50 people, an image each, 3 classes, 2 groups; a stand-in for all numbers>"
