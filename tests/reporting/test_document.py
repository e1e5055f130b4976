"""Check that the numbers of a document are those of the metrics, and that none is about very few people."""

import json
import re

import numpy as np
import pytest

from optfair import Constraint, MinimumRate, OptFairPost, Ratio, Rows, audit, metrics
from optfair.datasets import make_fair_classification
from optfair.errors import OptFairWarning
from optfair.reporting.wording import Mask, points
from tests.reporting.helpers import CLASSES, GROUPS, people, report_of
from tests.threads import single_thread

CLOSE = {"abs": 1e-5}


def confusion_of(prediction, group, y):
    return metrics.group_confusion(y, prediction, sensitive_features=group)


@pytest.mark.parametrize("criterion, rate", [("dp", "selection"), ("eo", "conditional"), ("oae", "accuracy")])
def test_rates_are_those_of_group_rates(criterion, rate):
    group, y, before, after = people()
    document = report_of(criterion).to_dict()
    assert len(document["rates"]) == {"dp": 3, "eo": 9, "oae": 1}[criterion]
    for role, prediction in (("before", before), ("after", after)):
        table = metrics.group_rates(y, prediction, sensitive_features=group)
        table = table[table["rate"] == rate]
        for view in document["rates"]:
            rows = table[
                [
                    g == view["given"] and o == view["outcome"]
                    for g, o in zip(table["given"], table["outcome"], strict=True)
                ]
            ]
            values = dict(zip(rows["group"], rows["value"], strict=True))
            assert view[role]["value"] == pytest.approx([values[name] for name in view["groups"]], **CLOSE)
            assert view[role]["overall"] == pytest.approx(values["overall"], **CLOSE)
            assert view["people"] == [dict(zip(rows["group"], rows["n"], strict=True))[name] for name in view["groups"]]


def test_intervals_of_rates_are_exact_binomial_ones():
    from scipy.stats import binomtest

    group, _, _, after = people()
    view = report_of().to_dict()["rates"][0]
    for k, name in enumerate(view["groups"]):
        answers = after[group == name] == view["outcome"]
        interval = binomtest(int(answers.sum()), len(answers)).proportion_ci(0.95, "exact")
        assert [view["after"]["low"][k], view["after"]["high"][k]] == pytest.approx(list(interval), **CLOSE)


@pytest.mark.parametrize("reference", ["overall", "pairwise"])
def test_violations_and_comparisons_are_those_of_the_metrics(reference):
    group, y, before, after = people()
    document = report_of("eop", reference=reference).to_dict()
    for line, prediction in zip(document["performance"], (before, after), strict=True):
        confusion = confusion_of(prediction, group, y)
        interval = confusion.violation_interval("eop", reference=reference)
        assert line["accuracy"] == pytest.approx(np.mean(prediction == y), **CLOSE)
        names = {
            "violation": "value",
            "lower": "lower",
            "upper": "upper",
            "bound": "bound",
            "noise_floor": "noise_floor",
        }
        for name, attribute in names.items():
            assert line[name] == pytest.approx(getattr(interval, attribute), **CLOSE)
    gaps = confusion.gaps("eop", reference=reference)
    values = {(row.group, row.against, row.outcome): row.value for row in gaps.itertuples()}
    assert len(document["gaps"]) == len(values)
    for line in document["gaps"]:
        assert line["value"] == pytest.approx(values[line["group"], line["against"], line["outcome"]], **CLOSE)


def test_right_answers_and_changes_are_those_of_counting():
    group, y, before, after = people()
    document = report_of().to_dict()
    for line in document["quality"]:
        chosen = np.ones(len(y), bool) if line["group"] == "everybody" else group == line["group"]
        if line["class"] is not None:
            chosen &= (y == line["class"]) != (line["rate"] == "wrong")
        assert line["people"] == chosen.sum()
        for role, prediction in (("before", before), ("after", after)):
            hits = prediction[chosen] == (line["class"] if line["rate"] == "wrong" else y[chosen])
            assert line[role][0] == pytest.approx(np.mean(hits), **CLOSE)
    names = document["classes"]
    for line in document["changes"]:
        chosen = np.ones(len(y), bool) if line["group"] == "everybody" else group == line["group"]
        for j, row in enumerate(line["matrix"]):
            for k, cell in enumerate(row):
                n = int((chosen & (before == names[j]) & (after == names[k])).sum())
                assert cell == (n if n >= 10 or n == 0 else "< 10")
        assert line["changed"] == pytest.approx(np.mean(before[chosen] != after[chosen]), **CLOSE)


def test_everything_is_json_and_names_its_format():
    report = report_of("eo")
    document = report.to_dict()
    assert json.loads(report.json()) == document
    assert (document["format"], document["version"]) == ("optfair report", 1)
    assert document["n_people"] == 1500 and document["units"] and document["versions"]["optfair"]
    assert document["asked"][0]["tolerance"] == 0.1 and document["asked"][0]["criterion"] == "eo"
    document["title"] = "changed"
    assert report.to_dict()["title"] != "changed"


def numbers_in(value):
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, str | int | float | bool) or value is None:
        return [value] if isinstance(value, float) else []
    return [x for part in value for x in numbers_in(part)]


def test_no_number_about_fewer_than_ten_people():
    """A group of nine, whose rates no other group has, appears nowhere; one of ten does."""
    pytest.importorskip("jinja2", reason="the page is made with jinja2")
    for n_few, hidden in ((9, True), (10, False)):
        group = np.array(["few"] * n_few + ["A", "B"] * 300)
        answer = np.array((["yes"] * 7 + ["no"] * (n_few - 7)) + ["yes", "no"] * 300)
        y = np.array(["yes"] * n_few + ["yes", "no"] * 300)
        report = audit(y, answer, before=answer, sensitive_features=group, tolerance=0.2)
        document = report.to_dict()
        view = document["rates"][-1]
        k = view["groups"].index("few")
        assert (view["after"]["value"][k] is None) == hidden
        assert (view["people"][k] == "< 10") == hidden
        rate = 7 / n_few
        gap = rate - np.mean(answer == "yes")
        present = [abs(abs(x) - Mask().number(target)) < 2e-5 for x in numbers_in(document) for target in (rate, gap)]
        assert any(present) != hidden
        for text in (report.html(), report.markdown()):
            assert (f"{100 * rate:.1f} %" in text) != hidden
            assert (points(gap) in text) != hidden
        findings = [finding for finding in report.findings if finding.code == "OF005"]
        assert [finding.numbers["groups"] for finding in findings] == [int(hidden)]
        assert findings[0].sentence.endswith("few." if hidden else "not shown.")
        (empty,) = [x for x in document["quality"] if (x["group"], x["rate"], x["class"]) == ("few", "recall", "no")]
        assert empty["people"] == "< 10"  # as of nine: that there is nobody is a number about few people


# -- verdict ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("tolerance", [0.001, 0.02, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("criterion", ["dp", "eop"])
def test_the_verdict_is_by_the_bounds_of_the_metrics(criterion, tolerance):
    group, y, _, after = people(seed=3)
    after = np.where((group == "A") & (np.arange(len(y)) % 3 == 0), "low", after)  # some gap for sure
    interval = confusion_of(after, group, y).violation_interval(criterion)
    expected = "beyond" if interval.lower > tolerance else "within" if interval.bound <= tolerance else "unknown"
    report = audit(y, after, sensitive_features=group, criterion=criterion, tolerance=tolerance)
    assert report.verdict.value == expected
    states = report.to_dict()["states"]
    assert (states["beyond"] > 0) == (expected == "beyond")
    assert (states["within"] == sum(states.values())) == (expected == "within")


def test_all_three_verdicts_occur():
    group, y, _, after = people(4000)
    after = np.where((group == "A") & (np.arange(len(y)) % 4 == 0), "low", after)
    violation = metrics.violation(y, after, sensitive_features=group)
    tolerances = (violation / 4, violation, 2 * violation)
    lights = [audit(y, after, sensitive_features=group, tolerance=t).verdict.light for t in tolerances]
    assert lights == ["Surely beyond", "Cannot tell", "Surely within"]


def test_a_group_is_judged_in_every_pair_it_is_in():
    group = np.repeat(GROUPS, 2000)
    answer = np.where(np.arange(6000) % 10 < np.repeat([2, 5, 5], 2000), "yes", "no")
    document = audit(None, answer, sensitive_features=group, tolerance=0.1, reference="pairwise").to_dict()
    assert document["rates"][0]["after"]["state"] == ["beyond"] * 3  # B and C differ from A, not from each other
    ((low, high),) = document["rates"][0]["after"]["bands"]
    assert high - low == pytest.approx(0.1)


# -- kinds of requests and people --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "criterion",
    [
        Ratio("dp", 0.8),
        MinimumRate("recall", 0.2),
        [Constraint("eo", 0.1), MinimumRate("accuracy", 0.2, by="overall")],
        Constraint("meo", 0.1),
        Constraint("dp", {"A": 0.1, "C": 0.2}),
        Rows(np.eye(27)[:2], upper=[0.2, 0.5], names=["mine", "<yours>"]),
    ],
    ids=["ratio", "minimum", "several", "mean", "mapping", "own rows"],
)
def test_every_kind_of_request_has_its_pages(criterion):
    pytest.importorskip("jinja2", reason="the page is made with jinja2")
    report = report_of(criterion, tolerance=None)
    assert report.verdict.value in ("within", "beyond", "unknown")
    page = re.sub(r"<(script|style)>.*?</\1>", "", report.html(), flags=re.DOTALL)
    for text in (page, report.markdown(), report.json(), str(report)):
        assert not re.search(r"\bnan\b|\bNone\b|\binf\b", text)


def test_ratios_are_ratios():
    """Check the ratio of two selection rates against counting, and that it is what is said."""
    group = np.repeat(GROUPS, 1000)
    answer = np.where(np.arange(3000) % 10 < np.repeat([2, 5, 5], 1000), "yes", "no")
    report = audit(None, answer, sensitive_features=group, criterion=Ratio("dp", 0.8, outcomes=["yes"]))
    line = report.to_dict()["gaps"][0]
    assert (line["group"], line["ratio"], line["minimum"], line["state"]) == ("A", pytest.approx(0.4), 0.8, "beyond")
    assert "40.0 % of that rate, where at least 80.0 % is asked for" in report.verdict.sentence
    assert "percentage points" not in report.verdict.sentence


def test_parity_needs_no_labels_and_others_say_so():
    group, _, _, after = people()
    report = audit(None, after, sensitive_features=group, tolerance=0.2)
    document = report.to_dict()
    assert document["quality"] == [] and document["performance"][0]["accuracy"] is None
    assert "OF011" in [finding.code for finding in report.findings]
    assert "Without labels" in str(report) and "nan" not in str(report)
    with pytest.raises(ValueError, match="y=None: 'eo' speaks of true classes"):
        audit(None, after, sensitive_features=group, criterion="eo")


def test_attributes_by_themselves():
    group, y, _, after = people()
    sex = np.where(np.arange(len(y)) % 2 == 0, "f", "m")
    import pandas as pd

    features = pd.DataFrame({"sex": sex, "area": group})
    document = audit(y, after, sensitive_features=features, attributes="marginals", tolerance=0.1).to_dict()
    view = document["rates"][0]
    assert document["families"] == ["sex × area", "sex", "area"]
    names = dict(zip(view["groups"], zip(view["family"], view["after"]["state"], strict=True), strict=True))
    assert [name for name, (family, _) in names.items() if family == 1] == ["sex: f", "sex: m"]
    assert [name for name, (family, _) in names.items() if family == 2] == ["area: A", "area: B", "area: C"]
    assert {state is None for family, state in names.values() if family > 0} == {False}
    assert {state for family, state in names.values() if family == 0} == {None}  # shown, but not asked for


def test_answers_that_only_one_of_two_rules_gives():
    group, _, before, after = people()
    after = np.where(after == "high", "mid", after)
    report = audit(None, after, before=before, sensitive_features=group, tolerance=0.1)
    assert report.to_dict()["classes"] == sorted(CLASSES)
    assert "OF006" in [finding.code for finding in report.findings]


def test_empty_cells_are_a_finding():
    group, y, _, after = people()
    keep = (group != "C") | (y != "mid")
    with pytest.warns(OptFairWarning, match="left out"):
        report = audit(y[keep], after[keep], sensitive_features=group[keep], criterion="eo", tolerance=0.3)
    finding = next(finding for finding in report.findings if finding.code == "OF004")
    assert finding.numbers["left_out"] == 3
    assert "that can be measured" in report.verdict.sentence


def test_a_fitted_model_before_and_after():
    data = make_fair_classification(1500, n_groups=3, random_state=0)
    train, test = data.split(0.5, random_state=0)
    with single_thread():
        model = OptFairPost(tolerance=0.05, random_state=0)
        model.fit(train.X, train.y, sensitive_features=train.sensitive_features)
        fitted, held_out = model.report(), model.report(test.X, test.y, sensitive_features=test.sensitive_features)
    assert "OF003" in [finding.code for finding in fitted.findings] and fitted.verdict.value != "within"
    document = held_out.to_dict()
    rules = {rule["role"]: rule["name"] for rule in document["rules"]}
    assert rules == {"before": "unconstrained, joint", "after": "decisions (hashed)"}
    assert document["certificate"]["upper_bound"] == pytest.approx(model.certificate_.upper_bound, **CLOSE)
    prices = sum(line["price"] for line in document["prices"])
    assert prices == pytest.approx(model.multipliers_["multiplier"].abs().sum(), abs=1e-4)
    *groups, everybody = document["changes"]
    changed = sum(line["changed"] * line["people"] for line in groups) / document["n_people"]
    plain = model.classes_[model._posteriors_of(test.X, None)[0].sum(axis=1).argmax(axis=1)]
    assert changed == pytest.approx(np.mean(model.predict(test.X) != plain), abs=1e-4)
    assert everybody["changed"] == pytest.approx(changed, abs=1e-4)
    undecided = np.mean(model.predict_proba(test.X).max(axis=1) < 0.99)
    assert document["undecided"] == pytest.approx(undecided, **CLOSE)
