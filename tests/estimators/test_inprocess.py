"""Test what `OptFairIn` predicts: one deterministic model, decisions, weights, seeds, and fits that fail."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from tests.estimators.in_processing_helpers import FailingBayes, undecided_model
from tests.inprocessing.helpers import (
    CELL,
    CLASSES,
    FEW_ROUNDS,
    OVERFITS,
    SEX,
    WEIGHT,
    X_NEW,
    XA,
    X,
    Y,
    fit,
    naive_rows,
    quick,
)

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS, OVERFITS)


def tree():
    return DecisionTreeClassifier(max_depth=3, random_state=0)


# -- one deterministic model -------------------------------------------------------------------------------
@pytest.mark.parametrize("mixture", ["all", "last_half"])
def test_the_deterministic_model_is_one_fit_at_the_mean_multipliers(mixture):
    """Against a tree fitted to weighted copies that are made here, from the definitions."""
    model = fit(quick(tree(), output="deterministic", mixture=mixture, rounds=7, max_multiplier=3.0, step=0.3))
    h = model.predict_proba(X_NEW)
    assert ((h == 0) | (h == 1)).all() and (h.sum(axis=1) == 1).all()
    assert len(model.mixture_.members) == 1 and model.training_.members == 1
    assert "one fit at the mean multipliers, out of 1 model" in str(model.report())
    mean = model.trace_.multipliers[0 if mixture == "all" else 3 :].mean(axis=0)
    assert mean.any()
    table = model.multipliers_
    np.testing.assert_allclose(table["multiplier"], mean)
    names = table.assign(group=table["group"].map("fm".index), outcome=table["outcome"].map("abc".index))
    prior = np.bincount(CELL).reshape(1, 2, 3) / len(Y)
    W = np.tile(np.eye(3), (2, 1)) - np.einsum("k,kaij->aij", mean, naive_rows("dp", prior, names)).reshape(6, 3)
    T = (W - W.min(axis=1, keepdims=True))[CELL]
    row, label = np.nonzero(T > 1e-12)
    copies = tree().fit(XA[row], label, sample_weight=T[row, label] * len(Y) / T.sum())
    np.testing.assert_array_equal(h.argmax(axis=1), copies.predict(X_NEW.to_numpy()))


# -- decisions ---------------------------------------------------------------------------------------------
def test_hashed_decisions_are_the_same_for_a_row_and_follow_the_probabilities():
    model = undecided_model()
    h = model.predict_proba(X_NEW)
    assert (h.max(axis=1) < 1).sum() > 10
    first = model.predict(X_NEW)
    np.testing.assert_array_equal(first, model.predict(X_NEW))
    np.testing.assert_array_equal(first[::-1], model.predict(X_NEW[::-1]))  # by content, not by position
    certain = h.max(axis=1) == 1
    np.testing.assert_array_equal(first[certain], CLASSES[h.argmax(axis=1)][certain])
    assert (h[np.arange(len(h)), np.searchsorted(CLASSES, first)] > 0).all()
    ids = [f"person {i}" for i in range(len(h))]
    by_id = model.predict(X_NEW, keys=ids)
    np.testing.assert_array_equal(by_id[certain], first[certain])
    np.testing.assert_array_equal(by_id, model.predict(X_NEW, keys=ids))
    repeated = pd.concat([X_NEW] * 100)
    decisions = model.predict(repeated, keys=np.arange(len(repeated))).reshape(100, -1)
    for j, name in enumerate(CLASSES):
        np.testing.assert_allclose((decisions == name).mean(axis=0), h[:, j], atol=0.25)


def test_decisions_by_argmax_and_by_sampling():
    h = undecided_model().predict_proba(X_NEW)
    model = pickle.loads(pickle.dumps(undecided_model())).set_params(decision="argmax")
    np.testing.assert_array_equal(model.predict(X_NEW), CLASSES[h.argmax(axis=1)])
    assert model.score(X, Y) == pytest.approx(np.mean(model.predict(X) == Y))
    model.set_params(decision="sampled")
    np.testing.assert_array_equal(model.predict(X_NEW, random_state=1), model.predict(X_NEW, random_state=1))
    draws = model.predict(pd.concat([X_NEW] * 100), random_state=2).reshape(100, -1)
    np.testing.assert_allclose((draws == "b").mean(axis=0), h[:, 1], atol=0.25)
    assert (draws != draws[0]).any()


# -- weights and costs -------------------------------------------------------------------------------------
@pytest.mark.parametrize("estimator", [LogisticRegression(), tree()], ids=["logistic", "tree"])
def test_integer_weights_are_copies(estimator):
    model = fit(quick(estimator, rounds=6, step=0.3), sample_weight=WEIGHT)
    row = np.repeat(np.arange(len(Y)), WEIGHT.astype(int))
    copies = quick(estimator, rounds=6, step=0.3).fit(X.iloc[row], Y[row], sensitive_features=SEX.iloc[row])
    assert model.trace_.multipliers.any()
    np.testing.assert_allclose(model.trace_.multipliers, copies.trace_.multipliers, atol=1e-9)
    np.testing.assert_allclose(model.trace_.confusions, copies.trace_.confusions, atol=1e-12)
    np.testing.assert_array_equal(model.predict_proba(X_NEW), copies.predict_proba(X_NEW))


@pytest.mark.parametrize("start", ["zero", "post"])
def test_rows_of_weight_zero_are_left_out(start):
    weight = WEIGHT * (np.arange(len(Y)) % 3 > 0)
    options = {"start": start, "max_multiplier": "auto"}
    model = fit(quick(**options), sample_weight=weight)
    kept = np.flatnonzero(weight)
    alone = quick(**options).fit(X.iloc[kept], Y[kept], sensitive_features=SEX.iloc[kept], sample_weight=weight[kept])
    np.testing.assert_array_equal(model.trace_.multipliers, alone.trace_.multipliers)
    np.testing.assert_array_equal(model.predict_proba(X_NEW), alone.predict_proba(X_NEW))


def test_costs_change_what_is_learned():
    R = 1 - np.eye(3)
    R[2] *= 20
    costly = fit(quick(costs=R, tolerance=1.0))
    plain = fit(quick(tolerance=1.0))
    assert costly.predict_proba(X)[:, 2].mean() > plain.predict_proba(X)[:, 2].mean()
    options = {"start": "post", "max_multiplier": "auto"}
    same = fit(quick(costs=1 - np.eye(3), **options))  # 0-1 costs are accuracy
    np.testing.assert_array_equal(same.trace_.multipliers, fit(quick(**options)).trace_.multipliers)


# -- seeds -------------------------------------------------------------------------------------------------
def test_the_same_seed_gives_the_same_run():
    forest, options = RandomForestClassifier(3, max_depth=3), {"start": "post", "max_multiplier": "auto"}
    one, two = (fit(quick(forest, random_state=5, **options)) for _ in range(2))
    np.testing.assert_array_equal(one.trace_.multipliers, two.trace_.multipliers)
    np.testing.assert_array_equal(one.predict_proba(X_NEW), two.predict_proba(X_NEW))
    np.testing.assert_array_equal(one.predict(X_NEW), two.predict(X_NEW))  # the key too
    assert forest.random_state is None and one.estimator.random_state is None  # what was given is left as it was
    assert all(member.random_state == 5 for member in one.mixture_.members)
    own = fit(quick(RandomForestClassifier(3, max_depth=3, random_state=9), random_state=5))
    assert all(member.random_state == 9 for member in own.mixture_.members)
    fresh = fit(quick(forest, random_state=None))
    assert fresh.mixture_.members[0].random_state is not None  # drawn, so that a checkpoint can continue with it
    for seed in (np.random.default_rng(3), np.random.RandomState(3), np.int64(3)):
        assert fit(quick(forest, random_state=seed, rounds=1)).mixture_.members[0].random_state is not None


def test_global_random_states_are_left_as_they_were():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    fit(quick(DecisionTreeClassifier(max_depth=3), start="post", max_multiplier="auto"))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# -- fits that fail ----------------------------------------------------------------------------------------
def test_a_fit_that_fails_leaves_the_earlier_one_complete():
    model = fit(quick())
    before, attributes, text = model.predict_proba(X_NEW), dict(model.__dict__), str(model.report())
    for wrong in ({"y": ["a"] * len(Y)}, {"sensitive_features": None}, {"sample_weight": -np.ones(len(Y))}):
        with pytest.raises(ValueError):
            model.fit(X, **{"y": Y, "sensitive_features": SEX} | wrong)
    with pytest.raises(ValueError):
        model.fit(X[["x1"]], Y[:10], sensitive_features=SEX)
    assert model.__dict__ == attributes and model.n_features_in_ == 2
    FailingBayes.fits = 0
    model.set_params(estimator=FailingBayes(fail_at=3))
    with pytest.raises(ValueError, match="no more"):
        fit(model)
    np.testing.assert_array_equal(model.predict_proba(X_NEW), before)
    assert str(model.report()) == text
