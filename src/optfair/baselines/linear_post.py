"""`LinearPost`: the linear program over posteriors, with predictions by argmax.

    max_π mean_x Σ_j π_j(x) (η_j(x) + noise)   s.t.   |P(Ŷ=j | a, …) − P(Ŷ=j | b, …)| ≤ α   for every two groups a, b
    prediction  argmax_j (z(x) W(λ))_j + noise,    W(λ) = U − reshape(Dᵀλ),    λ of the program above

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

from optfair.baselines.posteriors import PosteriorBaseline
from optfair.constraints import Constraint
from optfair.dual.exact import LP_VARIABLES, solve_exact
from optfair.dual.posterior import check_posterior
from optfair.dual.settings import SETTINGS
from optfair.errors import warn_empty
from optfair.inputs.containers import take_rows
from optfair.inputs.identity import row_bytes
from optfair.inputs.training_data import TrainingData
from optfair.rule import decisions
from optfair.rule.certificate import Certificate
from optfair.rule.driver import argmax_rule, solve_problem, unconstrained_rule
from optfair.rule.options import Options
from optfair.rule.problem import FairProblem
from optfair.rule.rule import FairRule, flat
from optfair.utils.checks import check_choice, check_number
from optfair.utils.parallel import uses_cores

# Up to here HiGHS takes a few seconds: n·m·rows, and n·m for more than two classes (1 s for 60 k variables of two
# classes; for three, 5 s for 15 k and 20–70 s for 44 k).
LP_MAX_SIZE, LP_MAX_PROBABILITIES = 400_000, 15_000
# Training rows for each row of the constraints: with fewer, the ties that a program leaves are a large share of them.
LP_MIN_ROWS_PER_CONSTRAINT = 20


class LinearPost(PosteriorBaseline):
    """Fit the most accurate rule whose groups' rates differ by at most α from each other, and predict by argmax.

    An optimal rule is undecided between classes for some rows: few, mostly, but for equalized odds and opportunity at
    α=.01 5 % of Adult are within 5e-4 of a tie. Noise decides for them:

    - "lp" takes λ of the exact program with noise in its utilities (uniform, i.i.d.), and predicts with noise of the
      same law. A few training rows are predicted otherwise than by the program: one per active row of the constraints,
      and the tied rows that the accuracy of HiGHS (1e-7) leaves open. So the bound is exceeded a little: on Adult by
      less than .001 for parity, by up to .008 for odds and opportunity.
    - "dual" takes λ of the smoothed dual, ``mean_x τ logsumexp(β/τ)``, which is the program with Gumbel noise of scale
      τ, averaged over the noise; the argmax of β with such noise is a draw from softmax(β/τ), which is the prediction.
      τ is the scale of the uniform noise, but at least 1e-4. Argmax with less noise than that is far from fair: for
      equalized odds at α=.01 on Adult the largest distance from the overall rate was .09–.11 instead of .018, and .019
      with "lp". (Our own design: the authors take the exact program, on a sample where there are too many rows.)

    In both the noise of a row is a keyed hash of the row, the same in every batch; equal rows have equal noise, so that
    where most rows are repeated ties are not broken one by one. Where λ = 0 there is no noise: the prediction is the
    likeliest class.

    Parameters
    ----------
    estimator : classifier or callable, default None
        A classifier with predict_proba (None: standardised multinomial logistic regression), or a fitted one as
        ``FrozenEstimator(model)`` or with ``cv="prefit"``, or a function X -> probabilities.
    sensitive_features : str, int, list or callable, default None
        Column name(s) or position(s) of X, or a function of X; None where groups are passed to ``fit``.
    criterion : str, default "demographic_parity"
        The criterion: "dp", "eop" (of every class; the authors leave out the first of two), "eo" (or the long names).
    alpha : float, default 0.01
        Bound on the gap between every two groups; from 1 on (or inf) nothing is bounded.
    noise : float, default 1e-4
        Scale of the noise relative to the mean risk 1 − 1/m; 0 is no noise, which leaves ties as they fall.
    solver : {"auto", "lp", "dual"}, default "auto"
        The way to λ: "lp" (HiGHS), "dual", or "auto": "lp" where that takes a few seconds at most, and there are many
        training rows for each row of the constraints.
    group_estimator : classifier, default None
        Model of the group in each class; see `OptFairPost`.
    posterior : str, default "auto"
        How z is modelled; see `OptFairPost`. It is not calibrated.
    cv : int, splitter, iterable or "prefit", default 5
        Folds of z, see `OptFairPost`. cv=1 is the authors' way: no folds, z of the training rows from the models that
        were fitted to them.
    missing : {"error", "group"}, default "error"
        Whether a missing group is an error or a group of its own.
    n_jobs : int or None, default None
        Cores to use, all by default; see "Cores" in the user guide.
    random_state : int, numpy generator or None, default None
        Seed; it makes the key of the noise guessable.

    Attributes
    ----------
    rule_ : FairRule
        The rule without the noise.
    solver_ : {"lp", "dual", "none"}
        The solver; "none" where the likeliest classes are fair enough.
    posterior_model_ : callable
        X -> z.
    classes_ : ndarray of shape (n_classes,)
        Names of the classes.
    groups_ : Index
        Names of the groups.

    Examples
    --------
    >>> from optfair.baselines import LinearPost
    >>> from optfair.datasets import make_fair_classification
    >>> data = make_fair_classification(400, 4, random_state=0)
    >>> model = LinearPost(criterion="dp", alpha=0.05, cv=2, random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    >>> model.solver_
    'lp'
    """

    refusal = "it does not compare single rates P(Ŷ=j | event), and the method's rows do"

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
            check_number("alpha", self.alpha, "[0, inf)")
        check_number("noise", self.noise, "[0, 0.1]")
        check_choice("solver", self.solver, ("auto", "lp", "dual"))

    # -- fitting -------------------------------------------------------------------------------------------
    def _solve(self, Z: np.ndarray, data: TrainingData, seed: int) -> None:
        measure = check_posterior(Z, data.groups, data.class_index, data.weight)
        reference = "pairwise" if len(data.groups) > 1 else "overall"
        constraints = [Constraint(self._criterion_name(), min(float(self.alpha), 1.0), reference)]
        scale = self._noise_scale(measure.n_classes)
        options = Options(temperature=max(scale, SETTINGS.last_temperature), random_state=seed)
        problem = FairProblem.prepare(measure, constraints, None, options)
        warn_empty(problem.rows.dropped)
        self.rule_, self.solver_ = unconstrained_rule(problem), "none"
        if self.alpha < 1 and self.rule_.certificate.excess > 0:
            self.solver_ = self.solver
            if self.solver == "auto":
                self.solver_ = _choose_solver(measure.n, measure.n_classes, len(problem.rows))
            if self.solver_ == "lp":
                self.rule_ = _exact_rule(_add_noise(problem, scale, seed))
            else:
                self.rule_ = solve_problem(problem).rule
        self.rule_ = replace(self.rule_, key=None)  # predictions are hashed with the key of this classifier

    def _noise_scale(self, n_classes: int) -> float:
        """Return noise times the mean of the risks 1 − η_j, which is 1 − 1/m."""
        return float(self.noise) * (1.0 - 1.0 / n_classes)

    # -- prediction ----------------------------------------------------------------------------------------
    @uses_cores
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return the prediction as probabilities: 1 for one class and 0 for the others.

        Parameters
        ----------
        X : array-like, sparse matrix, or DataFrame
            The n rows.
        sensitive_features : None, default None
            Must be None: the method is blind.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Zeros and ones, in the order of ``classes_``.

        Examples
        --------
        >>> from optfair.baselines import LinearPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, 4, random_state=0)
        >>> model = LinearPost(alpha=0.05, cv=2, random_state=0)
        >>> h = model.fit(data.X, data.y, sensitive_features=data.sensitive_features).predict_proba(data.X)
        >>> sorted(set(h.ravel().tolist()))
        [0.0, 1.0]
        """
        X, _ = self._check_new_rows(X, sensitive_features)
        Z = self.posterior_model_(X)
        if self.solver_ == "lp" and self.noise > 0:
            noise = self._row_noise(X, Z.reshape(len(Z), -1) @ flat(self.rule_.weights))
            h = self.rule_.predict_proba(Z, offset=noise)
        else:
            h = self.rule_.predict_proba(Z)
        # A draw from softmax(β/τ) by the hash of the row; where h is 0 or 1 there is nothing to draw.
        decision = "hashed" if self.noise > 0 else "argmax"
        codes = decisions.decide(h, decision, lambda index: row_bytes(take_rows(X, index)), secret=self._secret)
        return np.eye(len(self.classes_))[codes]

    def _row_noise(self, X: Any, scores: np.ndarray) -> np.ndarray:
        """Return uniform noise of each row and class, (n, m); zero for rows whose prediction it could not change."""
        n, m = scores.shape
        scale = self._noise_scale(m)
        ascending = np.sort(scores, axis=1)
        close = np.flatnonzero(ascending[:, -1] - ascending[:, -2] <= 2 * scale)
        noise = np.zeros((n, m))
        if len(close):
            contents = list(row_bytes(take_rows(X, close)))
            for j in range(m):
                u = decisions.uniforms(self._secret, (b"%d:" % j + content for content in contents))
                noise[close, j] = scale * (2 * u - 1)
        return noise

    # -- results -------------------------------------------------------------------------------------------
    @property
    def certificate_(self) -> Certificate:
        """The certificate of the rule on the training rows.

        With "lp" it is of predictions with one draw of the noise (`predict` has another, so that where rows are few
        its gaps differ), with "dual" of their law.
        """
        check_is_fitted(self, "rule_")
        return self.rule_.certificate

    @property
    def multipliers_(self) -> pd.DataFrame:
        """The multipliers λ, one row per constraint."""
        check_is_fitted(self, "rule_")
        return self.rule_.multipliers


def _choose_solver(n: int, m: int, rows: int) -> str:
    """Return "lp" where it takes a few seconds and leaves few ties, else "dual".

    By sizes and not by seconds, so that the choice is always the same.
    """
    small = n * m * rows <= LP_MAX_SIZE and (m == 2 or n * m <= LP_MAX_PROBABILITIES)
    return "lp" if small and n >= LP_MIN_ROWS_PER_CONSTRAINT * rows else "dual"


def _add_noise(problem: FairProblem, scale: float, seed: int) -> FairProblem:
    """Return the problem with i.i.d. uniform noise in the utility of each row and class."""
    rows = problem.posterior.draw(problem.posterior.n)
    noise = np.random.default_rng(seed).uniform(-scale, scale, (rows.n, rows.n_classes)) if scale > 0 else None
    return replace(problem, posterior=replace(rows, offset=noise))


def _exact_rule(problem: FairProblem) -> FairRule:
    """Return the argmax rule of the exact program's multipliers, with its certificate on the training rows."""
    measure = problem.posterior
    if measure.n * measure.n_classes > LP_VARIABLES:
        raise ValueError(
            f"solver='lp': {measure.n * measure.n_classes} variables; it is for at most {LP_VARIABLES}. Use 'dual'."
        )
    clock = time.perf_counter()
    lam = solve_exact(measure, problem.rows, problem.utility.matrix).multipliers
    rule = argmax_rule(problem, lam)
    notes = ("its multipliers are those of the exact program", *rule.certificate.notes)
    certificate = replace(rule.certificate, notes=notes, seconds=time.perf_counter() - clock)
    return replace(rule, certificate=certificate)
