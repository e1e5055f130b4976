"""Test what is said of a run: one line per round, the mean multipliers, and units of costs."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from optfair import OptFairPost, OptFairWarning, metrics
from optfair.inprocessing.summary import training_content, training_from_content
from tests.inprocessing.helpers import CLASSES, CODE, FEW_ROUNDS, SEX, X, Y, fit, naive_rows, quick

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)

# P with one x: all that the rows of D depend on is the prior of the cells.
PRIOR = pd.crosstab(SEX, Y).to_numpy()[None] / len(Y)
COLUMNS = ["round", "accuracy", "violation", "excess", "norm", "lagrangian", "equilibrium_gap", "step"]


def test_the_history_has_one_line_per_round(model):
    table = model.history_
    assert table.columns.tolist() == COLUMNS
    assert table["round"].tolist() == list(range(1, 13))
    names = model.multipliers_
    names = names.assign(group=names["group"].map("fm".index), outcome=names["outcome"].map("abc".index))
    D = naive_rows("dp", PRIOR, names)
    for t, member in enumerate(model.mixture_.members):
        codes, lam = member.predict(X), model.trace_.multipliers[t]
        assert table["accuracy"][t] == pytest.approx((codes == CODE).mean())
        violation = metrics.violation(Y, CLASSES[codes], sensitive_features=SEX, criterion="dp", classes=list(CLASSES))
        assert table["violation"][t] == pytest.approx(violation)
        assert table["excess"][t] == pytest.approx(max(violation - 0.05, 0))
        assert table["norm"][t] == pytest.approx(np.abs(lam).sum())
        J = np.array(
            [[[(codes[SEX.eq(g) & np.equal(Y, c)] == j).sum() for j in range(3)] for c in CLASSES] for g in "fm"]
        )
        value = (codes == CODE).mean() - lam @ np.einsum("kaij,aij->k", D, J / len(Y)) + 0.05 * np.abs(lam).sum()
        assert table["lagrangian"][t] == pytest.approx(value)
    np.testing.assert_array_equal(table["step"], model.trace_.steps)


def test_the_multipliers_are_a_table_as_those_of_a_rule(model):
    table = model.multipliers_
    post = OptFairPost(LogisticRegression(), cv=2).fit(X, Y, sensitive_features=SEX)
    assert table.columns.tolist() == post.multipliers_.columns.tolist()
    np.testing.assert_allclose(table["multiplier"], model.trace_.multipliers.mean(axis=0))
    h = model.predict_proba(X)
    rates = {g: h[SEX.eq(g)].mean(axis=0) for g in "fm"}
    for row in table.itertuples():
        j = "abc".index(row.outcome)
        assert row.value == pytest.approx(rates[row.group][j] - h.mean(axis=0)[j])
        assert (row.lower, row.upper) == (-0.05, 0.05)
        assert row.price == pytest.approx(table["multiplier"][table["group"] == row.group].abs().sum())
    prices = model.report().prices
    np.testing.assert_allclose(prices["price"], [table["price"][table["group"] == g].iloc[0] for g in "fm"])


def test_the_game_is_the_same_in_other_units():
    plain = fit(quick(step=0.1, max_multiplier=3.0, rounds=6))
    costs = fit(quick(step=1.0, max_multiplier=30.0, rounds=6, costs=10 * (1 - np.eye(3))))
    np.testing.assert_allclose(costs.trace_.multipliers, plain.trace_.multipliers, atol=1e-12)
    np.testing.assert_allclose(costs.multipliers_["multiplier"], 10 * plain.multipliers_["multiplier"], atol=1e-12)
    for column in ("norm", "lagrangian", "step"):
        np.testing.assert_allclose(costs.history_[column], 10 * plain.history_[column], atol=1e-9)
    assert costs.training_.cap == pytest.approx(30) and costs.training_.norm == pytest.approx(10 * plain.training_.norm)
    assert "in units of costs" in str(costs.report()) and "accuracy gained" in str(plain.report())


def test_a_run_that_ends_on_the_bound_says_so():
    with pytest.warns(OptFairWarning) as caught:
        model = fit(quick(tolerance=0.0, max_multiplier=0.05, rounds=8, step=0.3))
    outside, on_bound = (str(warning.message) for warning in caught)
    assert on_bound == "max_multiplier=0.05: the run ends on this bound, so the tolerance may be missed; raise it."
    assert outside.startswith(
        f"tolerance: training ended outside its bounds by {model.training_.excess:.4f} (dp: group"
    )
    assert outside.endswith("raise rounds, try mixture='lp', or a learner that can express a fair rule.")
    assert model.training_.on_bound
    line = "the multipliers end on their bound: raise max_multiplier, or the tolerance cannot be met"
    assert line in str(model.report())
    free = fit(quick(step=0.1))
    assert not free.training_.on_bound and "end on their bound" not in str(free.report())


def test_a_summary_is_the_same_after_it_was_written_as_json(model):
    training = model.training_
    content = json.loads(json.dumps(training_content(training)))
    again = training_from_content(content)
    assert str(again) == str(training) and again.key is None and training.key.hex() not in str(content)
    pd.testing.assert_frame_equal(again.multipliers, training.multipliers)
    assert again.groups.equals(training.groups) and again.classes.equals(training.classes)
