"""Test the wording of argument checks: the name, the value and the rule, one wording for each kind."""

import numpy as np
import pytest

from optfair.utils.checks import as_numbers, check_choice, check_integer, check_number, share_hint

CHOICES = ("dual", "lp")


def refuses(message, check, *arguments, **options):
    """Check that the message is exactly this one."""
    with pytest.raises(ValueError) as caught:
        check(*arguments, **options)
    assert str(caught.value) == message


def test_choice():
    assert check_choice("method", "lp", CHOICES) == "lp"
    refuses("method='simplex': must be one of 'dual', 'lp'.", check_choice, "method", "simplex", CHOICES)
    refuses("method=3: must be one of 'dual', 'lp'.", check_choice, "method", 3, CHOICES)
    refuses("method=['lp']: must be one of 'dual', 'lp'.", check_choice, "method", ["lp"], CHOICES)


def test_integer():
    for value in (2, np.int64(2), np.uint8(2)):
        assert check_integer("n", value, 1) == 2 and type(check_integer("n", value, 1)) is int
    for value in (0, -1, 2.0, "2", None, True, np.nan, 1j):
        refuses(f"n={value!r}: must be an integer >= 1.", check_integer, "n", value, 1)


@pytest.mark.parametrize(
    ("interval", "rule", "inside", "outside"),
    [
        ("[0, 1]", "a number in [0, 1]", (0, 1, 0.5), (-1e-9, 1.001, np.inf)),
        ("(0, 1]", "a number in (0, 1]", (1, 1e-300), (0, 1.001)),
        ("[0, 1)", "a number in [0, 1)", (0, 0.999), (1, -1)),
        ("(0, 1)", "a number in (0, 1)", (1e-300, 0.999), (0, 1)),
        ("(0, inf)", "a positive number", (1e-300, 1e300), (0, -1, np.inf)),
        ("[0, inf)", "a number >= 0", (0, 1e300), (-1e-300, np.inf)),
    ],
)
def test_number(interval, rule, inside, outside):
    for value in (*inside, *map(np.float64, inside)):
        assert check_number("x", value, interval) == value and type(check_number("x", value, interval)) is float
    for value in (*outside, np.nan, "0.5", None, True, np.bool_(True), [0.5], 1j):
        refuses(f"x={value!r}: must be {rule}.", check_number, "x", value, interval)


@pytest.mark.parametrize(
    ("check", "arguments", "rule"),
    [
        (check_choice, ("x", CHOICES), "must be one of 'dual', 'lp'"),
        (check_integer, (0.5, 1), "must be an integer >= 1"),
        (check_number, (2, "[0, 1]"), "must be a number in [0, 1]"),
    ],
)
def test_a_message_can_say_what_else_is_allowed(check, arguments, rule):
    refuses(f"name={arguments[0]!r}: {rule}, or None.", check, "name", *arguments, otherwise=", or None")


def test_numbers():
    for values in (3, [1, 2.5], [[1, 2], [3, 4]], np.float32([1, 2]), np.uint8([1])):
        array = as_numbers(values)
        assert array.dtype == np.float64
        np.testing.assert_array_equal(array, values)
    for values in ("a", ["1", "2"], [[1, 2], [3]], None, True, [1j], np.array(["2020"], "datetime64[s]")):
        assert as_numbers(values) is None


def test_a_percentage_is_questioned():
    assert share_hint(5) == share_hint(5.0) == "; did you mean 0.05?" and share_hint(100) == "; did you mean 1?"
    assert not any(map(share_hint, (0.5, 0, -5, 101, True, "5", None, float("nan"))))
    refuses("x=5: must be a number in [0, 1]; did you mean 0.05?", check_number, "x", 5, "[0, 1]", share_hint(5))
