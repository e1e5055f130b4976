"""Test paths of tolerances as JSON: all comes back but the keys, and what is not sound is refused."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from optfair import Constraint, MinimumRate, frontier, solve
from optfair.constraints import as_constraints
from optfair.errors import InfeasibleError
from optfair.rule.options import Options
from optfair.rule.path_file import path_content, path_from_content
from optfair.rule.problem import FairProblem
from optfair.rule.tolerance_path import loosest_constraints, path_obstacle, readable_tolerances, tolerance_path
from tests.problems import blind, compiled, costs
from tests.rule.helpers import assert_same

SAME = {"random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def small(Z):
    return frontier(Z, "dp", [0.1, 0.02, 0.0], groups=["a", "b", "c"], classes=["low", "mid", "high"], **SAME)


def through_json(path):
    return json.loads(json.dumps(path_content(path), allow_nan=False))


@pytest.mark.parametrize(
    "options",
    [
        {"criterion": "dp"},
        {"criterion": ["eo", MinimumRate("recall", 0.05)]},
        {"criterion": "dp", "costs": costs(0)},
        {"criterion": "dp", "groups": pd.MultiIndex.from_tuples([("f", 1), ("m", 1), ("m", 2)], names=["s", 3])},
        {"criterion": Constraint("dp", attributes="intersections"), "classes": [1.5, True, "x"]},
    ],
    ids=["dp", "several", "costs", "attributes", "names"],
)
def test_a_path_comes_back(Z, options):
    path, rule = frontier(Z, tolerances=4, **options, **SAME), solve(Z, **options, **SAME)
    copy = path_from_content(through_json(path), rule)
    pd.testing.assert_frame_equal(copy.table, path.table)
    assert copy.constant == path.constant and copy.unconstrained == path.unconstrained
    assert copy.has_costs == path.has_costs and copy.area() == path.area()
    for one, other in zip(copy.rules, path.rules, strict=True):
        assert_same(one, replace(other, key=rule.key))  # the key is that of the rule in use
        np.testing.assert_array_equal(one.terms.matrix().toarray(), other.terms.matrix().toarray())
        np.testing.assert_array_equal(one.terms.multipliers, other.terms.multipliers)


def test_no_key_and_no_name_twice(small):
    text = json.dumps(path_content(small))
    for rule in small.rules:
        assert rule.key.hex() not in text
    assert text.count('"overall"') == len(small.rules[0].multipliers)  # once, not for every rule
    assert '"key"' not in text


MALFORMED = {
    "a field too many": lambda c: c.update(more=1),
    "no rules": lambda c: c.update(rules=[]),
    "a rule too few": lambda c: c["rules"].pop(),
    "a column too few": lambda c: c["table"].pop("gap"),
    "tolerances that rise": lambda c: c["table"]["tolerance"].reverse(),
    "a tolerance twice": lambda c: c["table"].update(tolerance=[0.1, 0.1, 0.0]),
    "a tolerance above one": lambda c: c["table"]["tolerance"].__setitem__(0, 2.0),
    "a number that is none": lambda c: c["table"]["accuracy"].__setitem__(0, {"float": "nan"}),
    "pareto as numbers": lambda c: c["table"].update(pareto=[1, 1, 0]),
    "other classes": lambda c: c["common"]["classes"].update(labels=["x", "y", "z"]),
    "other groups": lambda c: c["common"]["groups"].update(labels=["x", "y", "z"]),
    "a point that is none": lambda c: c["constant"].pop(),
    "an infinite point": lambda c: c["unconstrained"].__setitem__(0, 10**400),
    "weights that are no sum": lambda c: c["rules"][1]["weights"][0][0].__setitem__(0, 5.0),
    "an infinite weight": lambda c: c["rules"][1]["weights"][0][0].__setitem__(0, 10**400),
    "multipliers of fewer rows": lambda c: c["rules"][1]["terms"].pop(),
    "a certificate too few": lambda c: c["rules"][0].pop("certificate"),
    "names of fewer rows": lambda c: c["common"]["rows"]["group"].pop(),
    "costs that are no truth value": lambda c: c.update(has_costs=0),
    "a text for rules": lambda c: c.update(rules="rules"),
}


@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
def test_malformed_paths_are_refused(small, change):
    content = through_json(small)
    path_from_content(content, small.rules[0])
    change(content)
    with pytest.raises((ValueError, KeyError, TypeError, OverflowError, AttributeError)):
        path_from_content(content, small.rules[0])


# -- how paths are made --------------------------------------------------------------------------------------
def problem_of(Z, criterion, **options):
    posterior, _ = compiled(Z, criterion, 1.0 if isinstance(criterion, str) else None)
    constraints = loosest_constraints(as_constraints(criterion))
    return FairProblem.prepare(posterior, constraints, None, Options(random_state=0, **options))


def test_readable_tolerances_have_four_digits_and_begin_where_nothing_binds(Z):
    problem = problem_of(Z, "dp")
    tolerances = readable_tolerances(problem, 10)
    exact = frontier(Z, "dp", 10, **SAME).table["tolerance"].to_numpy()
    assert len(tolerances) == 10 and all(t == float(f"{t:.4g}") for t in tolerances)
    np.testing.assert_allclose(tolerances, exact, rtol=1e-3)
    assert exact[0] <= tolerances[0] and sorted(tolerances, reverse=True) == tolerances
    assert not tolerance_path(problem, tolerances[:1]).rules[0].multipliers["multiplier"].any()


def test_people_who_are_all_alike_have_one_tolerance():
    Z = np.full((20, 2, 2), 0.25)
    assert readable_tolerances(problem_of(Z, "dp"), 5) == [0.0]


def test_a_path_ends_where_other_constraints_allow_no_rule():
    """Every group has a class of its own, nine of ten of which must be recognised: no gap below .56 is possible."""
    own_class = np.eye(3)[np.arange(90) % 3]
    Z = 0.02 * blind(0, 90) + 0.98 * own_class[:, :, None] * own_class[:, None]
    problem = problem_of(Z, [Constraint("dp"), MinimumRate("recall", 0.9, by="overall")])
    tolerances = [0.66, 0.6, 0.3, 0.001]
    with pytest.raises(InfeasibleError):
        tolerance_path(problem, tolerances)
    path = tolerance_path(problem, tolerances, stops_early=True)
    assert len(path.rules) == 2 and path.table["tolerance"].tolist() == tolerances[:2]
    with pytest.raises(InfeasibleError):
        tolerance_path(problem, [0.001], stops_early=True)


def test_what_stands_in_the_way_of_a_path():
    assert path_obstacle(as_constraints("dp")) == ""
    assert path_obstacle([MinimumRate("recall", 0.1)]).startswith("a frontier needs a criterion with a tolerance")
    assert path_obstacle([Constraint("dp", {"a": 0.1})]).startswith("a tolerance per group does not move")
