"""`FairProjection`: the probabilities nearest to those of a model whose rates are fair.

    min_h mean_x KL(h(x) ‖ p(x))   s.t.   |P(Ŷ=j | A=a, …) / P(Ŷ=j | …) − 1| ≤ α   for every group a and outcome j

Alghamdi, Hsu, Jeong, Wang, Michalak, Asoodeh and Calmon, *Beyond Adult and COMPAS: fair multi-class prediction via
information projection* (2022). Its dual is the core's, with nothing to gain, log p as offset and temperature 1:

    min_λ mean_x logsumexp(log p(x) − z(x) Dᵀλ) + σ(λ),        h(x) = softmax(log p(x) − z(x) Dᵀλ)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse, special

from optfair.base import People
from optfair.baselines.base import check_choice, check_number
from optfair.baselines.posteriors import PosteriorBaseline
from optfair.constraints import Constraint, RowSet, compile_rows
from optfair.constraints.rows import TABLE_COLUMNS, object_frame
from optfair.dual.newton import Minimum
from optfair.dual.penalty import Box
from optfair.dual.solver import DualSolver
from optfair.errors import warn, warn_empty
from optfair.posterior import Posterior, check_posterior
from optfair.rule import flat
from optfair.task import multiplier_table

SMOOTHING = 1e-4
KKT, MAX_PASSES = 1e-7, 300


def smoothed(P: np.ndarray) -> np.ndarray:
    """(p + 1e-4) / Σ: no class is impossible.   (n, m)"""
    P = P + SMOOTHING
    return np.asarray(P / P.sum(axis=1, keepdims=True))


def ratio_rows(rows: RowSet, alpha: float) -> RowSet:
    """(1 − α) overall ≤ rate ≤ (1 + α) overall, as 2K rows with one bound of 0 each.

    rows : K rows "rate of a group − rate of everybody". The overall rate is the rule's own, so ratios stay linear.
    """
    rate, overall = rows.combination.maximum(0.0), (-rows.combination).maximum(0.0)
    K, factors = len(rows), (1 + alpha, 1 - alpha)
    names = list(rows.table[list(TABLE_COLUMNS)].itertuples(index=False, name=None))
    table = [(f"{c} ratio", group, f"{x:g} {other}", i, j) for x in factors for c, group, other, i, j in names]
    return replace(
        rows,
        combination=sparse.csr_array(sparse.vstack([rate - (1 + alpha) * overall, rate - (1 - alpha) * overall])),
        own=sparse.csr_array(sparse.vstack([rows.own, rows.own])),
        lower=np.concatenate([np.full(K, -np.inf), np.zeros(K)]),
        upper=np.concatenate([np.zeros(K), np.full(K, np.inf)]),
        source=np.concatenate([rows.source, rows.source]),
        is_gap=np.zeros(2 * K, dtype=bool),
        table=object_frame(TABLE_COLUMNS, table),
    )


def project(measure: Posterior, rows: RowSet, seed: int = 0, tolerance: float = KKT) -> Minimum:
    """λ of the projection of ``softmax(measure.offset)``, with its KKT residual in units of rates.

    Constant rules are within the bounds (D has the measure's own prior), so λ exists for every α ≥ 0.
    """
    one = np.ones(measure.n_cells)  # the temperature
    solver = DualSolver(measure, rows, np.zeros((measure.n_cells, measure.n_classes)), seed, MAX_PASSES)
    box = Box(rows.lower, rows.upper)
    start, _, _ = solver.cool(box, np.zeros(len(rows)), one, 1.0, tolerance, 0.0)
    return solver.polish(box, start, one, tolerance, trust=False)[0]


class FairProjection(PosteriorBaseline):
    """The fair probabilities nearest to a model's, in the sense of Kullback and Leibler, with rates of bounded ratio.

    The randomised answers satisfy the constraints (on the people fitted on, as far as z is right); their argmax does
    not: h stays close to p, and moving a little mass moves many likeliest classes or none. Report both: at α=.01 on
    Adult the largest distance from the overall rate is .002 (parity) and .017 (odds) at accuracies of .783 and .796
    for randomised answers, and .019 and .135 at .824 and .842 for their argmax.

    The authors solve a regularised dual by ADMM with the true group in fit and prediction; here the dual is solved
    exactly (regularisation zero), rates are those of the predicted groups, on both occasions, and are normalised by
    mean predictions, so that every α is feasible. For equalized odds the authors' code has the rows of the true class
    only ("eop" here); all rows are constrained here.

    Parameters
    ----------
    estimator : a classifier with predict_proba (None: standardised multinomial logistic regression), or a fitted one as
        ``FrozenEstimator(model)`` or with ``cv="prefit"``, or a function X -> probabilities.
    sensitive_features : None (give groups to ``fit``); or column name(s) or position(s) of X, or a function of X.
    criterion : "dp", "eop", "eo", "oae" (or the long names).
    alpha : how far from 1 a ratio may be, at least 0; from 1 on nothing bounds it from below.
    tolerance : "ratio": α bounds ratios. "difference": α bounds |rate − overall rate|, as in the other methods (our own
        addition, not in the source).
    group_estimator, posterior, cv, n_jobs : of z, see `OptFairPost`; z is not calibrated. cv=1, the authors' way: no
        folds, z of the people fitted on from the models that were fitted to them.
    decision : "hashed" (the same person always gets the same answer), "sampled", or "argmax".
    missing : a missing group is an "error", or a "group" of its own. random_state : seed; it makes the key of hashed
        decisions guessable.

    Attributes
    ----------
    multipliers_ : one row per bound: multiplier, value and bounds. weights_ : (n_groups, n_classes, n_classes), −Dᵀλ.
    divergence_ : mean KL(h ‖ p), least possible up to ``residual_``, that of the KKT conditions in units of rates; so a
        ratio to an overall rate r is met to about residual_ / r.
    posterior_model_ : X -> z. classes_, groups_ : names.
    """

    criteria = ("dp", "eop", "eo", "oae")
    why_not_others = "it compares sums of two rates, and a ratio compares single ones"

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
        check_number("alpha", self.alpha)
        check_choice("tolerance", self.tolerance, ("ratio", "difference"))

    def _solve(self, Z: np.ndarray, people: People, seed: int) -> None:
        log_p = np.log(smoothed(Z.sum(axis=1)))
        measure = check_posterior(Z, people.groups, people.class_index, people.weight, log_p)
        wish = Constraint(self._criterion(), min(float(self.alpha), 1.0))
        rows = compile_rows([wish], measure.groups, measure.classes, measure.prior)
        warn_empty(rows.dropped)
        if self.tolerance == "ratio" and self.alpha > 0:  # at 0 the two say the same
            rows = ratio_rows(rows, float(self.alpha))
        found = project(measure, rows, seed)
        if found.residual > 1e-4:
            warn(f"alpha={self.alpha!r}: the projection was not found; it is outside by {found.residual:.1e}.")
        lam, values = found.multipliers, found.evaluation.values
        self.weights_ = -(rows.matrix(measure.prior).T @ lam).reshape(*Z.shape[1:], Z.shape[2])
        self.multipliers_ = multiplier_table(rows, lam, values)
        # log(h/p) = −z Dᵀλ − logsumexp, so that the mean of Σ h log(h/p) is −λ·D(h) − F(λ).
        self.divergence_ = max(float(-lam @ values - found.evaluation.smooth), 0.0)
        self.residual_ = found.residual

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """h(x), (n, n_classes) in the order of ``classes_``: with which probability each class is the answer."""
        X, _ = self._new_people(X, sensitive_features)
        Z = self.posterior_model_(X)
        log_p = np.log(smoothed(Z.sum(axis=1)))
        return np.asarray(special.softmax(log_p + Z.reshape(len(Z), -1) @ flat(self.weights_), axis=1))
