"""`FairProjection`: the fair probabilities that are nearest to those of a model.

    min_h mean_x KL(h(x) ‖ p(x))   s.t.   |P(Ŷ=j | A=a, …) / P(Ŷ=j | …) − 1| ≤ α   for every group a and outcome j

Alghamdi, Hsu, Jeong, Wang, Michalak, Asoodeh and Calmon, *Beyond Adult and COMPAS: fair multi-class prediction via
information projection* (2022). Its dual is the core's, with utility zero, log p as offset and temperature 1:

    min_λ mean_x logsumexp(log p(x) − z(x) Dᵀλ) + σ(λ),        h(x) = softmax(log p(x) − z(x) Dᵀλ)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse, special

from optfair.baselines.posteriors import PosteriorBaseline
from optfair.constraints import Constraint, RowSet, compile_rows
from optfair.constraints.rows import TABLE_COLUMNS, object_frame
from optfair.dual.penalty import Box
from optfair.dual.posterior import Posterior, check_posterior
from optfair.dual.problem import DualProblem, Minimum, cell_weights
from optfair.dual.solver import DualSolver
from optfair.errors import warn, warn_empty
from optfair.inputs.training_data import TrainingData
from optfair.rule.multipliers import multiplier_table
from optfair.rule.rule import flat
from optfair.utils.checks import check_choice, check_number
from optfair.utils.parallel import uses_cores

SMOOTHING = 1e-4  # so that log p is finite
KKT_TOLERANCE, MAX_PASSES = 1e-7, 300  # in units of rates; passes over all rows
KKT_WARNING = 1e-4  # a larger residual is reported: rates are then off in their fourth digit


def smooth(P: np.ndarray) -> np.ndarray:
    """Return (p + 1e-4) / Σ: no class is impossible.   (n, m)"""
    P = P + SMOOTHING
    return np.asarray(P / P.sum(axis=1, keepdims=True))


def ratio_rows(rows: RowSet, alpha: float) -> RowSet:
    """Return (1 − α) overall ≤ rate ≤ (1 + α) overall, as 2K rows with one bound of 0 each.

    rows : K rows "rate of a group − overall rate". The overall rate is that of the rule itself, so ratios stay linear.
    """
    rate, overall = rows.combination.maximum(0.0), (-rows.combination).maximum(0.0)
    K, factors = len(rows), (1 + alpha, 1 - alpha)
    names = list(rows.table[list(TABLE_COLUMNS)].itertuples(index=False, name=None))
    table = [
        (f"{criterion} ratio", group, f"{factor:g} {reference}", i, j)
        for factor in factors
        for criterion, group, reference, i, j in names
    ]
    return replace(
        rows,
        combination=sparse.csr_array(sparse.vstack([rate - (1 + alpha) * overall, rate - (1 - alpha) * overall])),
        user_rows=sparse.csr_array(sparse.vstack([rows.user_rows, rows.user_rows])),
        lower=np.concatenate([np.full(K, -np.inf), np.zeros(K)]),
        upper=np.concatenate([np.zeros(K), np.full(K, np.inf)]),
        source=np.concatenate([rows.source, rows.source]),
        is_gap=np.zeros(2 * K, dtype=bool),
        table=object_frame(TABLE_COLUMNS, table),
    )


def project(measure: Posterior, rows: RowSet, seed: int = 0, tolerance: float = KKT_TOLERANCE) -> Minimum:
    """Return λ of the projection of ``softmax(measure.offset)``, with its KKT residual in units of rates.

    Constant rules are within the bounds (D has the prior of the measure), so λ exists for every α ≥ 0.
    """
    shape, nothing = np.ones(measure.n_cells), np.zeros((measure.n_cells, measure.n_classes))
    measure, sample = measure.with_sample(seed)
    problem = DualProblem(measure, rows.matrix(measure.prior), nothing)
    sketch = problem if sample is measure else DualProblem(sample, rows.matrix(sample.prior), nothing)
    solver = DualSolver(problem, sketch, seed, MAX_PASSES)
    box, start = Box(rows.lower, rows.upper), np.zeros(len(rows))
    return solver.cool(box, start, shape, 1.0, tolerance, 0.0, trust=False).minimum


class FairProjection(PosteriorBaseline):
    """Fit the fair probabilities nearest to a model's, in the sense of Kullback and Leibler, with bounded ratios.

    The randomised predictions satisfy the constraints (on the training rows, as far as z is right); their argmax does
    not: h stays close to p, and moving a little mass moves many likeliest classes or none. Report both: at α=.01 on
    Adult the largest distance from the overall rate is .002 (parity) and .017 (odds) at accuracies of .783 and .796
    for randomised predictions, and .019 and .135 at .824 and .842 for their argmax.

    The authors solve a regularised dual by ADMM with the true group in fit and prediction; here the dual is solved
    exactly (regularisation zero), rates are those of the predicted groups, on both occasions, and are normalised by
    mean predictions, so that every α is feasible. For equalized odds the authors' code has the rows of the true class
    only ("eop" here); all rows are constrained here.

    Parameters
    ----------
    estimator : classifier or callable, default None
        A classifier with predict_proba (None: standardised multinomial logistic regression), or a fitted one as
        ``FrozenEstimator(model)`` or with ``cv="prefit"``, or a function X -> probabilities.
    sensitive_features : str, int, list or callable, default None
        Column name(s) or position(s) of X, or a function of X; None where groups are passed to ``fit``.
    criterion : str, default "demographic_parity"
        The criterion: "dp", "eop", "eo", "oae" (or the long names).
    alpha : float, default 0.01
        How far from 1 a ratio may be, at least 0; from 1 on it has no lower bound.
    tolerance : {"ratio", "difference"}, default "ratio"
        Whether α bounds ratios, or ``|rate − overall rate|`` as in the other methods. The second is our own addition.
    group_estimator : classifier, default None
        Model of the group in each class; see `OptFairPost`.
    posterior : str, default "auto"
        How z is modelled; see `OptFairPost`. It is not calibrated.
    cv : int, splitter, iterable or "prefit", default 5
        Folds of z, see `OptFairPost`. cv=1 is the authors' way: no folds, z of the training rows from the models that
        were fitted to them.
    decision : {"hashed", "sampled", "argmax"}, default "hashed"
        How `predict` decides; "hashed" predicts the same for equal rows.
    missing : {"error", "group"}, default "error"
        Whether a missing group is an error or a group of its own.
    n_jobs : int or None, default None
        Cores to use, all by default; see "Cores" in the user guide.
    random_state : int, numpy generator or None, default None
        Seed; it makes the key of hashed decisions guessable.

    Attributes
    ----------
    multipliers_ : DataFrame
        One row per bound: multiplier, value and bounds.
    weights_ : ndarray of shape (n_groups, n_classes, n_classes)
        −Dᵀλ.
    divergence_ : float
        Mean KL(h ‖ p), least possible up to ``residual_``.
    residual_ : float
        Residual of the KKT conditions in units of rates. A ratio to an overall rate r is met up to about
        ``residual_ / r``.
    posterior_model_ : callable
        X -> z.
    classes_ : ndarray of shape (n_classes,)
        Names of the classes.
    groups_ : Index
        Names of the groups.

    Examples
    --------
    >>> from optfair.baselines import FairProjection
    >>> from optfair.datasets import make_fair_classification
    >>> data = make_fair_classification(400, 4, random_state=0)
    >>> model = FairProjection(criterion="dp", alpha=0.1, cv=2, random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    >>> model.weights_.shape, bool(model.residual_ < 1e-6)
    ((2, 3, 3), True)
    """

    criteria = ("dp", "eop", "eo", "oae")
    refusal = "it compares sums of two rates, and a ratio compares single ones"

    def __init__(
        self,
        estimator: Any = None,
        *,
        sensitive_features: Any = None,
        criterion: str = "demographic_parity",
        alpha: float = 0.01,
        tolerance: str = "ratio",
        group_estimator: Any = None,
        posterior: str = "auto",
        cv: Any = 5,
        decision: str = "hashed",
        missing: str = "error",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.sensitive_features = sensitive_features
        self.criterion = criterion
        self.alpha = alpha
        self.tolerance = tolerance
        self.group_estimator = group_estimator
        self.posterior = posterior
        self.cv = cv
        self.decision = decision
        self.missing = missing
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_arguments(self) -> None:
        super()._check_arguments()
        check_number("alpha", self.alpha, "[0, inf)")
        check_choice("tolerance", self.tolerance, ("ratio", "difference"))

    def _solve(self, Z: np.ndarray, data: TrainingData, seed: int) -> None:
        log_p = np.log(smooth(Z.sum(axis=1)))
        measure = check_posterior(Z, data.groups, data.class_index, data.weight, log_p)
        constraint = Constraint(self._criterion_name(), min(float(self.alpha), 1.0))
        rows = compile_rows([constraint], measure.groups, measure.classes, measure.prior)
        warn_empty(rows.dropped)
        if self.tolerance == "ratio" and self.alpha > 0:  # at 0 both bounds are the same
            rows = ratio_rows(rows, float(self.alpha))
        minimum = project(measure, rows, seed)
        if minimum.residual > KKT_WARNING:
            warn(
                f"alpha={self.alpha!r}: the projection was not reached; its bounds are missed by up to "
                f"{minimum.residual:.1e}."
            )
        lam, values = minimum.point.multipliers, minimum.point.values
        nothing = np.zeros((measure.n_cells, measure.n_classes))
        self.weights_ = cell_weights(nothing, rows.matrix(measure.prior), lam).reshape(*Z.shape[1:], Z.shape[2])
        self.multipliers_ = multiplier_table(rows, lam, values)
        # log(h/p) = −z Dᵀλ − logsumexp, so that the mean of Σ h log(h/p) is −λ·D(h) − F(λ).
        self.divergence_ = max(float(-lam @ values - minimum.point.smooth), 0.0)
        self.residual_ = minimum.residual

    @uses_cores
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return h(x), the probability with which each class is predicted.

        Parameters
        ----------
        X : array-like, sparse matrix, or DataFrame
            The n rows.
        sensitive_features : None, default None
            Must be None: the method is blind.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities, in the order of ``classes_``.

        Examples
        --------
        >>> from optfair.baselines import FairProjection
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, 4, random_state=0)
        >>> model = FairProjection(alpha=0.1, cv=2, random_state=0)
        >>> model.fit(data.X, data.y, sensitive_features=data.sensitive_features).predict_proba(data.X).shape
        (400, 3)
        """
        X, _ = self._check_new_rows(X, sensitive_features)
        Z = self.posterior_model_(X)
        log_p = np.log(smooth(Z.sum(axis=1)))
        return np.asarray(special.softmax(log_p + Z.reshape(len(Z), -1) @ flat(self.weights_), axis=1))
