"""Test where the multipliers start and how far they may go: sampled rows, post-processing, rules given by the user."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from optfair import MinimumRate, OptFairWarning
from optfair.inprocessing.warm_start import CELL_ROWS, WarmStart, sample_rows
from tests.inprocessing.helpers import FEW_ROUNDS, SEX, X, Y, fit, quick, read_rows

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)


def from_post(**options):
    """Return a model that starts at the multipliers of a quick model, which also set the bound."""
    return quick(**{"start": "post", "max_multiplier": "auto", "step": 0.3, "rounds": 2} | options)


# -- the sample of the quick model -------------------------------------------------------------------------
def test_a_sample_represents_all_rows():
    """All of the rare cells, the rest at random, weighted so that each cell keeps its mass."""
    rng = np.random.default_rng(0)
    n = 60_000
    a = (rng.random(n) < 0.004).astype(int)
    y = rng.integers(0, 3, n)
    weight = rng.uniform(0.5, 2, n)
    data = read_rows(np.arange(n)[:, None], y, a)
    sample = sample_rows(data, 0)
    assert 20_000 <= len(sample.y) <= 21_000
    counts = np.bincount(data.cell)
    np.testing.assert_allclose(np.bincount(sample.cell, sample.weight), counts)
    np.testing.assert_array_equal(np.bincount(sample.cell)[3:], np.minimum(counts[3:], CELL_ROWS))
    positions = sample.X[:, 0]
    assert len(np.unique(positions)) == len(positions)
    np.testing.assert_array_equal(sample.y, y[positions])
    np.testing.assert_array_equal(sample.a, a[positions])
    np.testing.assert_array_equal(sample_rows(data, 0).X, sample.X)
    weighted = sample_rows(read_rows(np.arange(n)[:, None], y, a, weight), 0)
    represented = weighted.weight / weight[weighted.X[:, 0]]
    np.testing.assert_allclose(np.bincount(weighted.cell, represented), counts)


def test_few_rows_are_their_own_sample():
    data = read_rows()
    assert sample_rows(data, 0) is data


# -- the bound on the multipliers --------------------------------------------------------------------------
def test_the_bound_is_twice_the_norm_of_post_processing():
    model = fit(from_post(tolerance=0.01))
    norm = np.abs(model.trace_.multipliers[0]).sum()
    assert norm > 0
    assert model.training_.cap == pytest.approx(max(2.0, 2 * norm))
    zero = fit(from_post(start="zero", tolerance=0.01))
    assert zero.training_.cap == pytest.approx(model.training_.cap) and not zero.trace_.multipliers[0].any()
    assert fit(from_post(max_multiplier=7)).training_.cap == 7.0


def test_a_norm_above_one_raises_the_bound():
    """λ_0 of post-processing is the price of what is asked for, which may be high."""
    x = np.repeat([1.0, 0.0, 0.0], [72, 8, 320])  # 72 of the 80 rows of class 1 can be told from the others
    y = np.repeat([1, 1, 0], [72, 8, 320])
    recall = MinimumRate("recall", 0.95, by="overall", outcomes=[1])
    model = from_post(estimator=LogisticRegression(C=1e3), criterion=recall, step=0.01)
    model.fit(x[:, None], y, sensitive_features=np.arange(400) % 2)
    norm = np.abs(model.trace_.multipliers[0]).sum()
    # for the other tenth of them all 328 rows at x = 0 must be predicted 1, and 312 of those wrongly
    assert norm == pytest.approx((312 / 400) / 0.1, rel=0.1)
    assert model.training_.cap == pytest.approx(2 * norm)


# -- the start ---------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:max_multiplier")
def test_a_rule_or_a_fitted_model_to_start_from(post):
    multiplier = post.multipliers_.set_index(["group", "outcome"])["multiplier"]
    for start in (post, post.rule_):
        model = fit(from_post(start=start))
        expected = multiplier[list(zip(model.multipliers_["group"], model.multipliers_["outcome"], strict=True))]
        np.testing.assert_allclose(model.trace_.multipliers[0], expected)
        assert np.any(expected)
        assert model.training_.cap == pytest.approx(max(2, 2 * np.abs(expected).sum()))
    small = fit(from_post(start=post, rounds=1, max_multiplier=0.01, step=1e-9))
    np.testing.assert_allclose(np.abs(small.trace_.multipliers[0]).sum(), 0.01)  # shortened, in the same direction
    np.testing.assert_allclose(small.trace_.multipliers[0] / 0.01, np.array(expected) / np.abs(expected).sum())


def test_weights_are_copies_from_the_same_start(post):
    weight = np.random.default_rng(3).integers(1, 4, len(Y))
    row = np.repeat(np.arange(len(Y)), weight)
    one = fit(quick(start=post.rule_), sample_weight=weight)
    two = quick(start=post.rule_).fit(X.iloc[row], Y[row], sensitive_features=SEX.iloc[row])
    assert one.trace_.multipliers[0].any()
    np.testing.assert_allclose(one.trace_.multipliers, two.trace_.multipliers, atol=1e-9)


def test_a_rule_about_another_criterion_is_no_start(eo_rule):
    message = r"^start: the rule has no multiplier for any of these constraints; starting at zero\.$"
    with pytest.warns(OptFairWarning, match=message):
        model = fit(quick(start=eo_rule))
    assert not model.trace_.multipliers[0].any()


@pytest.mark.filterwarnings("ignore:max_multiplier")
def test_an_infeasible_request_starts_at_zero():
    with pytest.warns(
        OptFairWarning, match=r"^start: post-processing found that no rule satisfies .* Starting at zero\.$"
    ):
        model = fit(from_post(criterion=MinimumRate("recall", 0.99), rounds=4))
    assert not model.trace_.multipliers[0].any() and model.training_.cap == 2.0
    assert model.training_.excess > 0 and "outside its bounds by" in str(model.report())


def test_a_start_is_the_same_after_it_was_written_as_arrays():
    start = WarmStart(np.array([0.5, -1.0]), 3.0, 7, np.array([0.9, 0.8]))
    again = WarmStart.from_arrays(start.arrays())
    np.testing.assert_array_equal(again.multipliers, start.multipliers)
    np.testing.assert_array_equal(again.accuracy, start.accuracy)
    assert (again.cap, again.seed) == (3.0, 7)


# -- estimators that overfit -------------------------------------------------------------------------------
def test_the_quick_model_compares_rows_seen_with_others():
    """An estimator that overfits is warned about, where rows were held out to compare with and none are by the user."""
    noise, tree = np.random.default_rng(0).permutation(Y), DecisionTreeClassifier(random_state=0)
    with pytest.warns(OptFairWarning) as caught:
        from_post(estimator=tree).fit(X, noise, sensitive_features=SEX)
    message, *_ = (str(warning.message) for warning in caught)
    assert message.startswith("estimator: overfits (accuracy 1.00 on people it has seen, 0.")
    assert message.endswith(
        "so that being fair to those it was trained on says little about others; try held_out=0.25, or a simpler model."
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "tolerance")
        from_post(estimator=tree, held_out=0.25).fit(X, noise, sensitive_features=SEX)
        fit(from_post())  # two coefficients overfit nothing
        quick(tree).fit(X, noise, sensitive_features=SEX)  # no quick model: nothing to compare with
