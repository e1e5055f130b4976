"""The columns that options name."""

import pytest

from optfair.cli.arguments import make_parser
from optfair.cli.columns import COLUMN_OPTIONS, outcome_classes, pick_columns
from optfair.cli.paths import InputError


def test_options_name_several_columns_and_columns_may_hold_commas():
    header = ["a", "b", "last, first"]
    assert pick_columns(["a,b"], header, "--group") == ["a", "b"]
    assert pick_columns(["last, first", "a"], header, "--group") == ["last, first", "a"]
    assert pick_columns(["a", "a"], header, "--group") == ["a"]
    assert pick_columns(None, header, "--group") == []
    with pytest.raises(InputError, match="--group c: there is no such column; the table has a, b, last, first"):
        pick_columns(["c"], header, "--group")


@pytest.mark.parametrize(
    ("argv", "option"),
    [
        (["fit", "train.csv", "--label", "z", "--group", "sex", "-o", "m.skops"], "--label z"),
        (["fit", "train.csv", "--label", "y", "--group", "sex", "--drop", "z", "-o", "m.skops"], "--drop z"),
        (["frontier", "train.csv", "--label", "y", "--group", "sex,z", "-o", "out.csv"], "--group z"),
        (["audit", "train.csv", "--label", "y", "--group", "sex", "--prediction", "z"], "--prediction z"),
        (["predict", "train.csv", "train.csv", "--key", "z", "-o", "out.csv"], "--key z"),
    ],
)
def test_a_mistyped_column_is_found_by_the_header_before_scikit_learn_is_imported(process, train, argv, option):
    with open(train, "ab") as file:
        file.write(b"\xff" * 2**20)  # no text, so that whoever reads the rows fails
    code = f"import sys; from optfair.cli.main import main; print(main({argv!r}), 'sklearn' in sys.modules)"
    result = process("-c", code)
    assert result.stdout.split() == ["2", "False"], result.stderr
    assert f"{option}: there is no such column; the table has" in result.stderr and result.stderr.count("\n") == 1


def test_every_option_that_is_checked_exists():
    commands = next(action for action in make_parser()._actions if action.dest == "command").choices
    for command, options in COLUMN_OPTIONS.items():
        known = {action.dest for action in commands[command]._actions}
        assert known >= {*options, "file"}
        named = {action.dest for action in commands[command]._actions if action.metavar == "COLUMN"}
        assert named - {"scores", *options} == (
            {"group"} if command in ("predict", "explain", "report", "export") else set()
        )


def test_outcomes_are_the_classes_of_the_table():
    assert outcome_classes(["3", "1", "3"], [1, 2, 3]) == [3, 1]
    assert outcome_classes(None, [1, 2, 3]) is None
    assert outcome_classes(["1.0", "2", "1"], [1, 2, 3]) == [1, 2]  # a file that holds 1.0 is read as 1
    assert outcome_classes(["1.0", "no"], ["1", "1.0", "no"]) == ["1.0", "no"]
    with pytest.raises(InputError, match="--outcome 4: there is no such class; there are 1, 2, 3"):
        outcome_classes(["4"], [1, 2, 3])
    with pytest.raises(InputError, match=r"--outcome 1.0: there is no such class; there are False, True"):
        outcome_classes(["1.0"], [False, True])
