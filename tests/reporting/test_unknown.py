"""Check audits where the groups of some people are unknown: the verdict is that of the bounds, and the page says so."""

import numpy as np
import pandas as pd
import pytest

from optfair import Ratio, Rows, audit
from optfair.metrics import unknown_group_bounds


def people(n=4000, seed=0, hidden=0.1):
    """Return (groups, of which some are None; true groups; answers): more of A are hired."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(["A", "B", "C"], n)
    answer = np.where(rng.random(n) < 0.3 + 0.2 * (truth == "A"), "hired", "no")
    group = truth.astype(object)
    group[rng.random(n) < hidden] = None
    return group, truth, answer


@pytest.mark.parametrize("refusal", [np.inf, 2, 1])
@pytest.mark.parametrize("tolerance", [0.02, 0.18, 0.3])
def test_the_verdict_is_that_of_the_bounds(tolerance, refusal):
    group, _, answer = people()
    question = {"sensitive_features": group, "tolerance": tolerance, "refusal": refusal}
    bounds = unknown_group_bounds(None, answer, **question)
    report = audit(None, answer, **question, missing="infer")
    assert report.verdict.value == {"within": "within", "beyond": "beyond"}.get(bounds.state, "unknown")
    document = report.to_dict()
    assert document["unknown"]["people"] == bounds.n_unknown and document["n_people"] == len(answer) - bounds.n_unknown
    assert document["check"] is None  # of these people nothing is promised
    (finding,) = [finding for finding in report.findings if finding.code == "OF016"]
    assert f"{bounds.n_unknown:,} people" in finding.sentence
    words = {np.inf: "whatever the groups of", 2: "within a factor of 2", 1: "as is likely"}[refusal]
    assert words in report.verdict.sentence and words in " ".join(str(report).split())


@pytest.mark.parametrize("seed", range(20))
def test_what_is_surely_so_is_so_with_all_groups(seed):
    """Check that the full truth of the same people never contradicts a verdict."""
    rng = np.random.default_rng(seed)
    group, truth, answer = people(3000, seed)
    hired, of_a = answer == "hired", truth == "A"
    hiding = [rng.random(3000) < 0.2, hired & (rng.random(3000) < 0.4), of_a & (rng.random(3000) < 0.5), of_a & hired]
    group = truth.astype(object)
    group[hiding[seed % 4]] = None
    for tolerance in (0.05, 0.1, 0.2, 0.3):
        report = audit(None, answer, sensitive_features=group, tolerance=tolerance, missing="infer")
        rates = pd.Series(hired).groupby(truth).mean() - hired.mean()
        violation = rates.abs().max()
        assert report.verdict.value != ("within" if violation > tolerance else "beyond")


def test_intervals_hold_for_all_comparisons_at_once_and_are_no_narrower_for_knowing_less():
    """A row whose interval is outside of what is allowed is beyond; and who knows more groups has narrower limits."""
    rng = np.random.default_rng(3)
    n = 3000
    truth, answer = rng.choice(["A", "B", "C", "D"], n, p=[0.6, 0.3, 0.06, 0.04]), rng.choice(["x", "y", "z"], n)
    group = truth.astype(object)
    group[rng.random(n) < 0.1] = None
    told = np.array([name is not None for name in group])
    question = {"tolerance": 0.05, "min_cell": 1}
    known = audit(None, answer[told], sensitive_features=group[told], **question).to_dict()["gaps"]
    widths = {(line["group"], line["outcome"]): line["high"] - line["low"] for line in known}
    for refusal in (1, 2, np.inf):
        gaps = audit(None, answer, sensitive_features=group, missing="infer", refusal=refusal, **question).to_dict()[
            "gaps"
        ]
        for line in gaps:
            outside = line["low"] > line["allowed"][1] or line["high"] < line["allowed"][0]
            assert outside == (line["state"] == "beyond")
            assert line["low"] <= line["least"] and line["high"] >= line["most"]
            assert line["high"] - line["low"] > 0.9 * widths[line["group"], line["outcome"]]


def test_intervals_of_ratios_allow_for_unknown_groups():
    group, _, answer = people()
    question = {"criterion": [Ratio("dp", 0.8, outcomes=["hired"])], "sensitive_features": group, "missing": "infer"}
    widths = []
    for refusal in (1, 2, np.inf):
        gaps = audit(None, answer, refusal=refusal, **question).to_dict()["gaps"]
        widths.append([line["ratio_high"] - line["ratio_low"] for line in gaps])
        for line in gaps:
            assert (line["ratio_high"] < 0.8) == (line["state"] == "beyond")
    assert (np.diff(widths, axis=0) > 0).all()


def test_the_reason_is_chance_or_people_of_unknown_group():
    pytest.importorskip("jinja2", reason="the page is made with jinja2")
    rng = np.random.default_rng(7)
    sizes = {"home": 36_500, "far": 6200, "few": 600, "fewer": 60}
    group = np.repeat([*sizes, None], [*sizes.values(), 900])
    answer = np.where(rng.random(len(group)) < 0.55, "yes", "no")
    report = audit(None, answer, sensitive_features=group, tolerance=0.05, missing="infer")
    document = report.to_dict()
    reasons = {line["group"]: line["reason"] for line in document["gaps"] if line["outcome"] == "yes"}
    assert reasons == {"home": None, "far": "unknown groups", "few": "few", "fewer": "few"}
    assert [cell["group"] for cell in document["small"]] == ["fewer", "few"]
    assert document["reasons"] == {"few": 4, "near": 0, "unknown groups": 2}
    for text in (str(report), report.html(), report.markdown(), report.verdict.sentence):
        assert "depends on people whose group is unknown" in " ".join(text.split())
    (finding,) = [finding for finding in report.findings if finding.code == "OF002"]
    assert "In 2 of them it depends on people whose group is unknown" in finding.sentence


def test_rates_are_of_those_who_told_and_nothing_is_unknown_without_gaps():
    group, _, answer = people()
    told = np.array([name is not None for name in group])
    alone = audit(None, answer[told], sensitive_features=group[told], tolerance=0.1).to_dict()
    for missing in ("infer", "drop"):
        document = audit(None, answer, sensitive_features=group, tolerance=0.1, missing=missing).to_dict()
        assert [view["after"]["value"] for view in document["rates"]] == [
            view["after"]["value"] for view in alone["rates"]
        ]
    assert document["left_out"] == {"their groups are missing": int((~told).sum())} and document["unknown"] is None
    full = audit(None, answer[told], sensitive_features=group[told], tolerance=0.1, missing="infer")
    assert full.to_dict()["unknown"] is None and full.verdict.value == alone["verdict"]["value"]


def test_probabilities_of_groups_labels_and_changes():
    pytest.importorskip("jinja2", reason="the page is made with jinja2")
    group, truth, answer = people()
    rng = np.random.default_rng(1)
    y = np.where(rng.random(len(answer)) < 0.8, answer, "no")
    P = np.eye(3)[np.searchsorted(["A", "B", "C"], truth)]  # who knows more than was told
    question = {"sensitive_features": group, "criterion": "eop", "tolerance": 0.1, "missing": "infer"}
    report = audit(y, answer, before=y, **question, group_probabilities=P, refusal=1)
    by_truth = audit(y, answer, sensitive_features=truth, criterion="eop", tolerance=0.1)
    table = report.facts.unknown.table
    assert table["inferred"].to_numpy() == pytest.approx(by_truth.constraints["value"].to_numpy())
    page = report.html()
    assert "People whose group is not known" in page and "People whose group is not known" in report.markdown()
    assert sum(line["people"] for line in report.to_dict()["changes"][:-1]) == report.n_people


def test_what_cannot_be_inferred_is_refused():
    group, _, answer = people(100)
    with pytest.raises(ValueError, match=r"^missing='guess': must be one of"):
        audit(None, answer, sensitive_features=group, missing="guess")
    with pytest.raises(ValueError, match=r"^refusal and group_probabilities: are for missing='infer'"):
        audit(None, answer, sensitive_features=group, missing="drop", refusal=2)
    with pytest.raises(ValueError, match=r"^criterion: Rows combine no rates of groups"):
        audit(answer, answer, sensitive_features=group, missing="infer", criterion=Rows(np.eye(12)[:1], upper=1.0))
