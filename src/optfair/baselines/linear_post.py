"""`LinearPost`: the linear program over posteriors, answered by argmax.

    max_π mean_x Σ_j π_j(x) (η_j(x) + noise)   s.t.   |P(Ŷ=j | a, …) − P(Ŷ=j | b, …)| ≤ α   for every two groups a, b
    answer  argmax_j (z(x) W(λ))_j + noise,    W(λ) = U − reshape(Dᵀλ),    λ of the program above

Xian and Zhao, *A unified post-processing framework for group fairness in classification* (2024).
"""

from __future__ import annotations

import time
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from optfair import decisions
from optfair.base import People
from optfair.baselines.base import check_choice, check_number
from optfair.baselines.posteriors import PosteriorBaseline
from optfair.constraints import Constraint
from optfair.dual.certificate import Certificate
from optfair.dual.exact import LP_VARIABLES, solve_exact
from optfair.dual.solver import LAST_TAU
from optfair.features import take_rows
from optfair.options import Options
from optfair.people import row_bytes
from optfair.posterior import check_posterior
from optfair.rule import FairRule, flat
from optfair.task import Task

# Up to here HiGHS takes a few seconds: n·m·rows, and n·m for more than two classes (1 s for 60 k variables of two
# classes; for three, 5 s for 15 k and 20–70 s for 44 k).
LP_SIZE, LP_PROBABILITIES = 400_000, 15_000
LP_PEOPLE = 20  # for each row: with fewer, the few ties that a program leaves are many


class LinearPost(PosteriorBaseline):
    """The most accurate rule whose groups' rates differ by at most α from each other, by argmax.

    An optimal rule is undecided between classes for some people: few, mostly, but for equalized odds and opportunity
    at α=.01 5 % of Adult are within 5e-4 of a tie. Noise decides for them:

    - "lp" takes λ of the exact program with noise in its utilities (uniform, i.i.d.), and answers with noise of the
      same law. Of the people fitted on a few are answered otherwise than by the program: one per row of constraints
      that is active, and those whom the accuracy of HiGHS (1e-7) leaves open among the tied. So the bound is exceeded
      a little: on Adult by less than .001 for parity, by up to .008 for odds and opportunity.
    - "dual" takes λ of the smoothed dual, ``mean_x τ logsumexp(β/τ)``, which is the program with Gumbel noise of scale
      τ, averaged over the noise; the argmax of β with such noise is a draw from softmax(β/τ), which is what it answers.
      τ is what uniform noise would have been, but at least 1e-4. Argmax with less noise than that is far from fair:
      for equalized odds at α=.01 on Adult the largest distance from the overall rate was .09–.11 instead of .018, and
      .019 with "lp". (Our own design: the authors take the exact program, on a sample where there are too many rows.)

    In both the noise of a person is a keyed hash of the row, the same in every batch; people with the same row have
    the same noise, so that where most rows are repeated ties are not broken one by one. Where λ = 0 there is no noise:
    the answer is the likeliest class.

    Parameters
    ----------
    estimator : a classifier with predict_proba (None: standardised multinomial logistic regression), or a fitted one as
        ``FrozenEstimator(model)`` or with ``cv="prefit"``, or a function X -> probabilities.
    sensitive_features : None (give groups to ``fit``); or column name(s) or position(s) of X, or a function of X.
    criterion : "dp", "eop" (of every class; the authors leave out the first of two), "eo" (or the long names).
    alpha : bound on the gap between every two groups; from 1 on (or inf) nothing is bound.
    noise : its size relative to the mean risk 1 − 1/m; 0 for none, which leaves ties as they fall.
    solver : "lp" (HiGHS), "dual", or "auto": "lp" where that takes a few seconds at most, and people are not few
        against the rows of constraints.
    group_estimator, posterior, cv, n_jobs : of z, see `OptFairPost`; z is not calibrated. cv=1, the authors' way: no
        folds, z of the people fitted on from the models that were fitted to them.
    missing : a missing group is an "error", or a "group" of its own. random_state : seed; it makes the key of the noise
        guessable.

    Attributes
    ----------
    rule_ : FairRule, without the noise. solver_ : "lp", "dual", or "none" where the likeliest classes are fair enough.
    certificate_ : of the rule on the people fitted on; with "lp" of answers with one draw of the noise (`predict` has
        another, so that where people are few its gaps differ), with "dual" of their law. multipliers_ : λ.
    posterior_model_ : X -> z. classes_, groups_ : names.
    """

    why_not_others = "it does not compare single rates P(Ŷ=j | event), and the method's rows do"

    def __init__(
        self,
        estimator: Any = None,
        *,
        sensitive_features: Any = None,
        criterion: str = "demographic_parity",
        alpha: float = 0.01,
        noise: float = 1e-4,
        solver: str = "auto",
        group_estimator: Any = None,
        posterior: str = "auto",
        cv: Any = 5,
        missing: str = "error",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.sensitive_features = sensitive_features
        self.criterion = criterion
        self.alpha = alpha
        self.noise = noise
        self.solver = solver
        self.group_estimator = group_estimator
        self.posterior = posterior
        self.cv = cv
        self.missing = missing
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if not isinstance(self.alpha, Real) or self.alpha != np.inf:
            check_number("alpha", self.alpha)
        check_number("noise", self.noise, most=0.1)
        check_choice("solver", self.solver, ("auto", "lp", "dual"))

    # -- fitting -------------------------------------------------------------------------------------------
    def _solve(self, Z: np.ndarray, people: People, seed: int) -> None:
        measure = check_posterior(Z, people.groups, people.class_index, people.weight)
        reference = "pairwise" if len(people.groups) > 1 else "overall"
        wishes = [Constraint(self._criterion(), min(float(self.alpha), 1.0), reference)]
        size = self._noise_size(measure.n_classes)
        options = Options(temperature=max(size, LAST_TAU), random_state=seed)
        task = Task.prepare(measure, wishes, None, options)
        self.rule_, self.solver_ = task.unconstrained(options, wishes), "none"
        if self.alpha < 1 and self.rule_.certificate.excess > 0:
            self.solver_ = (
                _quicker(measure.n, measure.n_classes, len(task.rows)) if self.solver == "auto" else self.solver
            )
            if self.solver_ == "lp":
                self.rule_ = _exact_rule(_with_noise(task, size, seed), wishes, options)
            else:
                self.rule_ = task.solve(options, wishes)
        self.rule_ = replace(self.rule_, key=None)  # answers are hashed with the key of this classifier

    def _noise_size(self, n_classes: int) -> float:
        """Noise times the mean of the risks 1 − η_j, which is 1 − 1/m."""
        return float(self.noise) * (1.0 - 1.0 / n_classes)

    # -- prediction ----------------------------------------------------------------------------------------
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """The answer as probabilities: 1 for one class and 0 for the others, (n, n_classes)."""
        X, _ = self._new_people(X, sensitive_features)
        Z = self.posterior_model_(X)
        if self.solver_ == "lp" and self.noise > 0:
            h = self.rule_.predict_proba(Z, offset=self._noise_of(X, Z.reshape(len(Z), -1) @ flat(self.rule_.weights)))
        else:
            h = self.rule_.predict_proba(Z)
        # A draw from softmax(β/τ) by the hash of the person; where h is 0 or 1 there is nothing to draw.
        how = "hashed" if self.noise > 0 else "argmax"
        chosen = decisions.decide(h, how, lambda index: row_bytes(take_rows(X, index)), secret=self._secret)
        return np.eye(len(self.classes_))[chosen]

    def _noise_of(self, X: Any, scores: np.ndarray) -> np.ndarray:
        """Uniform noise of each person and class, (n, m); zero for those it could not move."""
        n, m = scores.shape
        size = self._noise_size(m)
        best = np.sort(scores, axis=1)
        close = np.flatnonzero(best[:, -1] - best[:, -2] <= 2 * size)
        noise = np.zeros((n, m))
        if len(close):
            people = list(row_bytes(take_rows(X, close)))
            for j in range(m):
                u = decisions.uniforms(self._secret, (b"%d:" % j + person for person in people))
                noise[close, j] = size * (2 * u - 1)
        return noise

    # -- what was found ------------------------------------------------------------------------------------
    @property
    def certificate_(self) -> Certificate:
        check_is_fitted(self, "rule_")
        return self.rule_.certificate

    @property
    def multipliers_(self) -> pd.DataFrame:
        check_is_fitted(self, "rule_")
        return self.rule_.multipliers


def _quicker(n: int, m: int, rows: int) -> str:
    """ "lp" where it takes a few seconds and leaves few ties, else "dual"; by sizes, not seconds: always the same."""
    small = n * m * rows <= LP_SIZE and (m == 2 or n * m <= LP_PROBABILITIES)
    return "lp" if small and n >= LP_PEOPLE * rows else "dual"


def _with_noise(task: Task, size: float, seed: int) -> Task:
    """The task with i.i.d. uniform noise in the utility of each person and class."""
    shape = task.posterior.n, task.posterior.n_classes
    noise = np.random.default_rng(seed).uniform(-size, size, shape) if size > 0 else None
    return replace(task, posterior=replace(task.posterior, offset=noise))


def _exact_rule(task: Task, wishes: list[Constraint], options: Options) -> FairRule:
    """The argmax rule of the exact program's multipliers, with what is known about it on the people fitted on."""
    measure = task.posterior
    if measure.n * measure.n_classes > LP_VARIABLES:
        raise ValueError(
            f"solver='lp': {measure.n * measure.n_classes} variables; it is for at most {LP_VARIABLES}. Use 'dual'."
        )
    clock = time.perf_counter()
    lam = solve_exact(measure, task.rows, task.utility).multipliers
    rule = task.argmax_rule(lam, options, wishes, clock)
    status = "the argmax of the exact program's multipliers"
    if rule.certificate.excess > 0:
        status += f"; outside its bounds by {rule.certificate.excess:.1e}, compared with rules allowed the same"
    return replace(rule, certificate=replace(rule.certificate, status=status))
