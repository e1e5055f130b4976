"""Check `compare`: each rule has the numbers that an audit of it alone has, and all are in one page."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from optfair import OptFairPost, audit, compare
from optfair.datasets import make_fair_classification
from tests.reporting.helpers import CLASSES, people
from tests.threads import single_thread


@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_every_rule_is_measured_as_in_an_audit(criterion):
    group, y, before, after = people()
    rules = {"old": before, "new": after, "truth": y}
    question = {"sensitive_features": group, "criterion": criterion, "tolerance": 0.05}
    document = compare(rules, y, **question).to_dict()
    assert [rule["name"] for rule in document["rules"]] == list(rules)
    for k, (name, prediction) in enumerate(rules.items(), 1):
        alone = audit(y, prediction, **question)
        line = document["performance"][k - 1]
        assert line["rule"] == name and line["verdict"] == alone.verdict.value
        expected = alone.to_dict()["performance"][0]
        names = {"rule", "label", "words"}
        assert {key: line[key] for key in line.keys() - names} == {
            key: expected[key] for key in expected.keys() - names
        }
        for view, other in zip(document["rates"], alone.to_dict()["rates"], strict=True):
            assert view[f"rule {k}"] == other["after"]


def test_models_are_asked_to_predict():
    train, test = make_fair_classification(800, random_state=0).split(0.5, random_state=0)
    with single_thread():
        fair = OptFairPost(tolerance=0.1, random_state=0)
        fair.fit(train.X, train.y, sensitive_features=train.sensitive_features)
        aware = OptFairPost(tolerance=0.1, awareness="aware", random_state=0)
        aware.fit(train.X, train.y, sensitive_features=train.sensitive_features)
        same = DummyClassifier().fit(train.X, train.y)
        groups = {"sensitive_features": test.sensitive_features}
        report = compare({"fair": fair, "aware": aware, "same": same}, test.y, X=test.X, **groups)
    measured = {metrics.name: metrics.accuracy for metrics in report.measured}
    assert measured["fair"] == pytest.approx(fair.score(test.X, test.y))
    assert measured["aware"] == pytest.approx(aware.score(test.X, test.y, **groups))
    assert measured["same"] == pytest.approx(same.score(test.X, test.y))
    assert "OF015" in {finding.code for finding in report.findings}


def test_all_forms_of_a_comparison():
    pytest.importorskip("jinja2", reason="the page is made with jinja2")
    group, y, before, after = people()
    report = compare({"<old>": before, "new": after}, y, sensitive_features=group, tolerance=0.05)
    assert report.verdict is None and report.constraints is None
    for text in (str(report), report.markdown().replace("&lt;", "<").replace("&gt;", ">")):
        assert "<old>" in text and "new" in text
    page = report.html()
    assert "&lt;old&gt;" in page and "<old>" not in page and "2 rules side by side" in page


def test_rules_may_have_different_classes_and_probabilities():
    group, _, before, _ = people()
    h = np.random.default_rng(0).dirichlet(np.ones(3), len(group))
    only_low = np.full(len(group), "low")
    report = compare({"drawn": h, "low": only_low, "old": before}, sensitive_features=group, classes=sorted(CLASSES))
    assert [m.counts.classes.tolist() for m in report.measured] == [sorted(CLASSES)] * 3
    without_names = compare({"low": only_low, "old": before}, sensitive_features=group)
    assert [m.counts.classes.tolist() for m in without_names.measured] == [sorted(CLASSES)] * 2


def test_what_cannot_be_compared_is_refused():
    group, y, before, after = people(60)
    for rules in ({"one": before}, [before, after], {str(k): before for k in range(7)}):
        with pytest.raises(ValueError, match="must be a mapping from 2 to 6 names to predictions or classifiers"):
            compare(rules, y, sensitive_features=group)
    with pytest.raises(ValueError, match=r"^X: missing; 'model' is a classifier"):
        compare({"model": DummyClassifier(), "old": before}, y, sensitive_features=group)
    with pytest.raises(ValueError, match=r"^y=None: 'eo' speaks of true classes"):
        compare({"new": after, "old": before}, sensitive_features=group, criterion="eo")
    with pytest.raises(ValueError, match=r"^min_cell=0: must be an integer >= 1"):
        compare({"new": after, "old": before}, y, sensitive_features=group, min_cell=0)
