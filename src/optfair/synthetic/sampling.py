"""Make a `World` of requested sizes and bias, and a data set drawn from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import pdist
from scipy.special import logsumexp

from optfair.synthetic.arguments import WORLD_STREAM, check_sizes, stream
from optfair.synthetic.world import SyntheticDataset, World
from optfair.utils.checks import check_integer, check_number

BALANCING_ROWS = 50_000  # class sizes are then met up to about two standard errors, .005


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
    """Make synthetic data with groups, together with the world they are drawn from.

    ``X | A=a ~ N(μ_a, I)`` and ``Y | X=x, A=a ~ softmax(x W + b_a)``. The world depends on ``random_state`` and the
    other arguments, but not on ``n_samples``. Group a leans to class a mod n_classes. With ``bias=0, direct_bias=0``
    groups do not differ, and every fairness criterion can be met without a loss of accuracy.

    Parameters
    ----------
    n_samples : int, default 1000
        Number of rows.
    n_features : int, default 5
        Number d of features.
    n_classes : int, default 3
        Number m of classes, at least 2.
    n_groups : int, default 2
        Number A of groups.
    group_sizes : sequence of float of shape (n_groups,), optional
        Shares ω of the groups, positive numbers that sum to 1; by default equal.
    class_sizes : sequence of float of shape (n_classes,), optional
        Shares P(Y) of the classes, positive numbers that sum to 1; by default equal. They are met up to about .005.
    bias : float, default 1.0
        The largest distance between two centres μ_a, in standard deviations of a feature: groups differ in features
        that are informative about the class (indirect bias).
    direct_bias : float, default 0.0
        By how much the log-odds of the class that a group leans to are higher in this group than in others, at the
        same x.
    separation : float, default 2.0
        Root mean square of the columns of W: how well x separates the classes. It is at least 0, where x is not
        informative. With the defaults the best rule has an accuracy of about .79; with 1 of .64; with 5 of .91.
    random_state : None, int or numpy.random.Generator, default None
        The seed of the world and of the sample.

    Returns
    -------
    SyntheticDataset
        A `Dataset` whose attribute ``world`` is the `World` and whose ``joint_posterior`` are the true posteriors of
        its rows.

    Examples
    --------
    >>> from optfair.datasets import make_fair_classification
    >>> data = make_fair_classification(1000, n_classes=3, n_groups=2, group_sizes=[0.7, 0.3], random_state=0)
    >>> data
    <Dataset synthetic: 1,000 people, 5 features, 3 classes, 2 groups>
    >>> data.joint_posterior.shape
    (1000, 2, 3)
    >>> data.world
    <World: 5 features, 3 classes, 2 groups>
    """
    counts = {"n_samples": n_samples, "n_features": n_features, "n_classes": n_classes, "n_groups": n_groups}
    for name, count in counts.items():
        check_integer(name, count, 2 if name == "n_classes" else 1)
    for name, value in (("bias", bias), ("direct_bias", direct_bias), ("separation", separation)):
        check_number(name, value, "[0, inf)")
    d, m, A = int(n_features), int(n_classes), int(n_groups)
    omega, target = check_sizes("group_sizes", group_sizes, A), check_sizes("class_sizes", class_sizes, m)
    rng = stream(random_state, WORLD_STREAM)

    # The corners of a regular simplex, rotated at random; with too few features for it, its projection.
    directions = rng.standard_normal((d, m))
    U, _, Vt = np.linalg.svd(directions - directions.mean(axis=1, keepdims=True), full_matrices=False)
    rank = min(d, m - 1)
    slopes = np.sqrt(m / rank) * U[:, :rank] @ Vt[:rank]

    preferred_class = np.arange(A) % m
    # Each centre is moved towards its class, and by noise in other directions.
    centres = slopes[:, preferred_class].T + rng.standard_normal((A, d)) / np.sqrt(d)
    centres -= omega @ centres
    centres *= bias / pdist(centres).max() if A > 1 else 0.0
    preference = direct_bias * np.eye(m)[preferred_class]
    preference -= omega @ preference

    slopes = separation * slopes
    a = rng.choice(A, BALANCING_ROWS, p=omega)
    # x W has at most rank + 1 relevant dimensions, however many features there are.
    noise = rng.standard_normal((BALANCING_ROWS, min(d, m))) @ np.linalg.qr(slopes, mode="r")
    b = _balancing_intercepts((centres @ slopes + preference)[a] + noise, target)
    return World(omega, centres, slopes, preference + b).sample(n_samples, random_state)


def _balancing_intercepts(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return b (m,) with mean softmax(scores + b) = target: the minimum of mean logsumexp(scores + b) − target·b."""

    def objective(b: np.ndarray) -> tuple[float, np.ndarray]:
        total = logsumexp(scores + b, axis=1, keepdims=True)
        return float(total.mean() - target @ b), np.exp(scores + b - total).mean(axis=0) - target

    b = minimize(objective, np.log(target), jac=True, method="L-BFGS-B", options={"gtol": 1e-6}).x
    return b - b.mean()
