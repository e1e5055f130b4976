"""Evaluations agree with labelled data, and their errors are those observed."""

import numpy as np
import pytest

from optfair import Constraint, metrics
from tests import problems


@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_evaluation_agrees_with_labelled_data(make_world, unequal, criterion):
    world = make_world(7, **unequal, bias=1.0)
    data = world.sample(200_000, 8)

    def rule(X):
        return problems.softmax(X.to_numpy() @ np.linspace(-1, 1, 15).reshape(5, 3))

    result = world.evaluate(rule, criterion)
    h = rule(data.X)
    confusion = metrics.group_confusion(data.y, h, sensitive_features=data.sensitive_features)
    hits = h[np.arange(len(h)), data.y]
    assert abs(hits.mean() - result.accuracy) < 5 * np.hypot(hits.std() / np.sqrt(len(h)), result.accuracy_error)
    gaps = confusion.gaps(criterion)
    largest = gaps.loc[gaps["value"].abs().idxmax()]
    assert abs(abs(largest["value"]) - result.violation) < 5 * np.hypot(largest["se"], result.violation_error)
    np.testing.assert_allclose(confusion.tensor, result.confusion, atol=5 * 0.5 / np.sqrt(200_000) * 2**0.5)


def test_monte_carlo_errors_are_honest(make_world):
    """The spread over populations is the error stated, and within the bound of the docstring."""
    world, n = make_world(9, group_sizes=(0.8, 0.2)), 2000
    rule = world.optimum("dp", 0.05, n=n)
    results = [world.evaluate(rule, "dp", n=n, random_state=seed) for seed in range(100, 200)]
    for value in ("accuracy", "violation"):
        stated = np.mean([getattr(result, f"{value}_error") for result in results])
        assert 0.75 < np.std([getattr(result, value) for result in results]) / stated < 1.3
    assert all(result.accuracy_error <= 0.5 / np.sqrt(n) for result in results)


def test_labels_probabilities_and_options(make_world):
    world = make_world(10, n_groups=3)

    def rule(X):
        return (X["x0"] > 0).astype(int)

    labels = world.evaluate(rule, n=5000)
    one_hot = world.evaluate(lambda X: np.eye(3)[rule(X)], n=5000)
    assert labels == one_hot and labels.n == 5000
    pairwise = world.evaluate(rule, n=5000, reference="pairwise")
    assert labels.violation < pairwise.violation <= 2 * labels.violation
    assert pairwise == world.evaluate(rule, Constraint("dp", reference="pairwise"), n=5000)
