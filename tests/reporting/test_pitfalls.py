"""Check verdicts and numbers where it is easy to say too much: one group, few people, strangers, rows of no weight."""

import json

import numpy as np
import pandas as pd
import pytest

from optfair import Ratio, audit, compare
from optfair.errors import OptFairWarning
from optfair.estimators.post import OptFairPost
from optfair.metrics import unknown_group_bounds
from optfair.reporting.measuring import MOST_PAIRS
from optfair.reporting.table_words import gap_cells, shown_ends
from optfair.reporting.wording import Mask, level_text, percent
from tests.reporting.helpers import CLASSES, people
from tests.threads import single_thread

ANSWERS = np.array(["no", "yes"] * 1000)


def test_one_group_is_never_within():
    group, weight = np.array(["A"] * 1999 + ["B"], dtype=object), np.append(np.ones(1999), 0.0)
    with pytest.warns(OptFairWarning, match="2 rates are left out"):
        weighted = audit(None, ANSWERS, sensitive_features=group, sample_weight=weight, tolerance=0.5)
    group[-1] = None
    alone = audit(None, ANSWERS, sensitive_features=group, missing="drop", tolerance=0.5)
    for report in (weighted, alone):
        assert report.verdict.value == "unknown" and "of one group" in report.verdict.sentence
    with pytest.raises(ValueError, match="the only group that is known is 'A'"):
        audit(None, ANSWERS, sensitive_features=group, missing="infer", tolerance=0.5)
    group[-2:] = [None, "B"]
    with pytest.raises(ValueError, match="the only group that is known is 'A'"):
        audit(None, ANSWERS, sensitive_features=group, sample_weight=weight, missing="infer", tolerance=0.5)


def test_whoever_may_be_of_a_further_group_is_not_within():
    """All people of region "z" have not told their sex: no group of that region is known."""
    region = np.array(["x", "y"] * 900 + ["z"] * 200)
    sex = np.array(["f", "f", "m", "m"] * 450 + [None] * 200, dtype=object)
    answer = np.array(["no", "yes"] * 900 + ["no"] * 200)
    answer[:1800] = np.random.default_rng(0).choice(["no", "yes"], 1800)
    groups = pd.DataFrame({"region": region, "sex": sex})
    bounds = unknown_group_bounds(None, answer, sensitive_features=groups, tolerance=0.5)
    assert bounds.n_strangers == 200 and bounds.state == "depends" and "further groups" in str(bounds)
    assert audit(None, answer, sensitive_features=groups, tolerance=0.5, missing="infer").verdict.value == "unknown"
    groups.loc[1800:, "region"] = "x"  # of a region whose groups are known
    bounds = unknown_group_bounds(None, answer, sensitive_features=groups, tolerance=0.5)
    assert bounds.n_strangers == 0 and bounds.state == "within" and "further" not in str(bounds)


@pytest.mark.parametrize("name", ["overall", "everybody"])
def test_no_group_may_be_named_as_all_of_them_are(name):
    with pytest.raises(ValueError, match=f"a group is named '{name}', as tables call everybody"):
        audit(None, ["x", "y"], sensitive_features=["A", name])


def test_a_ratio_that_is_within_is_shown_with_the_limits_that_decide():
    rng = np.random.default_rng(0)
    for n in (600, 1200, 2400, 4800):
        answer, group = rng.choice(["no", "yes"], n), rng.choice(["A", "B", "C"], n)
        report = audit(None, answer, sensitive_features=group, criterion=Ratio("dp", 0.8))
        if report.verdict.value != "within":
            continue
        document = report.to_dict()
        assert all(line["ratio_least"] >= line["minimum"] - 1e-5 for line in document["gaps"])
        line = min(document["gaps"], key=lambda line: line["ratio_least"])
        assert line["ratio_low"] < line["ratio_least"] < line["ratio"] < line["ratio_most"]
        _, interval, allowed = gap_cells(line, shown_ends(document))
        assert interval.startswith(f"{100 * line['ratio_least']:.1f} % to") and allowed == "at least 80.0 %"
        assert interval in report.markdown()
        return
    raise AssertionError("no sample was within")


def test_the_same_answers_have_the_same_verdict_where_groups_are_unknown():
    group, y, _, after = people(4000)
    group = group.astype(object)
    group[::7] = None
    report = audit(y, after, before=after, sensitive_features=group, tolerance=0.12, missing="infer")
    before, present = report.to_dict()["performance"]
    assert {**before, "rule": "", "label": ""} | {"words": ""} == {**present, "rule": "", "label": ""} | {"words": ""}


@pytest.mark.parametrize("missing", ["drop", "infer"])
def test_rows_of_no_weight_are_not_there(missing):
    group, y, before, after = people(900)
    group = group.astype(object)
    group[:60] = None
    weight = np.ones(900)
    weight[:40] = weight[-100:] = 0.0
    keep = weight > 0
    options = {"tolerance": 0.1, "missing": missing, "criterion": "eo"}
    full = audit(y, after, before=before, sensitive_features=group, sample_weight=weight, **options).to_dict()
    part = audit(
        y[keep], after[keep], before=before[keep], sensitive_features=group[keep], sample_weight=weight[keep], **options
    ).to_dict()
    for name in ("n_people", "left_out", "groups", "answers", "selection", "changes"):
        assert full[name] == part[name]
    assert full["changes"][-1]["people"] == 740
    if missing == "infer":
        assert full["unknown"]["people"] == part["unknown"]["people"] == 20


# -- few people ------------------------------------------------------------------------------------------------
def test_numbers_about_few_people_are_nowhere():
    rng = np.random.default_rng(1)
    n, few = 2000, 7
    group = np.array(["A"] * (n - few) + ["tiny"] * few, dtype=object)
    y, before, after = (rng.choice(CLASSES, n) for _ in range(3))
    document = audit(y, after, before=before, sensitive_features=group, favourable=["high"]).to_dict()
    (line,) = [line for line in document["changes"] if line["group"] == "tiny"]
    assert {cell for row in line["matrix"] for cell in row} == {"< 10"}
    (row,) = [row for row in document["impact"][0]["rows"] if row["group"] == "tiny"]
    assert row["share"] is row["selected"] is row["value"] is None
    group = np.where(np.arange(n) % 2, "A", "B").astype(object)
    group[:few] = None
    for missing in ("infer", "drop"):
        report = audit(y, after, sensitive_features=group, missing=missing, tolerance=0.2)
        document = report.to_dict()
        texts = [report.verdict.sentence, json.dumps(document["unknown"]), json.dumps(document["left_out"])]
        texts += [finding.sentence for finding in report.findings]
        assert not any(f" {few} " in text or f"{few / n:.1%}" in text for text in texts)
        assert any("< 10" in text for text in texts)


def test_what_is_surely_beyond_is_listed_and_hidden_comparisons_are_counted():
    pytest.importorskip("jinja2", reason="the page is made with jinja2")
    rng = np.random.default_rng(0)
    group = np.repeat(["home", "far", *(f"g{k}" for k in range(30))], [3000, 600, *(2 + k % 5 for k in range(30))])
    answer = np.where(rng.random(len(group)) < np.where(group == "far", 0.4, 0.55), "yes", "no")
    answer[group == "g0"], answer[group == "g1"] = "no", "yes"  # hidden, and far from everybody
    report = audit(None, answer, sensitive_features=group, tolerance=0.05)
    document = report.to_dict()
    assert document["gaps_hidden"] == 60 and {line["group"] for line in document["gaps"]} == {"home", "far"}
    assert document["gaps"][0]["group"] == "far" and document["gaps"][0]["state"] == "beyond"
    states = [line["state"] != "beyond" for line in document["gaps"]]
    assert states == sorted(states)
    for text in (str(report), report.html(), report.markdown()):
        assert "60 comparisons of fewer than 10 people" in text
    small = audit(None, answer[group != "home"][600:], sensitive_features=group[group != "home"][600:])
    assert small.to_dict()["gaps"] == [] and "none of people enough to be shown" in str(small)


def test_weights_make_no_number_of_people_selected():
    group, y, _, after = people()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    for weights, is_counted in ((None, True), (weight, False)):
        report = audit(y, after, sensitive_features=group, favourable=["high"], sample_weight=weights)
        assert all((row["selected"] is not None) == is_counted for row in report.to_dict()["impact"][0]["rows"])


# -- words -----------------------------------------------------------------------------------------------------
def test_the_verdict_has_the_confidence_of_the_promise():
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(2000, 2)), rng.choice(["A", "B"], 2000)
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=2000) > 0, "yes", "no")
    with single_thread():
        model = OptFairPost(tolerance=0.2, confidence=0.8, random_state=0).fit(X, y, sensitive_features=group)
    assert model.promise_.kept and model.report().verdict.value == "within"
    assert model.report().verdict.sentence.startswith("With 80 % confidence")


def test_a_confidence_is_not_rounded_up():
    assert level_text(0.999) == "99.9 %" and level_text(0.9999999) == "99.999 %" and level_text(0.9) == "90 %"


@pytest.mark.parametrize(("hits", "people", "share"), [(11, 13, "84.62 %"), (75, 104, "72.12 %"), (31, 52, "59.62 %")])
def test_a_number_is_rounded_once(hits, people, share):
    assert percent(Mask().number(hits / people), 2) == share
    group = np.repeat(["A", "B"], [people, 100])
    answer = np.repeat(["yes", "no", "yes", "no"], [hits, people - hits, 50, 50])
    assert f" {share}" in str(audit(None, answer, sensitive_features=group))


def test_shares_below_none_have_a_minus_sign():
    assert [percent(share, 2) for share in (-0.05, -0.00001, 0.05)] == ["−5.00 %", "0.00 %", "5.00 %"]


def test_of_many_groups_a_promise_tells_the_number():
    rng = np.random.default_rng(0)
    names = [f"place {k}" for k in range(12)]
    group, answer = rng.choice(names, 3000), rng.choice(["no", "yes"], 3000)
    pairs = audit(None, answer, sensitive_features=group, tolerance=0.5, reference="pairwise")
    assert "place" not in pairs.to_dict()["check"]["sentence"]  # it is of all of them
    for n_named, words in ((3, "of 'place 0', 'place 1', 'place 2' is"), (8, "of any of 8 groups is")):
        some = audit(None, answer, sensitive_features=group, tolerance=dict.fromkeys(names[:n_named], 0.5))
        assert words in some.to_dict()["check"]["sentence"]


def test_rules_and_arguments_are_told_apart():
    group, y, before, after = people(100)
    with pytest.raises(ValueError, match="rules: two names are the same text"):
        compare({1: before, "1": after}, y, sensitive_features=group)
    with pytest.raises(ValueError, match=r"^before: "):
        audit(y, after, before=np.full((100, 3), 0.9), sensitive_features=group, classes=CLASSES)
    with pytest.raises(ValueError, match=r"^rules, 'new': "):
        compare({"old": before, "new": np.full((100, 3), 0.9)}, y, sensitive_features=group, classes=CLASSES)


def test_pairs_that_no_memory_would_hold_are_refused():
    rng = np.random.default_rng(0)
    y, answer, group = rng.integers(0, 10, 3000), rng.integers(0, 10, 3000), np.arange(3000) % 300
    with pytest.raises(ValueError, match=f"300 groups make 4,485,000 comparisons, .* {MOST_PAIRS:,}"):
        audit(y, answer, sensitive_features=group, criterion="eo", reference="pairwise")
