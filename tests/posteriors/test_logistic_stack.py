"""Test that a stack of logistic regressions says what scikit-learn says of each."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from optfair.posteriors.logistic_stack import LogisticStack
from optfair.posteriors.models import GroupModels

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5))


def fitted(k, **options):
    """Return a logistic regression of k classes."""
    scores = X @ np.random.default_rng(k).normal(size=(5, k)) + RNG.gumbel(size=(300, k))
    return LogisticRegression(**options).fit(X, scores.argmax(axis=1))


MODELS = [fitted(2), DummyClassifier().fit(X, np.zeros(300)), fitted(5), None, fitted(2, solver="liblinear"), fitted(3)]


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_each_model_has_its_own_probabilities(scale):
    stack = LogisticStack.of(MODELS, scale * X)
    columns = stack.columns(scale * X)
    assert sorted(columns) == [0, 2, 5]
    for number, P in columns.items():
        np.testing.assert_allclose(P.T, MODELS[number].predict_proba(scale * X), atol=1e-12)


def hole(row):
    """Return rows of which one has a gap."""
    rows = X.copy()
    rows[row, 0] = np.nan
    return rows


class Own(LogisticRegression):
    """A sub-class, which may predict in its own way."""


@pytest.mark.parametrize(
    ("models", "rows"),
    [
        (MODELS, hole(0)),
        (MODELS, X.astype(np.float32)),
        (MODELS, X.tolist()),
        (MODELS, X[:, :4]),
        ([Own().fit(X, X[:, 0] > 0)], X),
        ([], X),
    ],
)
def test_what_is_not_plain_is_left_to_scikit_learn(models, rows):
    assert LogisticStack.of(models, rows).parts == {}


def test_models_of_the_groups_agree_with_scikit_learn_in_any_batch():
    models, columns = (MODELS[0], None, MODELS[2], MODELS[4]), ([3, 1], np.arange(5), np.arange(5), [0, 4])
    shares = np.full((4, 5), 0.2)
    groups = GroupModels(models, tuple(map(np.asarray, columns)), shares)
    P = RNG.dirichlet(np.ones(4), len(X))
    expected = np.zeros((len(X), 5, 4))
    for i, (model, index) in enumerate(zip(models, columns, strict=True)):
        expected[:, index, i] = P[:, [i]] * (shares[i] if model is None else model.predict_proba(X))
    np.testing.assert_allclose(groups(X, P), expected, atol=1e-13)
    alone = np.concatenate([groups(X[[row]], P[[row]]) for row in range(20)])
    np.testing.assert_allclose(alone, expected[:20], atol=1e-13)
    with pytest.raises(ValueError, match="contains NaN"):
        groups(hole(7), P)
