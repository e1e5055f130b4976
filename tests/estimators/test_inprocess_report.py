"""Test the report of `OptFairIn`: about the training, and on labelled rows."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from optfair import Constraint, MinimumRate, Ratio, metrics
from tests.estimators.in_processing_helpers import undecided_model
from tests.inprocessing.helpers import CLASSES, FEW_ROUNDS, SEX, X, Y, draw_rows, fit, quick

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)

FRAME, Y_TEST = draw_rows(seed=5)
X_TEST, SEX_TEST = FRAME[["x1", "x2"]], FRAME["sex"]


def test_the_report_of_the_training():
    model = undecided_model()
    text, training = str(model.report()), model.training_
    assert text.startswith(
        "OptFairIn, dp within 0.05 of everybody, blind: 2 groups, 3 classes\n\nTraining\n  12 rounds; "
    )
    assert "the result is a mixture of 12 models" in text
    assert f"accuracy {training.accuracy:.4f}, violation {training.violation:.4f}, " in text
    assert f"multipliers: ‖λ‖₁ = {training.norm:.4f}, bounded by 5" in text
    assert f"({model.n_fits_} model fits)" in text and "Prices (accuracy gained per unit of tolerance)" in text
    assert training.norm == pytest.approx(np.abs(model.trace_.multipliers[-1]).sum())
    assert ("within its bounds" in text) == (training.excess == 0)
    free = fit(quick(tolerance=1.0))
    assert "within its bounds" in str(free.report()) and "no constraint binds" in str(free.report())


def test_the_report_on_labelled_rows():
    model = undecided_model()
    report = model.report(X_TEST, Y_TEST, sensitive_features=SEX_TEST)
    plain, fair, decided = report.measured
    assert [one.name for one in report.measured] == ["plain model", "fair model", "decisions (hashed)"]
    alone = LogisticRegression().fit(X, Y)
    assert plain.accuracy == pytest.approx(np.mean(alone.predict(X_TEST) == Y_TEST))
    assert decided.accuracy == pytest.approx(np.mean(model.predict(X_TEST) == Y_TEST))
    h = model.predict_proba(X_TEST)
    assert fair.accuracy == pytest.approx(h[np.arange(len(h)), np.searchsorted(CLASSES, Y_TEST)].mean())
    violation = metrics.violation(Y_TEST, h, sensitive_features=SEX_TEST, criterion="dp", classes=list(CLASSES))
    assert fair.interval.value == pytest.approx(violation)
    text = str(report)
    assert text.splitlines()[0].endswith("; 240 people given") and "Training" not in text


def test_the_report_takes_keys_weights_and_groups():
    model = undecided_model()
    ids, weight = np.arange(len(Y_TEST)), np.arange(1.0, len(Y_TEST) + 1)
    keyed = model.report(X_TEST, Y_TEST, sensitive_features=SEX_TEST, keys=ids)
    assert keyed.measured[2].accuracy == pytest.approx(np.mean(model.predict(X_TEST, keys=ids) == Y_TEST))
    weighted = model.report(X_TEST, Y_TEST, sensitive_features=SEX_TEST, sample_weight=weight)
    expected = np.average(model.predict(X_TEST) == Y_TEST, weights=weight)
    assert weighted.measured[2].accuracy == pytest.approx(expected)
    aware = fit(quick(awareness="aware", rounds=2)).report(X_TEST, Y_TEST, sensitive_features=SEX_TEST)
    assert len(aware.measured) == 3


@pytest.mark.filterwarnings("ignore:max_multiplier")
def test_constraints_of_every_kind_in_one_request():
    constraints = [Constraint("dp", {"f": 0.1}), Constraint("eo", 0.2), MinimumRate("recall", 0.2), Ratio("dp", 0.5)]
    model = fit(quick(criterion=constraints, start="post", max_multiplier="auto"))
    assert set(model.multipliers_["criterion"]) >= {"dp", "eo", "dp ratio"}
    assert len(model.report(X, Y, sensitive_features=SEX).constraints) == len(model.multipliers_)


def test_the_report_is_about_what_was_trained():
    model = fit(quick(tolerance=0.05))
    before = model.report(X_TEST, Y_TEST, sensitive_features=SEX_TEST)
    model.set_params(tolerance=0.5, criterion="eo")
    after = model.report(X_TEST, Y_TEST, sensitive_features=SEX_TEST)
    assert after.title == before.title and after.constraints.equals(before.constraints)
    assert "dp within 0.05 of everybody" in model.report().title and model.constraints_ == [Constraint("dp", 0.05)]


def test_favourable_answers_are_named_by_whoever_reports():
    model = undecided_model()
    report = model.report(X_TEST, Y_TEST, sensitive_features=SEX_TEST, favourable=[CLASSES[0]])
    assert {line["class"] for line in report.to_dict()["favourable"]} == {str(CLASSES[0])}
    with pytest.raises(ValueError, match=r"^favourable=\['nothing'\]: 'nothing' is not a class; "):
        model.report(X_TEST, Y_TEST, sensitive_features=SEX_TEST, favourable=["nothing"])
