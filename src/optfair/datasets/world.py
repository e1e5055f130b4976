"""Made-up people whose truth is known: what any method reaches can be compared with the best there is.

    A ~ ω        X | A=a ~ N(μ_a, I)        Y | X=x, A=a ~ softmax(x W + b_a)

    P(A=a | x) ∝ ω_a exp(x·μ_a − ‖μ_a‖²/2)        Z[x, a, i] = P(A=a, Y=i | x) = P(a | x) P(i | x, a)

Where all μ_a are equal and all b_a are equal, A is independent of (X, Y): Z[x, a, i] = ω_a η_i(x).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from optfair.constraints import Constraint, as_constraints, compile_rows
from optfair.datasets.dataset import Dataset
from optfair.dual.certificate import accuracy
from optfair.errors import warn_empty
from optfair.labels import encode_groups, recode
from optfair.metrics.confusion import read_prediction
from optfair.metrics.influence import rate_influence
from optfair.options import as_numbers
from optfair.path import Frontier, frontier, with_tolerance
from optfair.rule import FairRule
from optfair.solving import solve

# One seed has three streams that do not meet: the world, its people, and the people whom rules are judged on.
WORLD, PEOPLE, JUDGED = range(3)
CROWD = 200_000


@dataclass(frozen=True)
class Evaluation:
    """A rule in its world: accuracy Σ_a,i J[a,i,i] and violation max_k |D_k vec(J)| of J = mean_x z(x) ⊗ h(x).

    accuracy_error, violation_error : their Monte-Carlo standard errors (of the violation: of its largest gap).
    confusion : J, (A, m, m). n : people drawn.
    """

    accuracy: float
    violation: float
    accuracy_error: float
    violation_error: float
    confusion: np.ndarray = field(repr=False, compare=False)
    n: int


@dataclass(frozen=True, eq=False)
class World:
    """A ~ ω, X | a ~ N(μ_a, I), Y | x, a ~ softmax(x W + b_a): everything about it has a closed form.

    group_sizes : ω, (A,). centres : μ, (A, d). slopes : W, (d, m). intercepts : b, (A, m).

    Groups are named "A", "B", … and classes 0, 1, …. ``n`` people are drawn where a mean over the population is
    needed (`frontier`, `optimum`, `evaluate`, `regret`), and their true posteriors stand for them: there is no
    label noise. What is left is the noise of X: a standard error of at most .5/√n in the accuracy (.0011 for 200 000
    people), and of at most .5/√(n s) in the rate of a group of share s (of a group within a class, for eo). The same
    ``n`` and ``random_state`` are the same people, so what is compared on them (`regret`) shares that noise.
    awareness : "blind" (rules see x), or "aware" (rules see x and the group).
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
        return f"<World: {len(self.slopes)} features, {len(self.class_names)} classes, {len(self.group_sizes)} groups>"

    @cached_property
    def feature_names(self) -> list[str]:
        return [f"x{k}" for k in range(len(self.slopes))]

    @cached_property
    def class_names(self) -> list[int]:
        return list(range(self.slopes.shape[1]))

    @cached_property
    def group_names(self) -> list[str]:
        """ "A", "B", …; of more than 26 groups "G000", "G001", …: sorted in any case."""
        A = len(self.group_sizes)
        return [chr(ord("A") + a) if A <= 26 else f"G{a:0{len(str(A))}d}" for a in range(A)]

    # -- the truth -----------------------------------------------------------------------------------------
    def group_posterior(self, X: Any) -> np.ndarray:
        """P(A=a | X=x) ∝ ω_a exp(x·μ_a − ‖μ_a‖²/2), (n, A).   X: (n, d) array or DataFrame"""
        x = self._features(X)
        return softmax(x @ self.centres.T - (self.centres**2).sum(axis=1) / 2 + np.log(self.group_sizes), axis=1)

    def joint_posterior(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Z[x, a, i] = P(A=a, Y=i | X=x), (n, A, m); where groups are given too, zero outside the person's own."""
        x = self._features(X)
        given = softmax((x @ self.slopes)[:, None, :] + self.intercepts, axis=2)
        if sensitive_features is None:
            return self.group_posterior(x)[:, :, None] * given
        codes, names = encode_groups(sensitive_features, len(x))
        known = pd.Index(self.group_names)
        codes = recode(codes, list(names), known, "sensitive_features", "the groups of this world")
        return np.eye(len(known))[codes][:, :, None] * given

    def class_posterior(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """η_i(x) = P(Y=i | X=x) = Σ_a Z[x, a, i], (n, m); with groups P(Y=i | X=x, A=a)."""
        return self.joint_posterior(X, sensitive_features=sensitive_features).sum(axis=1)

    def sample(self, n: int, random_state: Any = None) -> SyntheticDataset:
        """n people of this world; those of a smaller n are the first of a larger one.

        random_state : None, an integer or a Generator; another one than that of the people trained on.
        """
        return self._draw(n, stream(random_state, PEOPLE))

    def _draw(self, n: int, rng: np.random.Generator) -> SyntheticDataset:
        check_count("n", n, 1)
        for_groups, for_features, for_labels = rng.spawn(3)
        a = for_groups.choice(len(self.group_sizes), n, p=self.group_sizes)
        x = self.centres[a] + for_features.standard_normal((n, len(self.slopes)))
        cumulative = softmax(x @ self.slopes + self.intercepts[a], axis=1).cumsum(axis=1)[:, :-1]
        return SyntheticDataset(
            name="synthetic",
            X=pd.DataFrame(x, columns=self.feature_names),
            y=pd.Series((cumulative < for_labels.random((n, 1))).sum(axis=1), name="y"),
            sensitive_features=pd.Series(np.array(self.group_names)[a], name="group"),
            feature_names=self.feature_names,
            class_names=self.class_names,
            group_names=self.group_names,
            description=(
                "Made-up people. A ~ group_sizes; X | A=a ~ N(centres[a], I); Y | X, A=a ~ softmax(X slopes + "
                "intercepts[a]). The parameters, the true posteriors and the true frontier are in .world."
            ),
            world=self,
        )

    # -- the best there is, and how far a rule is from it --------------------------------------------------
    def frontier(
        self,
        criterion: Any = "dp",
        tolerances: int | Sequence[float] = 20,
        n: int = CROWD,
        random_state: Any = 0,
        awareness: str = "blind",
        **options: Any,
    ) -> Frontier:
        """max_h accuracy s.t. violation ≤ t of the true posteriors, for every t.   options: of `optfair.frontier`"""
        _, Z = self._crowd(n, random_state, awareness)
        return frontier(Z, criterion, tolerances, **self._settings(), **options)

    def optimum(
        self,
        criterion: Any = "dp",
        tolerance: Any = None,
        n: int = CROWD,
        random_state: Any = 0,
        awareness: str = "blind",
        **options: Any,
    ) -> FairRule:
        """The best rule within tolerance, to be applied to `joint_posterior(X)`.   options: of `optfair.solve`"""
        _, Z = self._crowd(n, random_state, awareness)
        return solve(Z, criterion, tolerance, **self._settings(), **options)

    def evaluate(
        self,
        rule: FairRule | Callable[..., Any],
        criterion: Any = "dp",
        n: int = CROWD,
        random_state: Any = 0,
        awareness: str = "blind",
        **question: Any,
    ) -> Evaluation:
        """Accuracy and violation of h under the true posteriors: J = mean_x z(x) ⊗ h(x).

        rule : a function of X (DataFrame as in `sample`) that returns h (n, m) or n classes, such as
        ``model.predict_proba``; if aware it is called as ``rule(X, sensitive_features=groups)``; or a `FairRule`, which
        is given the true posteriors. criterion, question (reference, outcomes): as in `optfair.metrics.violation`.
        """
        people, Z = self._crowd(n, random_state, awareness)
        return self._judge(rule, people, Z, awareness, _gap_criteria(criterion, **question))

    def regret(
        self,
        rule: FairRule | Callable[..., Any],
        criterion: Any = "dp",
        n: int = CROWD,
        random_state: Any = 0,
        awareness: str = "blind",
        gap: float = 1e-4,
        **question: Any,
    ) -> float:
        """(accuracy no rule of the same violation exceeds) − accuracy of this rule; arguments as in `evaluate`.

        Never negative beyond rounding (weak duality, on the very people of the evaluation), and too large by at most
        ``gap``.
        """
        people, Z = self._crowd(n, random_state, awareness)
        wishes = _gap_criteria(criterion, **question)
        found = self._judge(rule, people, Z, awareness, wishes)
        best = solve(Z, with_tolerance(wishes, min(found.violation, 1.0)), gap=gap, **self._settings())
        return best.certificate.upper_bound - found.accuracy

    def _judge(self, rule: Any, people: Dataset, Z: np.ndarray, awareness: str, wishes: list[Any]) -> Evaluation:
        groups, classes = pd.Index(self.group_names), pd.Index(self.class_names)
        if isinstance(rule, FairRule):
            answer = rule.predict_proba(Z)
        elif not callable(rule):
            raise ValueError(f"rule: is a {type(rule).__name__}; must be a FairRule or a function of X.")
        else:
            aware = {"sensitive_features": people.sensitive_features} if awareness == "aware" else {}
            answer = rule(people.X, **aware)
        codes, h, _ = read_prediction(answer, classes, fixed=True)
        h = np.eye(len(classes))[codes] if h is None else h
        if len(h) != len(Z):
            raise ValueError(f"rule: gave {len(h)} answers for {len(Z)} people; must give one each.")
        J = np.einsum("xai,xj->aij", Z, h, optimize=True) / len(Z)
        rows = compile_rows(wishes, groups, classes, J.sum(axis=2))
        warn_empty(rows.dropped)
        values = rows.values(J)
        worst = rows.combination[[int(np.abs(values).argmax())]] @ rate_influence(rows, J)
        moved = ((Z.reshape(len(Z), -1) @ worst.toarray().reshape(-1, len(classes))) * h).sum(axis=1)
        correct = (Z.sum(axis=1) * h).sum(axis=1)
        accuracy_error, violation_error = (float(value.std() / np.sqrt(len(Z))) for value in (correct, moved))
        return Evaluation(accuracy(J), float(rows.violation(values)), accuracy_error, violation_error, J, len(Z))

    def _crowd(self, n: int, random_state: Any, awareness: str) -> tuple[SyntheticDataset, np.ndarray]:
        """n people to judge on, none of whom `sample` draws, and their Z."""
        if awareness not in ("blind", "aware"):
            raise ValueError(f"awareness={awareness!r}: must be 'blind' or 'aware'.")
        people = self._draw(n, stream(random_state, JUDGED))
        known = people.sensitive_features if awareness == "aware" else None
        return people, self.joint_posterior(people.X, sensitive_features=known)

    def _settings(self) -> dict[str, Any]:
        """Names, and a key of hashed decisions that repeats: nobody here gains by guessing it."""
        return {"groups": self.group_names, "classes": self.class_names, "random_state": 0}

    def _features(self, X: Any) -> np.ndarray:
        if isinstance(X, pd.DataFrame) and set(X.columns) == set(self.feature_names):
            X = X[self.feature_names]
        x = as_numbers(X)
        if x is None or x.ndim != 2 or x.shape[1] != len(self.slopes) or not np.isfinite(x).all():
            raise ValueError(f"X: has shape {np.shape(X)}; must be finite numbers of shape (n, {len(self.slopes)}).")
        return x


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticDataset(Dataset):
    """A `Dataset` that knows the world its people come from."""

    world: World = field(kw_only=True)

    @cached_property
    def joint_posterior(self) -> np.ndarray:
        """Z[x, a, i] = P(A=a, Y=i | X=x) of these people, (n, A, m)."""
        return self.world.joint_posterior(self.X)


def _gap_criteria(criterion: Any, **question: Any) -> list[Any]:
    wishes = as_constraints(criterion, **question)
    if not all(isinstance(wish, Constraint) for wish in wishes):
        raise ValueError("criterion: must be gaps between groups: dp, eop, eo, meo, oae or a Constraint.")
    return with_tolerance(wishes, 1.0)  # all groups, whatever their tolerance: this is a measurement


def stream(random_state: Any, purpose: int) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state).spawn(3)[purpose]
    except (TypeError, ValueError):
        raise ValueError(f"random_state={random_state!r}: must be None, an integer >= 0 or a Generator.") from None


def check_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name}={value!r}: must be an integer >= {least}.")


def check_sizes(name: str, sizes: Any, k: int) -> np.ndarray:
    """(k,) shares that sum to 1; None are equal ones."""
    if sizes is None:
        return np.full(k, 1.0 / k)
    shares = as_numbers(sizes)
    if shares is None or shares.shape != (k,) or not (shares > 0).all() or not abs(shares.sum() - 1) <= 1e-6:
        raise ValueError(f"{name}={sizes!r}: must be {k} positive numbers that sum to 1.")
    return shares / shares.sum()
