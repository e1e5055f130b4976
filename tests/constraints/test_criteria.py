"""Test the descriptions of constraints: their names, their defaults, and what they refuse."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from optfair import Constraint, MinimumRate, Ratio, Rows
from optfair.constraints import as_constraints
from optfair.constraints.criteria import CRITERIA
from optfair.errors import NotLinearError, OptFairWarning


@pytest.mark.parametrize("short, long", CRITERIA.items())
def test_long_and_short_names_are_the_same_criterion(short, long):
    for spelling in (short, long, long.upper(), long.replace("_", "-"), f" {long.replace('_', ' ')} "):
        assert Constraint(spelling) == Constraint(short)


def test_lists_complete_names_and_leave_objects_alone():
    odds = Constraint("eo", 0.2)
    constraints = as_constraints(("dp", odds, "oae"), tolerance=0.05, reference="pairwise")
    assert constraints == [Constraint("dp", 0.05, "pairwise"), odds, Constraint("oae", 0.05, "pairwise")]
    assert as_constraints("dp") == [Constraint("dp", 0.01, "overall")]


ONE = np.ones((1, 12))
BAD_DESCRIPTIONS = [
    (lambda: Constraint("fairness"), r"criterion='fairness': unknown\. Use one of dp, eop, eo, meo, oae"),
    (lambda: Constraint(3), r"criterion=3: unknown"),
    (lambda: Constraint("ppv"), r"criterion='ppv': predictive values divide by .* not linear in the confusion tensor"),
    (lambda: Constraint("Predictive Parity"), r"predictive values divide by"),
    (lambda: Ratio("npv"), r"predictive values divide by"),
    (lambda: Constraint("dp", -0.1), r"tolerance=-0\.1: must be a number in \[0, 1\]"),
    (lambda: Constraint("dp", 1.5), r"tolerance=1\.5: must be"),
    (lambda: Constraint("dp", 5), r"^tolerance=5: must be a number in \[0, 1\]; did you mean 0\.05\?$"),
    (lambda: Constraint("dp", {"f": 2.5}), r"tolerance\['f'\]=2\.5: must be .*; did you mean 0\.025\?$"),
    (lambda: Constraint("dp", 500), r"^tolerance=500: must be a number in \[0, 1\]\.$"),
    (lambda: Constraint("dp", float("nan")), r"tolerance=nan: must be"),
    (lambda: Constraint("dp", True), r"tolerance=True: must be"),
    (lambda: Constraint("dp", "0.1"), r"tolerance='0\.1': must be"),
    (lambda: Constraint("dp", {"f": 2}), r"tolerance\['f'\]=2: must be a number in \[0, 1\]"),
    (lambda: Constraint("dp", {"f": 0.1}, "pairwise"), r"a tolerance per group needs reference='overall'"),
    (lambda: Constraint("dp", reference="mean"), r"reference='mean': must be one of 'overall', 'pairwise'"),
    (lambda: Constraint("oae", outcomes=[1]), r"outcomes: overall accuracy equality speaks of all classes"),
    (lambda: Ratio("meo"), r"criterion='meo': the ratio rule compares single rates"),
    (lambda: Ratio("oae", outcomes=[1]), r"outcomes: overall accuracy equality speaks of all classes"),
    (lambda: Ratio("dp", 0), r"minimum=0: must be a number in \(0, 1\]"),
    (lambda: Ratio("dp", 1.2), r"minimum=1\.2: must be a number in \(0, 1\]"),
    (lambda: Ratio("dp", reference=None), r"reference=None: must be one of"),
    (lambda: MinimumRate("precision", 0.5), r"rate='precision': must be one of 'recall', 'selection', 'accuracy'"),
    (lambda: MinimumRate("recall", 7), r"minimum=7: must be a number in \[0, 1\]"),
    (lambda: MinimumRate("recall", 0.5, by="class"), r"by='class': must be one of 'group', 'overall'"),
    (lambda: MinimumRate("accuracy", 0.5, outcomes=[0]), r"outcomes: accuracy speaks of all classes"),
    (lambda: Rows(np.ones((2, 3, 4)), upper=1), r"Rows: D has shape \(2, 3, 4\); expected"),
    (lambda: Rows(np.ones((0, 12)), upper=1), r"Rows: D has no rows"),
    (lambda: Rows(np.full((1, 12), np.nan), upper=1), r"Rows: D holds NaN or infinite entries"),
    (lambda: Rows(ONE, upper=[1, 2]), r"Rows: upper has shape \(2,\); expected a number or \(1,\)"),
    (lambda: Rows(ONE, lower=[[1]]), r"Rows: lower has shape \(1, 1\); expected a number or \(1,\)"),
    (lambda: Rows(ONE, lower=1, upper=0), r"Rows: every lower bound must be a number at most its upper bound"),
    (lambda: Rows(ONE, lower=np.nan), r"Rows: every lower bound must be a number"),
    (lambda: Rows(ONE), r"Rows: a row with two infinite bounds constrains nothing"),
    (lambda: Rows(ONE, upper=1, names=["a", "b"]), r"Rows: 2 names for 1 rows"),
    (lambda: Rows(ONE * 1j, upper=1), r"Rows: D is complex; must be real numbers"),
    (lambda: Rows(sparse.csr_array(ONE * 1j), upper=1), r"Rows: D is complex; must be real numbers"),
    (lambda: Rows(ONE, upper=1j), r"Rows: upper is complex; must be real numbers"),
    (lambda: as_constraints([]), r"criterion: the list is empty"),
    (lambda: as_constraints({}), r"criterion: the list is empty"),
    (lambda: as_constraints({"dp": 0.1}, tolerance=0.1), r"tolerance: already set in the mapping of criteria"),
    (
        lambda: as_constraints({Ratio("dp"): 0.1}),
        r"criterion: a mapping goes from names .* constraint objects as a list",
    ),
    (lambda: as_constraints({"dp": 2}), r"tolerance=2: must be a number in \[0, 1\]"),
    (lambda: as_constraints(5), r"criterion=5: unknown"),
    (lambda: as_constraints(Constraint("dp"), tolerance=0.1), r"tolerance: already set in the constraint objects"),
    (lambda: as_constraints([Ratio("dp")], reference="overall"), r"reference: already set in the constraint objects"),
]


@pytest.mark.parametrize("make, message", BAD_DESCRIPTIONS, ids=[message for _, message in BAD_DESCRIPTIONS])
def test_bad_descriptions_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_mapping_gives_each_criterion_its_own_tolerance():
    expected = [Constraint("dp", 0.2, "pairwise"), Constraint("eo", 0.05, "pairwise")]
    assert as_constraints({"dp": 0.2, "equalized_odds": 0.05}, reference="pairwise") == expected
    assert as_constraints({"dp": {"f": 0.1}}) == [Constraint("dp", {"f": 0.1})]


def test_criteria_that_are_not_linear_have_an_error_of_their_own():
    for name in ("ppv", "npv", "precision", "predictive parity"):
        with pytest.raises(NotLinearError):
            Constraint(name)
    with pytest.raises(ValueError) as caught:
        Constraint("fairness")
    assert not isinstance(caught.value, NotLinearError)


@pytest.mark.parametrize("one", [1, np.int64(1)])
def test_a_tolerance_of_1_is_questioned_and_one_of_1_0_is_not(one):
    """Everybody who wants no constraint may say so: 1.0."""
    for tolerance, name in ((one, "tolerance"), ({"f": one}, "tolerance['f']")):
        with pytest.warns(
            OptFairWarning, match=re.escape(f"{name}=1: constrains nothing, because no two rates")
        ) as log:
            constraint = Constraint("dp", tolerance)
        assert len(log) == 1 and log[0].filename == __file__ and constraint.strictest == 1.0
    assert Constraint("dp", 1.0).tolerance == 1.0
    assert replace(constraint, reference="overall").strictest == 1.0  # what is read once is not questioned again


def test_the_strictest_tolerance():
    assert Constraint("dp", 0.2).strictest == 0.2
    assert Constraint("dp", {"f": 0.3, "m": 0.1}).strictest == 0.1


def test_descriptions_are_frozen():
    constraint = Constraint("dp", 0.2)
    with pytest.raises(AttributeError):
        constraint.tolerance = 0.5
