"""WeightedERM: mistakes weighted by multipliers that follow an exponentiated gradient.

    min_h error(h)   s.t.  |D_k(h)| ≤ ξ,  k = 1..K

For multipliers λ = λ⁺ − λ⁻ the best response minimises ``Σ_i Σ_j c_ij h_j(x_i)``, with the cost of predicting j for a
row of cell (a, y) ``c_ij = 1[j≠y] + Σ_k λ_k D_k[(a, y), j]``: plain training on rows labelled j with the weight
``w_ij = max_j' c_ij' − c_ij``. With the predictions of that model,

    θ ← θ + (η/√t) (D(h) − ξ, −D(h) − ξ),   (λ⁺, λ⁻) = B exp θ / (1 + Σ exp θ),      θ = 0 at first     (2K numbers)

and the result is the mixture of the models. It is the game of `OptFairIn` with other multipliers, from zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from optfair.baselines.base import Baseline
from optfair.constraints.criteria import CRITERIA, check_tolerance
from optfair.inprocessing.copies import WeightedCopies, settings_that_count_copies
from optfair.inprocessing.game import Game, Learner, Trace, soft_targets
from optfair.inprocessing.learners import (
    WITHOUT_WEIGHTS,
    make_learner,
    split_pipeline,
    trainable_clone,
    warn_about_copies,
)
from optfair.inprocessing.mixture import Mixture, round_weights
from optfair.inprocessing.summary import history
from optfair.inputs.training_data import TrainingData
from optfair.rule.multipliers import multiplier_table
from optfair.rule.problem import make_utility
from optfair.utils.checks import check_choice, check_integer, check_number
from optfair.utils.progress import stage, tick

ROUNDS = "rounds"  # the stage of that name
GAP_CHECK_ROUNDS = 5  # rounds between two checks of the duality gap, each of which takes one more fit


class WeightedERM(Baseline):
    """Fit the weighted-ERM algorithm of Yang, Cisse and Koyejo (2020), "Fairness with overlapping groups".

    The body of that paper was not seen and no code of it is public: this is our reading of its description and of the
    reductions of Agarwal et al. (2018), which it extends. With two classes its weights are those of
    ``fairlearn.reductions``.

    Parameters
    ----------
    estimator : classifier, default None
        A classifier that takes ``sample_weight`` (alone or at the end of a Pipeline, whose transformers are fitted
        once), or `optfair.nn.TorchClassifier`; None is standardised multinomial logistic regression.
    sensitive_features : str, int, list or callable, default None
        Columns of X, by name, position or a function of X; None where groups are passed to ``fit``.
    criterion : str, default "demographic_parity"
        The criterion: "dp", "eop", "eo", "meo" or "oae", or the long name.
    tolerance : float, default 0.01
        Bound ξ on the gap between the rate of each group and the overall rate, on the training rows, as the rounds go
        on.
    rounds : int, default 50
        Number T of rounds.
    step : float, default 5.0
        Step η of the first round; it is η/√t in round t (a constant step swings from one side to the other).
    max_multiplier : float, default 2.0
        Bound B on the sum of all multipliers.
    inner_epochs : int, default 3
        Epochs of a torch learner in each round, which goes on from the one before; others are fitted afresh.
    mixture : {"last_half", "all", "best"}, default "last_half"
        The rounds that are mixed: the last half; all of them (as in the theory; the first rounds are those of plain
        training, so that it needs many); or the one round of the smallest error + B · excess, which is deterministic.
    stop_gap : float, default None
        End early once the duality gap is at most this (checked every five rounds, for one more fit each time); None
        checks nothing.
    without_weights : {"error", "resample"}, default "error"
        What to do with estimators that take no weights.
    decision : {"hashed", "argmax", "sampled"}, default "hashed"
        How `predict` decides; see `OptFairPost`.
    missing : {"error", "group"}, default "error"
        Whether a missing group is an error or a group of its own.
    random_state : int, numpy generator or None, default None
        Seed.

    Attributes
    ----------
    mixture_ : callable
        X -> h(x).
    history_ : DataFrame
        One line per round, of its own model.
    multipliers_ : DataFrame
        The mean λ of the rounds that are mixed, with the values D of the mixture.
    gap_ : float
        The last duality gap that was computed, or NaN.
    classes_ : ndarray of shape (n_classes,)
        Names of the classes.
    groups_ : Index
        Names of the groups.

    Examples
    --------
    >>> from optfair.baselines import WeightedERM
    >>> from optfair.datasets import make_fair_classification
    >>> data = make_fair_classification(300, 4, random_state=0)
    >>> model = WeightedERM(criterion="dp", tolerance=0.05, rounds=10, random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    >>> len(model.history_), model.predict(data.X).shape
    (10, (300,))
    """

    criteria = tuple(CRITERIA)

    def __init__(
        self,
        estimator: Any = None,
        *,
        sensitive_features: Any = None,
        criterion: str = "demographic_parity",
        tolerance: float = 0.01,
        rounds: int = 50,
        step: float = 5.0,
        max_multiplier: float = 2.0,
        inner_epochs: int = 3,
        mixture: str = "last_half",
        stop_gap: float | None = None,
        without_weights: str = "error",
        decision: str = "hashed",
        missing: str = "error",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.sensitive_features = sensitive_features
        self.criterion = criterion
        self.tolerance = tolerance
        self.rounds = rounds
        self.step = step
        self.max_multiplier = max_multiplier
        self.inner_epochs = inner_epochs
        self.mixture = mixture
        self.stop_gap = stop_gap
        self.without_weights = without_weights
        self.decision = decision
        self.missing = missing
        self.random_state = random_state

    def _check_arguments(self) -> None:
        super()._check_arguments()
        check_tolerance("tolerance", self.tolerance)
        check_integer("rounds", self.rounds, 1)
        check_integer("inner_epochs", self.inner_epochs, 1)
        check_number("step", self.step, "(0, inf)")
        check_number("max_multiplier", self.max_multiplier, "(0, inf)")
        check_choice("mixture", self.mixture, ("last_half", "all", "best"))
        check_choice("without_weights", self.without_weights, WITHOUT_WEIGHTS)
        if self.stop_gap is not None:
            check_number("stop_gap", self.stop_gap, "[0, inf)")

    def _learn(self, data: TrainingData, seed: int) -> None:
        estimator = trainable_clone(self.estimator, seed, data.X)
        game = self._game(data)
        learner = make_learner(estimator, data, None, seed, int(self.inner_epochs), self.without_weights)
        if isinstance(learner, WeightedCopies):
            final = split_pipeline(estimator)[1]  # as it was given: the learner has decided on early_stopping="auto"
            settings = settings_that_count_copies(final, len(data.classes), "cell", len(data.y))
            if settings:
                warn_about_copies(learner, len(data.classes), settings)
        with stage(ROUNDS, int(self.rounds)):
            trace, models, self.gap_ = self._run_rounds(game, learner)
        if self.mixture == "best":
            weights = (np.arange(len(trace)) == best_round(game, trace)).astype(float)
        else:
            weights = round_weights(self.mixture, game, trace)
        used = np.flatnonzero(weights)
        self.mixture_ = Mixture(learner.transformer, tuple(models[t] for t in used), weights[used], len(data.classes))
        mean, J = weights @ trace.multipliers, np.tensordot(weights, trace.confusions, axes=1)
        self.multipliers_ = multiplier_table(game.rows, mean, game.values(J))
        self.history_ = pd.DataFrame(history(game, trace))

    def _game(self, data: TrainingData) -> Game:
        rows, prior = self._rows(data, float(self.tolerance))
        weight = np.ones(len(data.y)) if data.weight is None else data.weight
        utility = make_utility(None, *prior.shape).matrix
        cap = float(self.max_multiplier)
        return Game(rows, rows.matrix(prior), utility, cap, data.cell, weight / weight.sum())

    def _run_rounds(self, game: Game, learner: Learner) -> tuple[Trace, list[Any], float]:
        """Return (the trace of the rounds, the model of each, the last duality gap)."""
        trace, models, gap = Trace.empty(game, np.zeros(len(game.rows))), [], np.nan
        theta = np.zeros((2, len(game.rows)))
        for round_index in range(int(self.rounds)):
            model = learner.best_response(soft_targets(game.weights(trace.next), game.share, "cell"), round_index)
            J = game.confusion(learner.predict_codes(model))
            models.append(model)
            eta = float(self.step) / np.sqrt(round_index + 1)
            theta += eta * bound_excess(game, J)
            trace = trace.grown(J, eta, softmax_multipliers(theta, game.cap))
            tick(ROUNDS)
            if self.stop_gap is not None and (round_index + 1) % GAP_CHECK_ROUNDS == 0:
                mixture = "all" if self.mixture == "all" else "last_half"
                gap = duality_gap(game, trace, learner, round_weights(mixture, game, trace))
                if gap <= self.stop_gap:
                    break
        return trace, models, gap

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return h(x), the share of the mixed rounds whose models predict each class.

        Parameters
        ----------
        X : array-like, sparse matrix, DataFrame, or torch Dataset
            The n rows.
        sensitive_features : None, default None
            Must be None: the method is blind.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities, in the order of ``classes_``.

        Examples
        --------
        >>> from optfair.baselines import WeightedERM
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(300, 4, random_state=0)
        >>> model = WeightedERM(rounds=4, random_state=0)
        >>> h = model.fit(data.X, data.y, sensitive_features=data.sensitive_features).predict_proba(data.X)
        >>> sorted(set(h[:, 0].tolist()) - {0.0, 0.5, 1.0})
        []
        """
        X, _ = self._check_new_rows(X, sensitive_features)
        return self.mixture_(X)


def bound_excess(game: Game, J: np.ndarray) -> np.ndarray:
    """Return (D(h) − upper, lower − D(h)), (2, K)."""
    values = game.values(J)
    return np.stack([values - game.rows.upper, game.rows.lower - values])


def softmax_multipliers(theta: np.ndarray, cap: float) -> np.ndarray:
    """Return λ = λ⁺ − λ⁻, (K,), of θ (2, K); the 1 of the denominator is the multiplier of no constraint."""
    upper, lower = cap * np.exp(theta - logsumexp(np.append(theta.ravel(), 0.0)))
    return np.asarray(upper - lower)


def best_round(game: Game, trace: Trace) -> int:
    """Return the round of the largest min_λ L(h, λ) = accuracy − B · excess."""
    worst = [game.accuracy(J) - game.cap * float(game.rows.excess(game.values(J))) for J in trace.confusions]
    return int(np.argmax(worst))


def duality_gap(game: Game, trace: Trace, learner: Learner, weights: np.ndarray) -> float:
    """Return max_h L(h, λ̄) − min_λ L(h̄, λ) of the mixture so far, with the learner's response to λ̄ as the best h."""
    mean, J = weights @ trace.multipliers, np.tensordot(weights, trace.confusions, axes=1)
    response = learner.peek(soft_targets(game.weights(mean), game.share, "cell"), len(trace))
    best = max(game.lagrangian(K, mean) for K in (game.confusion(learner.predict_codes(response)), *trace.confusions))
    return best - (game.accuracy(J) - game.cap * float(game.rows.excess(game.values(J))))
