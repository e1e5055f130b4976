"""Columns become features and classes."""

import numpy as np
import pandas as pd

from optfair.datasets.tables import encode_table, left_closed_fifths


def test_numbers_and_levels():
    frame = pd.DataFrame({"a": ["y", "x", "z", "x"], "n": [1, 2, 3, 4], "b": [2.0, 1.0, 2.0, 2.0]})
    table = encode_table(frame, ["a", "b"], np.array([3, 0]), drop_last=["a"])
    assert list(table.columns) == ["n", "a=x", "a=y", "b=1", "b=2"]
    np.testing.assert_array_equal(table, [[4, 1, 0, 0, 1], [1, 0, 1, 0, 1]])


def test_fifths_are_left_closed_at_values_that_occur():
    """10 values: the edges have the ranks 2, 4, 6, 8, and belong to the bin above."""
    codes, edges = left_closed_fifths(np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10]))
    assert edges.tolist() == [2, 4, 6, 8] and codes.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
    codes, edges = left_closed_fifths(np.array([5.0, 5, 5, 5, 9]))
    assert edges.tolist() == [5, 5, 5, 5] and codes.tolist() == [4, 4, 4, 4, 4]
