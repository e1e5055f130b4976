"""Check that a gap which the model underestimates is told, where that is beyond chance, and nowhere else."""

import numpy as np
import pytest

import optfair
from optfair.constraints import Constraint, MinimumRate
from optfair.metrics.counts import count_codes
from optfair.reporting.findings import CODES
from optfair.reporting.measuring import make_report, normalise_rows
from optfair.reporting.rule_words import LIKELIEST_ANSWERS
from optfair.rule.promise import held_out_promise
from tests.problems import blind

A, M, N = 3, 3, 4000
GROUPS, CLASSES = ["a", "b", "c"], ["low", "mid", "high"]
FITTING = {"seconds": {"solve": 0.5}, "n_fits": 6}


def world(blurred, constraints, n=N, facts=FITTING, name="fair rule", **options):
    """Return (report, rule) on n people drawn from Z. blurred : whether the rule's model cannot tell groups apart."""
    rng = np.random.default_rng(0)
    Z = blind(0, n, A, M)
    cell = (Z.reshape(n, -1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    group, y = np.divmod(cell, M)
    if blurred:  # by these estimates every rule has equal rates
        Z = np.repeat(Z.sum(axis=1, keepdims=True) / A, A, axis=1)
    rule = optfair.solve(Z, constraints, groups=GROUPS, classes=CLASSES, random_state=0)
    h = normalise_rows(rule.predict_proba(Z))
    answers = h.argmax(axis=1) if name == LIKELIEST_ANSWERS else h
    counts = {name: count_codes(group, y, answers, None, rule.groups, rule.classes)}
    return make_report("title", constraints, counts, rule=rule, **facts, **options), rule


def finding_of(report):
    """Return the finding about the estimated gap, or None."""
    return next((finding for finding in report.findings if finding.code == "OF021"), None)


@pytest.mark.parametrize("facts", [FITTING, {}], ids=["fitted on", "others"])
@pytest.mark.parametrize("name", ["fair rule", LIKELIEST_ANSWERS])
def test_a_gap_that_the_estimates_hide_is_told(facts, name):
    report, rule = world(True, [Constraint("dp", 0.01)], facts=facts, name=name)
    finding, table = finding_of(report), report.constraints
    assert CODES["OF021"] == finding.severity == "caution"
    measured, surely = table["value"].abs().max(), np.maximum(table["low"], -table["high"]).max()
    assert rule.certificate.violation < 1e-6 < 0.01 < surely < measured
    assert finding.numbers == pytest.approx({"estimated": 0.0, "measured": measured, "surely": surely}, abs=1e-9)
    assert f"{100 * measured:.1f}, and surely more than {100 * surely:.1f}" in finding.sentence
    assert "The tolerance of 1 percentage point is kept on paper only." in finding.sentence
    assert "confidence=" in finding.sentence and "group_estimator=" in finding.sentence
    if facts:
        assert "Prices: no constraint binds by the model's estimates" in str(report)


def test_what_chance_can_do_is_not_told():
    assert finding_of(world(False, [Constraint("dp", 0.01)])[0]) is None  # the model is right
    assert finding_of(world(True, [Constraint("dp", 0.01)], n=60)[0]) is None  # too few people to tell
    assert finding_of(world(True, [MinimumRate("selection", 0.01)])[0]) is None  # no gap is asked for


def test_a_tolerance_that_is_kept_is_not_called_broken():
    finding = finding_of(world(True, [Constraint("dp", 0.9)])[0])
    assert "on paper" not in finding.sentence and "Certificate and prices speak of the estimates." in finding.sentence
    several = finding_of(world(True, [Constraint("dp", 0.01), Constraint("eo", 0.02)])[0])
    assert "on paper" not in several.sentence  # of which tolerance


def test_groups_of_few_people_are_not_told():
    report, _ = world(True, [Constraint("dp", 0.01)], min_cell=N)
    assert finding_of(report) is None and "OF021" not in str(report)


def test_with_a_promise_the_estimates_are_moved_on_purpose():
    constraints = [Constraint("dp", 0.3)]
    report, _ = world(True, constraints)
    promise = held_out_promise(report.facts.measured[0].counts, constraints, 0.95, "")
    assert promise.kept and finding_of(report) is not None
    assert finding_of(world(True, constraints, promise=promise)[0]) is None
