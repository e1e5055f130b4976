"""`make_fair_classification`: a `World` of given sizes and bias, and people drawn from it."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import pdist
from scipy.special import logsumexp

from optfair.datasets.world import WORLD, SyntheticDataset, World, check_count, check_sizes, stream

BALANCING_PEOPLE = 50_000


def make_fair_classification(
    n_samples: int = 1000,
    n_features: int = 5,
    n_classes: int = 3,
    n_groups: int = 2,
    *,
    group_sizes: Sequence[float] | None = None,
    class_sizes: Sequence[float] | None = None,
    bias: float = 1.0,
    direct_bias: float = 0.0,
    separation: float = 2.0,
    random_state: Any = None,
) -> SyntheticDataset:
    """X | A=a ~ N(μ_a, I), Y | X=x, A=a ~ softmax(x W + b_a): made-up people, and in ``.world`` the truth about them.

    The world depends on ``random_state`` and the other arguments, not on ``n_samples``. Group a leans to class
    a mod n_classes. With ``bias=0, direct_bias=0`` groups do not differ, and every criterion costs nothing.

    Parameters
    ----------
    group_sizes : ω, (n_groups,), positive numbers that sum to 1 (None: equal).
    class_sizes : P(Y), (n_classes,), likewise; met up to about .005.
    bias : the largest distance between two centres μ_a, in standard deviations of a feature: groups differ in features
        that speak of the class (indirect bias).
    direct_bias : by how much the log-odds of its own class are higher for a group than for the others, at the same x.
    separation : root mean square of W's columns: how well x tells the classes apart. From 0 (not at all); with the
        defaults the best rule has an accuracy of about .79, with 1 of .64, with 5 of .91.
    random_state : None, an integer or a Generator.
    """
    counts = {"n_samples": n_samples, "n_features": n_features, "n_classes": n_classes, "n_groups": n_groups}
    for name, count in counts.items():
        check_count(name, count, 2 if name == "n_classes" else 1)
    for name, value in (("bias", bias), ("direct_bias", direct_bias), ("separation", separation)):
        if isinstance(value, bool) or not isinstance(value, (Real, np.number)) or not 0 <= float(value) < np.inf:
            raise ValueError(f"{name}={value!r}: must be a number of at least 0.")
    d, m, A = int(n_features), int(n_classes), int(n_groups)
    omega, target = check_sizes("group_sizes", group_sizes, A), check_sizes("class_sizes", class_sizes, m)
    rng = stream(random_state, WORLD)

    # The corners of a regular simplex, turned at random; where there are too few features for it, its shadow.
    directions = rng.standard_normal((d, m))
    U, _, Vt = np.linalg.svd(directions - directions.mean(axis=1, keepdims=True), full_matrices=False)
    rank = min(d, m - 1)
    slopes = np.sqrt(m / rank) * U[:, :rank] @ Vt[:rank]

    leaning = np.arange(A) % m
    centres = slopes[:, leaning].T + rng.standard_normal((A, d)) / np.sqrt(d)  # to its class, and aside
    centres -= omega @ centres
    centres *= bias / pdist(centres).max() if A > 1 else 0.0
    own = direct_bias * np.eye(m)[leaning]
    own -= omega @ own

    slopes = separation * slopes
    a = rng.choice(A, BALANCING_PEOPLE, p=omega)
    # x W has no more than rank + 1 dimensions that matter, however many features there are.
    noise = rng.standard_normal((BALANCING_PEOPLE, min(d, m))) @ np.linalg.qr(slopes, mode="r")
    b = _balancing((centres @ slopes + own)[a] + noise, target)
    return World(omega, centres, slopes, own + b).sample(n_samples, random_state)


def _balancing(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    """b (m,) such that mean softmax(scores + b) = target: the minimum of mean logsumexp(scores + b) − target·b."""

    def objective(b: np.ndarray) -> tuple[float, np.ndarray]:
        total = logsumexp(scores + b, axis=1, keepdims=True)
        return float(total.mean() - target @ b), np.exp(scores + b - total).mean(axis=0) - target

    b = minimize(objective, np.log(target), jac=True, method="L-BFGS-B", options={"gtol": 1e-6}).x
    return b - b.mean()
