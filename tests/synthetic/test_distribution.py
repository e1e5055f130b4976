"""The posteriors are those of the rows drawn."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from optfair.datasets import World, make_fair_classification
from tests import problems


@pytest.mark.parametrize("seed", range(3))
def test_posteriors_are_those_of_bayes(seed, unequal):
    """P(A=a, Y=i | x) = ω_a N(x; μ_a, I) P(i | x, a) / Σ_a ω_a N(x; μ_a, I), with the densities of scipy."""
    data = make_fair_classification(50, 4, random_state=seed, bias=2.5, **unequal)
    world, X = data.world, data.X.to_numpy()
    density = np.stack([multivariate_normal(mean).pdf(X) for mean in world.centres], axis=1) * world.group_sizes
    group = density / density.sum(axis=1, keepdims=True)
    conditional = np.stack([problems.softmax(X @ world.slopes + b) for b in world.intercepts], axis=1)
    joint = group[:, :, None] * conditional
    np.testing.assert_allclose(world.group_posterior(data.X), group, atol=1e-12)
    np.testing.assert_allclose(data.joint_posterior, joint, atol=1e-12)
    np.testing.assert_allclose(world.class_posterior(data.X), joint.sum(axis=1), atol=1e-12)
    a = pd.Index(world.group_names).get_indexer(data.sensitive_features)
    aware = world.joint_posterior(X, sensitive_features=data.sensitive_features)
    assert (np.delete(aware.sum(axis=2), 0, axis=1)[a == 0] == 0).all()
    np.testing.assert_allclose(aware.sum(axis=1), conditional[np.arange(50), a], atol=1e-12)


def test_rows_are_calibrated(unequal):
    """Among rows whose P(A=a, Y=i | x) is about p, a share p has that group and class."""
    data = make_fair_classification(200_000, random_state=1, bias=1.5, **unequal)
    Z = data.joint_posterior
    a = pd.Index(data.group_names).get_indexer(data.sensitive_features)
    for group in range(3):
        for label in range(3):
            p, hit = Z[:, group, label], (a == group) & (data.y == label)
            bins = np.digitize(p, np.quantile(p, np.linspace(0, 1, 21)[1:-1]))
            excess, variance = (np.bincount(bins, value) for value in (hit - p, p * (1 - p)))
            assert (np.abs(excess) <= 5 * np.sqrt(variance)).all()


def test_a_world_by_hand():
    """Two rows in ten are of group B, and class 1 is twice as likely as class 0 for them, whatever x is."""
    world = World([0.8, 0.2], np.zeros((2, 1)), np.zeros((1, 2)), [[0, 0], [0, np.log(2)]])
    np.testing.assert_allclose(world.joint_posterior([[3.0]])[0], [[0.4, 0.4], [0.2 / 3, 0.4 / 3]])


def test_columns_are_found_by_name(world):
    X = world.sample(100, 0).X
    np.testing.assert_array_equal(world.group_posterior(X[X.columns[::-1]]), world.group_posterior(X.to_numpy()))


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"group_sizes": [0.5, 0.6]}, "group_sizes=.* sum to 1"),
        ({"centres": np.zeros((3, 5))}, r"centres: has shape \(3, 5\); group_sizes and slopes need \(2, 5\)"),
        ({"intercepts": np.zeros((2, 2))}, r"intercepts: has shape \(2, 2\)"),
        ({"intercepts": np.zeros(3)}, "intercepts: must be an array of finite numbers, 2-dimensional"),
        ({"slopes": np.full((5, 3), np.nan)}, "slopes: must be an array of finite numbers"),
        ({"slopes": np.zeros((5, 1))}, "slopes: has shape .*two classes"),
    ],
)
def test_worlds_by_hand_are_checked(world, wrong, message):
    with pytest.raises(ValueError, match=message):
        replace(world, **wrong)


def test_parameters_are_read_only(world):
    with pytest.raises(ValueError, match="read-only"):
        world.slopes[0] = 1
