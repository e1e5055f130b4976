"""Compare rules."""

import numpy as np
import pandas as pd


def types(values):
    return [tuple(map(type, value)) if isinstance(value, tuple) else type(value) for value in values]


def assert_same(rule, other):
    """Check that two rules are equal in everything, names with their types."""
    for name in ("weights", "temperatures", "constant"):
        np.testing.assert_array_equal(getattr(rule, name), getattr(other, name))
        assert getattr(rule, name).dtype == getattr(other, name).dtype == np.float64
    assert (rule.share, rule.key) == (other.share, other.key)
    for name in ("groups", "classes"):
        mine, theirs = getattr(rule, name), getattr(other, name)
        assert mine.tolist() == theirs.tolist() and types(mine) == types(theirs)
        assert list(mine.names) == list(theirs.names)
        assert isinstance(mine, pd.MultiIndex) == isinstance(theirs, pd.MultiIndex)
    assert rule.certificate == other.certificate and rule.determinism == other.determinism
    assert types(vars(rule.certificate).values()) == types(vars(other.certificate).values())
    pd.testing.assert_frame_equal(rule.multipliers, other.multipliers)
    for column in rule.multipliers:
        assert types(rule.multipliers[column]) == types(other.multipliers[column])
