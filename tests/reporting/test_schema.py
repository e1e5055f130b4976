"""Check that every kind of report is a document that the published schema describes."""

import json
from importlib import resources

import numpy as np
import pandas as pd
import pytest

from optfair import Constraint, MinimumRate, OptFairIn, OptFairPost, Ratio, Rows, audit, compare
from optfair.datasets import make_fair_classification
from tests.reporting.helpers import people, report_of
from tests.threads import single_thread

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema checks documents")
SCHEMA = json.loads((resources.files("optfair.reporting") / "report.schema.json").read_text(encoding="utf-8"))


def check(report):
    document = json.loads(report.json())
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert sorted(SCHEMA["required"]) == sorted(SCHEMA["properties"])


@pytest.mark.parametrize(
    "criterion",
    [
        "dp",
        "eo",
        "meo",
        "oae",
        Constraint("eop", 0.1, reference="pairwise"),
        Constraint("dp", {"A": 0.1}),
        Ratio("dp", 0.8, outcomes=["high"]),
        [MinimumRate("recall", 0.2), Rows(np.eye(27)[:2], upper=[0.2, 0.5])],
    ],
    ids=str,
)
def test_audits(criterion):
    document = check(report_of(criterion, tolerance=0.1 if isinstance(criterion, str) else None))
    assert document["kind"] == "audit"


def test_audits_without_labels_of_few_people_and_several_attributes():
    group, y, before, after = people(60)
    features = pd.DataFrame({"area": group, "sex": np.where(np.arange(60) % 3 == 0, "f", "m")})
    check(audit(None, after, sensitive_features=features, attributes="both", favourable=["high"]))
    check(audit(y, after, before=before, sensitive_features=group, cluster=np.arange(60) // 2, min_cell=30))
    check(audit(y, after, sensitive_features=group, sample_weight=np.arange(60) + 1.0, favourable=["high", "low"]))


def test_comparisons():
    group, y, before, after = people()
    document = check(compare({"a": before, "b": after, "c": y}, y, sensitive_features=group, criterion="eop"))
    assert document["kind"] == "comparison" and document["verdict"] is None


def test_fitted_models():
    train, test = make_fair_classification(2000, n_groups=3, random_state=0).split(0.5, random_state=0)
    groups = {"sensitive_features": test.sensitive_features}
    with single_thread():
        for model in (OptFairPost(tolerance=0.1, confidence=0.9, random_state=0), OptFairIn(rounds=2, random_state=0)):
            model.set_params(tolerance=0.2).fit(train.X, train.y, sensitive_features=train.sensitive_features)
            assert check(model.report())["kind"] == "model"
            assert check(model.report(test.X, test.y, **groups))["check"] is not None
            check(model.report(test.X, **groups))


def test_what_is_no_report_is_refused():
    document = report_of("dp").to_dict()
    for change in ({"version": 2}, {"kind": "letter"}, {"extra": 1}, {"n_people": "few"}, {"states": {"within": 1}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(SCHEMA).validate({**document, **change})
