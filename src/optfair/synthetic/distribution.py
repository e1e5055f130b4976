"""Define a distribution of features, groups and classes whose posteriors have a closed form.

    A ~ ω        X | A=a ~ N(μ_a, I)        Y | X=x, A=a ~ softmax(x W + b_a)

    P(A=a | x) ∝ ω_a exp(x·μ_a − ‖μ_a‖²/2)        Z[x, a, i] = P(A=a, Y=i | x) = P(a | x) P(i | x, a)

Where all μ_a are equal and all b_a are equal, A is independent of (X, Y): Z[x, a, i] = ω_a η_i(x).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from optfair.inputs.labels import encode_groups, recode
from optfair.synthetic.arguments import check_sizes
from optfair.utils.checks import as_numbers, check_integer


@dataclass(frozen=True, eq=False, repr=False)
class Distribution:
    """The parameters and the posteriors of a `World`: everything that needs no rule.

    group_sizes : ω, (A,). centres : μ, (A, d). slopes : W, (d, m). intercepts : b, (A, m).
    """

    group_sizes: np.ndarray
    centres: np.ndarray
    slopes: np.ndarray
    intercepts: np.ndarray

    def __post_init__(self) -> None:
        for name, ndim in (("centres", 2), ("slopes", 2), ("intercepts", 2), ("group_sizes", 1)):
            value = as_numbers(getattr(self, name))
            if value is None or value.ndim != ndim or not np.isfinite(value).all():
                raise ValueError(f"{name}: must be an array of finite numbers, {ndim}-dimensional.")
            value = check_sizes(name, value, len(value)) if name == "group_sizes" else value
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        A, d, m = len(self.group_sizes), *self.slopes.shape
        if d < 1 or m < 2:
            raise ValueError(f"slopes: has shape {(d, m)}; needs at least one feature and two classes.")
        for name, shape in (("centres", (A, d)), ("intercepts", (A, m))):
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name}: has shape {getattr(self, name).shape}; group_sizes and slopes need {shape}.")

    def __repr__(self) -> str:
        d, m, A = len(self.slopes), len(self.class_names), len(self.group_sizes)
        return f"<{type(self).__name__}: {d} features, {m} classes, {A} groups>"

    @cached_property
    def feature_names(self) -> list[str]:
        """Return the names of the columns of X."""
        return [f"x{k}" for k in range(len(self.slopes))]

    @cached_property
    def class_names(self) -> list[int]:
        """Return the classes."""
        return list(range(self.slopes.shape[1]))

    @cached_property
    def group_names(self) -> list[str]:
        """Return the names of the groups, sorted."""
        A = len(self.group_sizes)
        return [chr(ord("A") + a) if A <= 26 else f"G{a:0{len(str(A))}d}" for a in range(A)]

    def group_posterior(self, X: Any) -> np.ndarray:
        """Return the probability of each group given the features.

        ``P(A=a | X=x) ∝ ω_a exp(x·μ_a − ‖μ_a‖²/2)``.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Features.

        Returns
        -------
        array of shape (n, A)
            Probabilities; each row sums to 1.

        Examples
        --------
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(100, random_state=0)
        >>> data.world.group_posterior(data.X).shape
        (100, 2)
        """
        x = self._features(X)
        return softmax(x @ self.centres.T - (self.centres**2).sum(axis=1) / 2 + np.log(self.group_sizes), axis=1)

    def joint_posterior(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return the probability of each pair of group and class given the features.

        ``Z[x, a, i] = P(A=a, Y=i | X=x)``; if the groups are given too, Z is zero outside the group of the row.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Features.
        sensitive_features : array-like of shape (n,), optional
            The group of each row.

        Returns
        -------
        array of shape (n, A, m)
            Probabilities; each row sums to 1. They are the input of `optfair.solve`.

        Examples
        --------
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(100, random_state=0)
        >>> data.world.joint_posterior(data.X).shape
        (100, 2, 3)
        """
        x = self._features(X)
        conditional = softmax((x @ self.slopes)[:, None, :] + self.intercepts, axis=2)
        if sensitive_features is None:
            return self.group_posterior(x)[:, :, None] * conditional
        codes, names = encode_groups(sensitive_features, len(x), missing="group")  # a group that no world has
        groups = pd.Index(self.group_names)
        codes = recode(codes, list(names), groups, "sensitive_features", "the groups of this world: ")
        return np.eye(len(groups))[codes][:, :, None] * conditional

    def class_posterior(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return the probability of each class given the features.

        ``η_i(x) = P(Y=i | X=x) = Σ_a Z[x, a, i]``; if the groups are given too, ``P(Y=i | X=x, A=a)``.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Features.
        sensitive_features : array-like of shape (n,), optional
            The group of each row.

        Returns
        -------
        array of shape (n, m)
            Probabilities; each row sums to 1.

        Examples
        --------
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(100, random_state=0)
        >>> data.world.class_posterior(data.X).shape
        (100, 3)
        """
        return self.joint_posterior(X, sensitive_features=sensitive_features).sum(axis=1)

    def _draw(self, n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
        """Return n rows of X, y and groups; those of a smaller n are the first of a larger n."""
        check_integer("n", n, 1)
        group_rng, feature_rng, label_rng = rng.spawn(3)
        a = group_rng.choice(len(self.group_sizes), n, p=self.group_sizes)
        x = self.centres[a] + feature_rng.standard_normal((n, len(self.slopes)))
        cumulative = softmax(x @ self.slopes + self.intercepts[a], axis=1).cumsum(axis=1)[:, :-1]
        y = (cumulative < label_rng.random((n, 1))).sum(axis=1)
        groups = np.array(self.group_names)[a]
        return pd.DataFrame(x, columns=self.feature_names), pd.Series(y, name="y"), pd.Series(groups, name="group")

    def _features(self, X: Any) -> np.ndarray:
        """Return X as an array (n, d), its columns in the order of `feature_names`."""
        if isinstance(X, pd.DataFrame) and set(X.columns) == set(self.feature_names):
            X = X[self.feature_names]
        x = as_numbers(X)
        if x is None or x.ndim != 2 or x.shape[1] != len(self.slopes) or not np.isfinite(x).all():
            raise ValueError(f"X: has shape {np.shape(X)}; must be finite numbers of shape (n, {len(self.slopes)}).")
        return x
