"""ERM: the numbers of the released code, scikit-learn's logistic regression, and input without groups."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from optfair.baselines import ERM
from tests.baselines.helpers import adult, evaluate, three_by_three


def network(**settings):
    return pytest.importorskip("optfair.nn", exc_type=ImportError).TorchClassifier(**settings)


# -- check 1: the released code's plain training on Adult ---------------------------------------------------
@pytest.mark.slow
def test_adult_as_released():
    """Their split and settings, seeds 1–3: accuracy .8513 ± .0007, DP .1165, EO .084 (group against all rows)."""
    results = []
    for seed in (1, 2, 3):
        train, test = adult(seed)
        model = ERM(network(lr=0.005, epochs=50, batch_size=128), random_state=seed).fit(*train[:2])
        accuracy, dp = evaluate(model, test, "dp")
        results.append((accuracy, dp, evaluate(model, test, "eo")[1]))
    accuracy, dp, eo = np.mean(results, axis=0)
    assert accuracy == pytest.approx(0.8513, abs=0.001)
    assert dp == pytest.approx(0.1165, abs=0.005)
    assert eo == pytest.approx(0.084, abs=0.012)


# -- check 2: another solver --------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", ["adult", "three by three"])
def test_a_linear_network_is_logistic_regression(shape):
    (X, y, _), _ = adult() if shape == "adult" else three_by_three()
    X, y = StandardScaler().fit_transform(X[:3000, :20]), y[:3000]
    X = X[:, X.std(axis=0) > 0]
    X = X[:, np.abs(np.corrcoef(X, rowvar=False) - np.eye(X.shape[1])).max(axis=0) < 0.95]
    model = ERM(network(batch_size=None, weight_decay=0.0, dtype="float64", epochs=40), random_state=0).fit(X, y)
    reference = LogisticRegression(C=np.inf, tol=1e-9, max_iter=5000).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(X), atol=1e-3)
    np.testing.assert_allclose(ERM(reference).fit(X, y).predict_proba(X), reference.predict_proba(X), atol=1e-9)


# -- check 3: names are only names --------------------------------------------------------------------------
def test_other_names_give_the_same_columns():
    (X, y, _), (X_new, _, _) = three_by_three()
    _, codes = np.unique(y, return_inverse=True)
    order = np.array([2, 0, 1])  # class k is now called order[k]
    plain = ERM(LogisticRegression(tol=1e-8), random_state=0).fit(X, codes)
    renamed = ERM(LogisticRegression(tol=1e-8), random_state=0).fit(X, order[codes])
    np.testing.assert_allclose(renamed.predict_proba(X_new)[:, order], plain.predict_proba(X_new), atol=1e-4)
    np.testing.assert_array_equal(renamed.predict(X_new), order[plain.predict(X_new)])


# -- input --------------------------------------------------------------------------------------------------
def test_groups_are_not_needed_and_change_nothing():
    (X, y, group), (X_new, _, _) = three_by_three()
    frame = pd.DataFrame(X).rename(columns=str)
    without = ERM(random_state=0).fit(frame, y)
    with_groups = ERM(random_state=0).fit(frame, y, sensitive_features=group)
    named = ERM(sensitive_features="group", random_state=0).fit(frame.assign(group=group), y)
    new = pd.DataFrame(X_new).rename(columns=str)
    for model in (with_groups, named):
        np.testing.assert_array_equal(model.predict_proba(new), without.predict_proba(new))
    assert with_groups.groups_.tolist() == sorted(set(group.tolist()))


def test_weights_reach_the_model():
    (X, y, _), _ = three_by_three()
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    copies = np.repeat(np.arange(len(y)), weight)
    base = LogisticRegression(tol=1e-9, max_iter=1000)
    weighted = ERM(base).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(
        weighted.predict_proba(X), ERM(base).fit(X[copies], y[copies]).predict_proba(X), atol=1e-6
    )


def test_same_seed_same_result():
    (X, y, _), _ = three_by_three()
    first, same, other = (ERM(network(epochs=2), random_state=k).fit(X, y).predict_proba(X) for k in (3, 3, 4))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_a_model_that_needs_more_than_one_row():
    (X, y, _), _ = three_by_three()
    by_batch = FunctionTransformer(lambda rows: (rows - rows.mean(0)) / rows.std(0))
    assert ERM(make_pipeline(by_batch, LogisticRegression())).fit(X, y).predict_proba(X).shape == (len(y), 3)


def test_errors():
    (X, y, group), _ = three_by_three()
    with pytest.raises(ValueError, match="LinearSVC has no predict_proba"):
        ERM(LinearSVC()).fit(X, y)
    with pytest.raises(ValueError, match="missing='no': must be one of"):
        ERM(missing="no").fit(X, y)
    with pytest.raises(ValueError, match="given here and in the constructor"):
        ERM(sensitive_features=0).fit(X, y, sensitive_features=group)
    with pytest.raises(TypeError, match="criterion"):
        ERM(criterion="dp")
