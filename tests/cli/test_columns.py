"""The columns that options name."""

import pytest

from optfair.cli.columns import outcome_classes, pick_columns
from optfair.cli.paths import InputError


def test_options_name_several_columns_and_columns_may_hold_commas():
    header = ["a", "b", "last, first"]
    assert pick_columns(["a,b"], header, "--group") == ["a", "b"]
    assert pick_columns(["last, first", "a"], header, "--group") == ["last, first", "a"]
    assert pick_columns(["a", "a"], header, "--group") == ["a"]
    assert pick_columns(None, header, "--group") == []
    with pytest.raises(InputError, match="--group c: there is no such column; the table has a, b, last, first"):
        pick_columns(["c"], header, "--group")


def test_outcomes_are_the_classes_of_the_table():
    assert outcome_classes(["3", "1", "3"], [1, 2, 3]) == [3, 1]
    assert outcome_classes(None, [1, 2, 3]) is None
    assert outcome_classes(["1.0", "2", "1"], [1, 2, 3]) == [1, 2]  # a file that holds 1.0 is read as 1
    assert outcome_classes(["1.0", "no"], ["1", "1.0", "no"]) == ["1.0", "no"]
    with pytest.raises(InputError, match="--outcome 4: there is no such class; there are 1, 2, 3"):
        outcome_classes(["4"], [1, 2, 3])
    with pytest.raises(InputError, match=r"--outcome 1.0: there is no such class; there are False, True"):
        outcome_classes(["1.0"], [False, True])
