"""Define a world with a known truth: the result of any method can be compared with the optimum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from optfair.inputs.dataset import Dataset
from optfair.rule.frontier import Frontier
from optfair.rule.rule import FairRule
from optfair.rule.solve import solve
from optfair.rule.tolerance_path import frontier, with_tolerance
from optfair.synthetic.arguments import POPULATION_STREAM, SAMPLE_STREAM, stream
from optfair.synthetic.distribution import Distribution
from optfair.synthetic.evaluation import WorldEvaluation, as_gap_constraints, as_probabilities, evaluate_rule
from optfair.utils.checks import check_choice

POPULATION_SIZE = 200_000  # the standard error of an accuracy is then at most .0011


@dataclass(frozen=True, eq=False, repr=False)
class World(Distribution):
    """A distribution of (X, A, Y) whose posteriors have a closed form.

    ``A ~ ω``, ``X | A=a ~ N(μ_a, I)``, ``Y | X=x, A=a ~ softmax(x W + b_a)``. Groups are named "A", "B", … and classes
    0, 1, ….

    Parameters
    ----------
    group_sizes : array of shape (A,)
        Shares ω of the groups; positive numbers that sum to 1.
    centres : array of shape (A, d)
        Means μ of the features by group.
    slopes : array of shape (d, m)
        Coefficients W of the classes.
    intercepts : array of shape (A, m)
        Intercepts b of the classes by group.

    Attributes
    ----------
    feature_names : list of str
        Names "x0", "x1", … of the columns of X.
    class_names : list of int
        The classes 0, 1, ….
    group_names : list of str
        The groups "A", "B", …; with more than 26 groups "G000", "G001", …; sorted in both cases.

    Notes
    -----
    `frontier`, `optimum`, `evaluate` and `regret` need means over the population. They draw ``n`` rows and use the
    true posteriors of these rows, so there is no label noise. The noise of X remains: a standard error of at most
    .5/√n in the accuracy (.0011 for 200,000 rows), and of at most .5/√(n s) in the rate of a group of share s (for eo,
    of a group within a class). The same ``n`` and ``random_state`` give the same rows, so quantities that are compared
    on them (`regret`) share this noise.

    Examples
    --------
    Class 1 is twice as likely as class 0 in group B, whatever x is:

    >>> import numpy as np
    >>> from optfair.datasets import World
    >>> world = World([0.8, 0.2], np.zeros((2, 1)), np.zeros((1, 2)), [[0, 0], [0, np.log(2)]])
    >>> world
    <World: 1 features, 2 classes, 2 groups>
    >>> world.joint_posterior([[3.0]]).round(3)
    array([[[0.4  , 0.4  ],
            [0.067, 0.133]]])
    """

    def sample(self, n: int, random_state: Any = None) -> SyntheticDataset:
        """Draw a data set from this world.

        A smaller sample of the same seed is the beginning of a larger one.

        Parameters
        ----------
        n : int
            Number of rows.
        random_state : None, int or numpy.random.Generator, default None
            The seed; for a test set, another one than that of the training data.

        Returns
        -------
        SyntheticDataset
            A `Dataset` with the attributes ``world`` and ``joint_posterior``.

        Examples
        --------
        >>> from optfair.datasets import make_fair_classification
        >>> world = make_fair_classification(random_state=0).world
        >>> world.sample(500, random_state=1)
        <Dataset synthetic: 500 people, 5 features, 3 classes, 2 groups>
        """
        return self._sample(n, stream(random_state, SAMPLE_STREAM))

    def _sample(self, n: int, rng: np.random.Generator) -> SyntheticDataset:
        X, y, groups = self._draw(n, rng)
        return SyntheticDataset(
            name="synthetic",
            X=X,
            y=y,
            sensitive_features=groups,
            feature_names=self.feature_names,
            class_names=self.class_names,
            group_names=self.group_names,
            description=(
                "Synthetic data. A ~ group_sizes; X | A=a ~ N(centres[a], I); Y | X, A=a ~ softmax(X slopes + "
                "intercepts[a]). The parameters, the true posteriors and the true frontier are in .world."
            ),
            world=self,
        )

    # -- the optimum, and the distance of a rule from it ---------------------------------------------------
    def frontier(
        self,
        criterion: Any = "dp",
        tolerances: int | Sequence[float] = 20,
        n: int = POPULATION_SIZE,
        random_state: Any = 0,
        awareness: str = "blind",
        **options: Any,
    ) -> Frontier:
        """Return the true frontier: for every tolerance, the most accurate rule within it.

        ``max_h accuracy(h)  s.t.  violation(h) ≤ tolerance`` under the true posteriors.

        Parameters
        ----------
        criterion : str or Constraint, default "dp"
            The fairness criterion, as in `optfair.solve`.
        tolerances : int or sequence of float, default 20
            The tolerances, or their number.
        n : int, default 200_000
            Number of rows of the population.
        random_state : None, int or numpy.random.Generator, default 0
            The seed of the population.
        awareness : {"blind", "aware"}, default "blind"
            Whether rules see x only, or x and the group.
        **options : dict
            Further arguments of `optfair.frontier`.

        Returns
        -------
        Frontier
            The rules and a table of what each of them reaches.

        Examples
        --------
        >>> from optfair.datasets import make_fair_classification
        >>> world = make_fair_classification(random_state=0).world
        >>> path = world.frontier("dp", [0.01, 0.05, 0.1], n=2_000)
        >>> bool(path.table.sort_values("tolerance")["accuracy"].is_monotonic_increasing)
        True
        """
        _, Z = self._population(n, random_state, awareness)
        return frontier(Z, criterion, tolerances, **self._names_and_key(), **options)

    def optimum(
        self,
        criterion: Any = "dp",
        tolerance: Any = None,
        n: int = POPULATION_SIZE,
        random_state: Any = 0,
        awareness: str = "blind",
        **options: Any,
    ) -> FairRule:
        """Return the most accurate rule within a tolerance under the true posteriors.

        Parameters
        ----------
        criterion : str or Constraint, default "dp"
            The fairness criterion, as in `optfair.solve`.
        tolerance : float, optional
            The bound on every gap, as in `optfair.solve`.
        n : int, default 200_000
            Number of rows of the population.
        random_state : None, int or numpy.random.Generator, default 0
            The seed of the population.
        awareness : {"blind", "aware"}, default "blind"
            Whether rules see x only, or x and the group.
        **options : dict
            Further arguments of `optfair.solve`.

        Returns
        -------
        FairRule
            A rule to apply to ``joint_posterior(X)``, with its certificate.

        Examples
        --------
        >>> from optfair.datasets import make_fair_classification
        >>> world = make_fair_classification(random_state=0).world
        >>> rule = world.optimum("dp", 0.02, n=2_000)
        >>> round(rule.certificate.violation, 3)
        0.02
        """
        _, Z = self._population(n, random_state, awareness)
        return solve(Z, criterion, tolerance, **self._names_and_key(), **options)

    def evaluate(
        self,
        rule: FairRule | Callable[..., Any],
        criterion: Any = "dp",
        n: int = POPULATION_SIZE,
        random_state: Any = 0,
        awareness: str = "blind",
        **options: Any,
    ) -> WorldEvaluation:
        """Measure the accuracy and the violation of a rule under the true posteriors.

        They are those of ``J = mean_x z(x) ⊗ h(x)``.

        Parameters
        ----------
        rule : FairRule or callable
            A `FairRule`, which is applied to the true posteriors; or a function of X (a DataFrame as in `sample`) that
            returns probabilities (n, m) or n classes, such as ``model.predict_proba``. If aware, it is called as
            ``rule(X, sensitive_features=groups)``.
        criterion : str or Constraint, default "dp"
            The fairness criterion; it must compare groups by gaps.
        n : int, default 200_000
            Number of rows of the population.
        random_state : None, int or numpy.random.Generator, default 0
            The seed of the population.
        awareness : {"blind", "aware"}, default "blind"
            Whether the rule sees x only, or x and the group.
        **options : dict
            ``reference`` and ``outcomes``, as in `optfair.metrics.violation`.

        Returns
        -------
        WorldEvaluation
            Accuracy and violation with their standard errors.

        Examples
        --------
        >>> from optfair.datasets import make_fair_classification
        >>> world = make_fair_classification(random_state=0).world
        >>> result = world.evaluate(lambda X: (X["x0"] > 0).astype(int), n=2_000)
        >>> 0 <= result.violation <= 1, result.n
        (True, 2000)
        """
        data, Z = self._population(n, random_state, awareness)
        return self._evaluate(rule, data, Z, awareness, as_gap_constraints(criterion, **options))

    def regret(
        self,
        rule: FairRule | Callable[..., Any],
        criterion: Any = "dp",
        n: int = POPULATION_SIZE,
        random_state: Any = 0,
        awareness: str = "blind",
        gap: float = 1e-4,
        **options: Any,
    ) -> float:
        """Return how far the accuracy of a rule is below that of the best rule of the same violation.

        The result is never negative beyond rounding, by weak duality on the same rows, and exceeds the true distance
        on these rows by at most ``gap``.

        Parameters
        ----------
        rule : FairRule or callable
            As in `evaluate`.
        criterion : str or Constraint, default "dp"
            The fairness criterion; it must compare groups by gaps.
        n : int, default 200_000
            Number of rows of the population.
        random_state : None, int or numpy.random.Generator, default 0
            The seed of the population.
        awareness : {"blind", "aware"}, default "blind"
            Whether the rule sees x only, or x and the group.
        gap : float, default 1e-4
            The accuracy of the bound on the best rule, as in `optfair.solve`.
        **options : dict
            ``reference`` and ``outcomes``, as in `optfair.metrics.violation`.

        Returns
        -------
        float
            The upper bound on the accuracy of such rules minus the accuracy of this rule.

        Examples
        --------
        >>> from optfair.datasets import make_fair_classification
        >>> world = make_fair_classification(random_state=0).world
        >>> world.regret(lambda X: [0] * len(X), n=2_000) > 0.05  # a constant is fair, but not accurate
        True
        """
        data, Z = self._population(n, random_state, awareness)
        constraints = as_gap_constraints(criterion, **options)
        result = self._evaluate(rule, data, Z, awareness, constraints)
        best = solve(Z, with_tolerance(constraints, min(result.violation, 1.0)), gap=gap, **self._names_and_key())
        return best.certificate.upper_bound - result.accuracy

    def _evaluate(
        self, rule: Any, data: Dataset, Z: np.ndarray, awareness: str, constraints: list[Any]
    ) -> WorldEvaluation:
        if isinstance(rule, FairRule):
            prediction = rule.predict_proba(Z)
        elif not callable(rule):
            raise ValueError(f"rule: is a {type(rule).__name__}; must be a FairRule or a function of X.")
        else:
            groups = {"sensitive_features": data.sensitive_features} if awareness == "aware" else {}
            prediction = rule(data.X, **groups)
        h = as_probabilities(prediction, self.class_names, len(Z))
        return evaluate_rule(h, Z, constraints, self.group_names, self.class_names)

    def _population(self, n: int, random_state: Any, awareness: str) -> tuple[SyntheticDataset, np.ndarray]:
        """Return n rows for an evaluation, none of which `sample` draws, and their Z."""
        check_choice("awareness", awareness, ("blind", "aware"))
        data = self._sample(n, stream(random_state, POPULATION_STREAM))
        groups = data.sensitive_features if awareness == "aware" else None
        return data, self.joint_posterior(data.X, sensitive_features=groups)

    def _names_and_key(self) -> dict[str, Any]:
        """Return names, and a seed of hashed decisions that repeats: no person here gains by guessing the key."""
        return {"groups": self.group_names, "classes": self.class_names, "random_state": 0}


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticDataset(Dataset):
    """A `Dataset` together with the `World` it was drawn from.

    See `Dataset` for the other parameters.

    Parameters
    ----------
    world : World
        The distribution of the rows.

    Attributes
    ----------
    joint_posterior : array of shape (n, A, m)
        The true posteriors of the rows.

    Examples
    --------
    >>> from optfair.datasets import make_fair_classification
    >>> data = make_fair_classification(100, random_state=0)
    >>> data.joint_posterior.shape
    (100, 2, 3)
    """

    world: World = field(kw_only=True)

    @cached_property
    def joint_posterior(self) -> np.ndarray:
        """Return Z[x, a, i] = P(A=a, Y=i | X=x) of these rows, (n, A, m)."""
        return self.world.joint_posterior(self.X)
