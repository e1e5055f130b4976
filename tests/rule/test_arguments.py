"""Test bad arguments of `solve` and `frontier`: a line that names the argument, the value and the rule."""

import numpy as np
import pandas as pd
import pytest

import optfair
from optfair import Constraint, MinimumRate, Ratio, Rows
from tests.problems import blind

N, A, M = 30, 3, 2
Z = blind(0, N, A, M)
Z.flags.writeable = False


def changed(row, value):
    """Return Z with an entry of a row replaced."""
    bad = Z.copy()
    bad[row, 0, 0] = value
    return bad


def refuses(function, message, *args, **options):
    """Check that the call raises a ValueError of exactly one line that matches."""
    with pytest.raises(ValueError, match=message) as caught:
        function(*args, n_jobs=options.pop("n_jobs", 1), **options)
    assert "\n" not in str(caught.value) and str(caught.value).endswith((".", "?"))
    assert len(str(caught.value)) < 300


both = pytest.mark.parametrize("function", [optfair.solve, optfair.frontier])


def test_the_arguments_are_good_without_a_change():
    assert optfair.solve(Z, n_jobs=1).certificate.excess == 0


# -- Z ------------------------------------------------------------------------------------------------------
BAD_Z = {
    "2-d": (Z[0], r"^Z: has shape \(3, 2\); expected \(n, n_groups, n_classes\)\.$"),
    "4-d": (Z[None], r"^Z: has shape \(1, 30, 3, 2\); expected \(n, n_groups, n_classes\)\.$"),
    "flat": (Z.reshape(N, -1), r"^Z: has shape \(30, 6\)"),
    "a number": (0.5, r"^Z: has shape \(\); expected"),
    "nothing": (None, r"^Z: has dtype object; expected an array of probabilities\.$"),
    "NaN": (changed(4, np.nan), r"^Z: row 4 holds NaN or infinite values; each row must be probabilities"),
    "inf": (changed(5, np.inf), r"^Z: row 5 holds NaN or infinite values"),
    "-inf": (changed(6, -np.inf), r"^Z: row 6 holds NaN or infinite values"),
    "inf and -inf": (np.where(np.arange(M) == 0, np.inf, -np.inf) + 0 * Z, r"^Z: row 0 holds NaN or infinite values"),
    "overflow": (np.full((2, A, M), 1e308), r"^Z: row 0 holds NaN or infinite values"),
    "negative": (
        np.array([[[0.5, 0.5], [0, 0]], [[1.25, -0.25], [0, 0]]]),
        r"^Z: row 1 holds -0\.25; probabilities cannot be negative\.$",
    ),
    "sums": (Z * 1.01, r"^Z: row 0 sums to 1\.01; each row must be probabilities that sum to 1\.$"),
    "zero row": (Z * (np.arange(N) != 3)[:, None, None], r"^Z: row 3 sums to 0; each row"),
    "counts": (np.ones((4, 2, 2), dtype=int), r"^Z: row 0 sums to 4; each row"),
    "one class": (
        Z.sum(axis=2, keepdims=True),
        r"^Z: has shape \(30, 3, 1\); at least two classes are needed to choose from\.$",
    ),
    "no class": (Z[:, :, :0], r"^Z: has shape \(30, 3, 0\); at least two classes"),
    "no rows": (Z[:0], r"^Z: has shape \(0, 3, 2\); it needs at least one row and one group\.$"),
    "no group": (Z[:, :0], r"^Z: has shape \(30, 0, 2\); it needs at least one row and one group\.$"),
    "text": (Z.astype(str), r"^Z: has dtype <U32; expected an array of probabilities\.$"),
    "objects": (Z.astype(object), r"^Z: has dtype object; expected an array of probabilities\.$"),
    "complex": (Z.astype(complex), r"^Z: has dtype complex128; expected an array of probabilities\.$"),
    "dates": (np.zeros((2, 2, 2), "datetime64[s]"), r"^Z: has dtype datetime64\[s\]; expected"),
    "ragged": ([[[0.5, 0.5]], [[0.5]]], r"^Z: its rows have different lengths; expected"),
    "a frame": (pd.DataFrame(Z.reshape(N, -1)), r"^Z: has shape \(30, 6\)"),
}


@both
@pytest.mark.parametrize(("bad", "message"), BAD_Z.values(), ids=BAD_Z)
def test_z(function, bad, message):
    refuses(function, message, bad)


def test_the_row_named_is_counted_from_the_start_of_all_rows():
    repeated = np.repeat(Z, 3000, axis=0)
    repeated[70_001] = np.nan
    for n_jobs in (1, 2):
        refuses(optfair.solve, r"^Z: row 70001 holds NaN", repeated, n_jobs=n_jobs)


def test_sums_within_rounding_are_accepted():
    assert optfair.solve(Z.astype(np.float16), n_jobs=1).certificate.gap < 0.01
    assert optfair.solve(Z * 1.0005, n_jobs=1).certificate.gap < 0.01


# -- names --------------------------------------------------------------------------------------------------
BAD_NAMES = {
    "too few": (lambda size: ["a"], r"{of}: 1 names given, but Z has {size} of them\.$"),
    "too many": (lambda size: list(range(size + 1)), r"{of}: {more} names given, but Z has {size} of them\.$"),
    "a set": (lambda size: {"a"}, r"{of}=.*: must be a list of names\.$"),
    "twice": (lambda size: ["a"] * size, r"{of}: holds a name twice, .a., among \d; name each one once\.$"),
    "twice, other type": (lambda size: [1, True, 2][:size], r"{of}: holds a name twice, True"),
    "None": (lambda size: [None, "b", "c"][:size], r"{of}: a name is missing \(NaN or None\)"),
    "NaN": (lambda size: [np.nan, 1.0, 2.0][:size], r"{of}: a name is missing \(NaN or None\)"),
    "NaT": (lambda size: pd.DatetimeIndex([pd.NaT, "2020", "2021"][:size]), r"{of}: a name is missing"),
    "text": (lambda size: "abc"[:size], r"{of}='abc?': must be a list of names\.$"),
    "a number": (lambda size: size, r"{of}=\d: must be a list of names\.$"),
    "empty": (lambda size: [], r"{of}=\[\]: is empty; name each one once\.$"),
    "lists": (lambda size: [[1], [2], [3]][:size], r"{of}=.*: must be hashable names"),
}


@both
@pytest.mark.parametrize(("of", "size"), [("groups", A), ("classes", M)])
@pytest.mark.parametrize(("names", "message"), BAD_NAMES.values(), ids=BAD_NAMES)
def test_names(function, of, size, names, message):
    refuses(function, "^" + message.format(of=of, size=size, more=size + 1), Z, **{of: names(size)})


def test_a_missing_name_of_one_attribute():
    groups = pd.MultiIndex.from_tuples([("a", 1), ("b", None), ("c", 2)])
    refuses(optfair.solve, r"^groups: a name is missing", Z, groups=groups)


def test_classes_have_one_attribute():
    classes = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    refuses(optfair.solve, r"^classes: must be plain names, not a MultiIndex\.$", Z, classes=classes)


# -- weights ------------------------------------------------------------------------------------------------
BAD_WEIGHTS = {
    "short": (np.ones(N - 1), r"^sample_weight: has shape \(29,\); must be \(30,\), one number per row\.$"),
    "2-d": (np.ones((N, 1)), r"^sample_weight: has shape \(30, 1\); must be \(30,\)"),
    "a number": (1.0, r"^sample_weight: has shape \(\); must be \(30,\)"),
    "negative": (np.r_[-2.0, np.ones(N - 1)], r"^sample_weight: 1 values are negative \(the least is -2\)\.$"),
    "NaN": (np.r_[np.nan, np.ones(N - 1)], r"^sample_weight: 1 values are NaN or infinite; must be finite\.$"),
    "inf": (np.r_[np.inf, np.inf, np.ones(N - 2)], r"^sample_weight: 2 values are NaN or infinite"),
    "zero": (np.zeros(N), r"^sample_weight: all 30 values are zero; at least one row must count\.$"),
    "text": (["a"] * N, r"^sample_weight: must be numbers, one per row\.$"),
}


@both
@pytest.mark.parametrize(("bad", "message"), BAD_WEIGHTS.values(), ids=BAD_WEIGHTS)
def test_sample_weight(function, bad, message):
    refuses(function, message, Z, sample_weight=bad)


# -- the criterion ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("tolerance", [-0.01, 101, np.nan, np.inf, True, np.bool_(False), "0.1", [0.1], 1j], ids=repr)
def test_tolerance(tolerance):
    refuses(optfair.solve, r"^tolerance=.*: must be a number in \[0, 1\]\.$", Z, "dp", tolerance)
    refuses(lambda n_jobs: Constraint("dp", tolerance), r"^tolerance=.*: must be a number in \[0, 1\]\.$")


def test_tolerance_shows_the_value():
    refuses(optfair.solve, r"^tolerance=-0\.01: must be", Z, "dp", -0.01)
    refuses(optfair.solve, r"^tolerance\[1\]=2: must be a number in \[0, 1\]; did you mean 0\.02\?$", Z, "dp", {1: 2})
    refuses(optfair.solve, r"^tolerance: 7 is not a group; they are \[0, 1, 2\]\.$", Z, "dp", {7: 0.1})
    refuses(optfair.solve, r"per group needs reference='overall'\.$", Z, "dp", {1: 0.1}, reference="pairwise")


@both
@pytest.mark.parametrize("criterion", ["fairness", "", 5, None, ["dp", "fairness"], {"eo": 0.1, "x": 0.2}, object])
def test_unknown_criterion(function, criterion):
    refuses(function, r"^criterion=.*: unknown\. Use one of dp, eop, eo, meo, oae ", Z, criterion)


@both
def test_predictive_parity_is_explained(function):
    refuses(function, r"^criterion='ppv': predictive values divide by the rule's own predictions", Z, "ppv")


@both
@pytest.mark.parametrize("empty", [[], (), iter([])])
def test_no_criterion(function, empty):
    refuses(function, r"^criterion: the list is empty; give at least one constraint\.$", Z, empty)


@pytest.mark.parametrize(
    "options", [{"tolerance": 0.1}, {"reference": "pairwise"}, {"outcomes": [0]}, {"attributes": "both"}]
)
@pytest.mark.parametrize("criterion", [Constraint("dp"), [Constraint("dp"), Ratio("dp")]])
def test_what_an_object_says_is_not_said_again(criterion, options):
    name = next(iter(options))
    message = rf"^{name}: already set in the constraint objects; leave it out here\.$"
    refuses(optfair.solve, message, Z, criterion, **options)


@both
def test_reference(function):
    refuses(function, r"^reference='best': must be one of 'overall', 'pairwise'\.$", Z, reference="best")
    one_group = Z.sum(axis=1, keepdims=True)
    refuses(function, r"^reference='pairwise': needs at least two groups", one_group, reference="pairwise")


@both
@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        ("high", r"^outcomes='high': must be a list of classes, e\.g\. \['high'\]\.$"),
        (1, r"^outcomes=1: must be a list of classes"),
        (["none"], r"^outcomes=\['none'\]: 'none' is not a class; the classes are \['low', 'high'\]\.$"),
        ([], r"^outcomes=\[\]: the list is empty; the classes are \['low', 'high'\]\.$"),
    ],
)
def test_outcomes(function, outcomes, message):
    refuses(function, message, Z, classes=["low", "high"], outcomes=outcomes)


def test_outcomes_of_a_criterion_that_has_none():
    refuses(optfair.solve, r"^outcomes: overall accuracy equality speaks of all classes", Z, "oae", outcomes=[0])


@both
def test_attributes(function):
    refuses(
        function, r"^attributes='both': there is one attribute, .*groups= as a pandas MultiIndex", Z, attributes="both"
    )
    refuses(
        function,
        r"^attributes=\['sex'\]: there is one attribute, .*groups= as a pandas MultiIndex",
        Z,
        attributes=["sex"],
    )
    groups = pd.MultiIndex.from_tuples([("f", 1), ("m", 1), ("m", 2)], names=["sex", "age"])
    refuses(function, r"^attributes='all': must be 'intersections'", Z, groups=groups, attributes="all")
    refuses(
        function, r"'race' is not an attribute; they are \['sex', 'age'\]\.$", Z, groups=groups, attributes=["race"]
    )
    refuses(function, r"^attributes=\[\]: the list is empty", Z, groups=groups, attributes=[])


def test_rows_and_rates():
    refuses(
        optfair.solve,
        r"^Rows: D has 5 columns; with 3 groups and 2 classes it needs 12\.$",
        Z,
        Rows(np.ones((1, 5)), 0),
    )
    for wrong, message in (
        (lambda n_jobs: Rows(np.ones(3), 0), r"^Rows: D has shape \(3,\)"),
        (lambda n_jobs: Rows(np.ones((1, 12))), r"^Rows: a row with two infinite bounds"),
        (lambda n_jobs: Rows(np.ones((1, 12)), 1, 0), r"^Rows: every lower bound must be a number at most"),
        (lambda n_jobs: Ratio("dp", 0), r"^minimum=0: must be a number in \(0, 1\]\.$"),
        (lambda n_jobs: Ratio("meo"), r"^criterion='meo': the ratio rule compares single rates"),
        (
            lambda n_jobs: MinimumRate("precision", 0.5),
            r"^rate='precision': must be one of 'recall', 'selection', 'acc",
        ),
        (lambda n_jobs: MinimumRate("recall", 1.5), r"^minimum=1\.5: must be a number in \[0, 1\]\.$"),
    ):
        refuses(wrong, message)


def test_a_criterion_whose_cells_are_all_empty():
    alone = np.zeros((4, 2, 2))
    alone[:, 0] = 0.5
    refuses(optfair.solve, r"^criterion: none of its rows can be formed, their cells are empty: ", alone, "eo",
            reference="pairwise")  # fmt: skip


# -- utilities ----------------------------------------------------------------------------------------------
@both
@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (np.ones((3, 3)), r"^costs: has shape \(3, 3\); expected \(2, 2\) or \(3, 2, 2\), true class by predicted\.$"),
        (np.ones(2), r"^costs: has shape \(2,\); expected"),
        (1.0, r"^costs: has shape \(\); expected"),
        ([[0, np.nan], [1, 0]], r"^costs: holds NaN or infinite values\.$"),
        ([[0, np.inf], [1, 0]], r"^costs: holds NaN or infinite values\.$"),
        (
            [[0, 1e308], [-1e308, 0]],
            r"^costs: holds 1e\+308; must be at most 1e\+100\. Divide all costs by one number\.$",
        ),
        ([[0, 1j], [1, 0]], r"^costs: must be numbers, true class by predicted\.$"),
        ("zero-one", r"^costs: must be numbers, true class by predicted\.$"),
        ([[0, 1], [1]], r"^costs: must be numbers, true class by predicted\.$"),
    ],
)
def test_costs(function, costs, message):
    refuses(function, message, Z, costs=costs)


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (np.zeros((N, 3)), r"^offset: has shape \(30, 3\); expected numbers of shape \(30, 2\)\.$"),
        (np.zeros(N), r"^offset: has shape \(30,\); expected"),
        (np.full((N, M), np.nan), r"^offset: holds NaN or infinite values\.$"),
        (np.full((N, M), 1e200), r"^offset: holds 1e\+200; must be at most 1e\+100\. Divide it and the costs by one"),
        (np.full((N, M), "a"), r"^offset: .*expected numbers of shape \(30, 2\)\.$"),
    ],
)
def test_offset(offset, message):
    refuses(optfair.solve, message, Z, offset=offset)


# -- options ------------------------------------------------------------------------------------------------
BAD_OPTIONS = [
    *(("temperature", value, r"must be 'auto' or positive numbers\.$")
      for value in (0, 0.0, -1, np.nan, np.inf, "hot", None, True, [0.1, 0.1, 0], ["a", "b", "c"], 1j)),
    *(("gap", value, r"must be a positive number\.$") for value in (0, -1e-3, np.nan, np.inf, "small", None, True)),
    *(("max_multiplier", value, r"must be a positive number\.$") for value in (0, -1, np.nan, np.inf, "big", True)),
    *(("method", value, r"must be one of 'dual', 'lp'\.$") for value in ("newton", None, 3)),
    *(("n_jobs", value, r"must be None, -1 or a positive integer\.$") for value in (0, 1.5, "all", True)),
    *(("max_passes", value, r"must be an integer >= 1\.$") for value in (0, -1, 2.5, None, True, "10")),
    *(("random_state", value, r"must be an integer >= 0\.$") for value in (-1, 1.5, "seed", True)),
]  # fmt: skip


@both
@pytest.mark.parametrize(("name", "value", "rule"), BAD_OPTIONS)
def test_options(function, name, value, rule):
    refuses(function, rf"^{name}=.*: {rule}", Z, **{name: value})


@pytest.mark.parametrize("value", [0, -1.0, "hot"])
def test_options_are_checked_even_where_they_would_not_be_used(value):
    """At tolerance 1 nothing is left to solve."""
    refuses(optfair.solve, rf"^temperature={value!r}: must be", Z, "dp", 1.0, temperature=value)
    refuses(optfair.solve, r"^start: must be a FairRule, got int\.$", Z, "dp", 1.0, start=3)


@pytest.mark.parametrize("shape", [(2,), (2, 3), (3, 3), (1,), (1, 3, 2)])
def test_temperature_shape(shape):
    message = rf"^temperature: has shape \({shape[0]},.*\); expected a number, \(3,\) or \(3, 2\)\.$"
    refuses(optfair.solve, message, Z, "eo", 0.001, temperature=np.full(shape, 0.1))


@pytest.mark.parametrize("start", [0, "rule", np.zeros(3), object()])
def test_start(start):
    refuses(optfair.solve, rf"^start: must be a FairRule, got {type(start).__name__}\.$", Z, start=start)


def test_the_linear_program_is_for_small_n():
    large = np.tile(Z, (33_334, 1, 1))
    message = r"^method='lp': 2000040 variables; it is for at most 2000000\. Use method='dual'\.$"
    refuses(optfair.solve, message, large, "eo", 0.001, method="lp")


def test_the_linear_program_has_no_bound_on_its_multipliers():
    message = r"^max_multiplier: the exact program has no bound on its multipliers; use method='dual'\.$"
    refuses(optfair.solve, message, Z, "dp", 0.01, max_multiplier=1.0, method="lp")


@pytest.mark.parametrize("n_jobs", [-1, None, 2, np.int64(1)])
def test_good_n_jobs(n_jobs):
    assert optfair.solve(Z, n_jobs=n_jobs).certificate.excess == 0


# -- frontier only ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "value", [1, 0, -3, True, 2.5, [], [0.1, -0.1], [1.5], [np.nan], ["a"], "abc", [[0.1]], None], ids=repr
)
def test_tolerances(value):
    refuses(
        optfair.frontier,
        r"^tolerances=.*: must be (at least 2|an integer or a list of numbers in \[0, 1\])",
        Z,
        "dp",
        value,
    )


def test_tolerances_in_per_cent():
    refuses(optfair.frontier, r"^tolerances=\[5, 1\]: must be .* in \[0, 1\]; did you mean 0\.05\?$", Z, "dp", [5, 1])
    assert len(optfair.frontier(Z, "dp", [1, 0.1]).rules) == 2  # the loosest end of a path may be 1


def test_a_tolerance_per_group_does_not_move_along_a_frontier():
    message = r"^criterion: a tolerance per group does not move along a frontier; give a number\.$"
    refuses(optfair.frontier, message, Z, Constraint("dp", {0: 0.01}), [0.05])


def test_a_frontier_needs_a_tolerance():
    refuses(optfair.frontier, r"^criterion: a frontier needs a criterion with a tolerance", Z, Ratio("dp", 0.8))
    refuses(
        optfair.frontier, r"^criterion: a frontier needs a criterion with a tolerance", Z, [MinimumRate("recall", 0.1)]
    )


@pytest.mark.parametrize("test", [3, (), (Z,), (Z, [0] * N), (Z, [0] * N, [0] * N, None, None, None), "abcde"])
def test_test_data(test):
    parts = "Z_test, y_test, groups_test"
    message = rf"^test: must be \({parts}\), \({parts}, weights\) or \({parts}, weights, clusters\)\.$"
    refuses(optfair.frontier, message, Z, "dp", 3, test=test)


def test_unknown_options_are_a_type_error():
    for name in ("tolerance", "start", "colour"):
        with pytest.raises(TypeError, match=name):
            optfair.frontier(Z, "dp", 3, **{name: None})


@pytest.mark.parametrize(("scale", "least"), [(1.0, "1e-09"), (1e6, "0.001")])
def test_a_bound_on_multipliers_that_rounding_would_swallow(scale, least):
    """In units of the costs: 1e-300 took more than a minute, and said nothing about the rule it gave."""
    costs = scale * (1 - np.eye(M))
    message = rf"^max_multiplier=1e-300: must be a number >= {least}; below, no rule differs from the unconstrained one"
    refuses(optfair.solve, message, Z, "dp", 0.01, costs=costs, max_multiplier=1e-300)
    optfair.solve(Z, "dp", 0.01, costs=costs, max_multiplier=1.001 * float(least))


def test_a_mapping_of_criteria_is_a_list_of_constraints():
    rule = optfair.solve(Z, {"dp": 0.2, "eo": 0.1}, random_state=0)
    same = optfair.solve(Z, [Constraint("dp", 0.2), Constraint("eo", 0.1)], random_state=0)
    assert rule.certificate.tolerance == (0.2, 0.1)
    np.testing.assert_array_equal(rule.weights, same.weights)
