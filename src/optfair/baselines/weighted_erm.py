"""WeightedERM: mistakes weighted by multipliers that follow an exponentiated gradient.

    min_h error(h)   s.t.  |D_k(h)| ≤ ξ,  k = 1..K

For multipliers λ = λ⁺ − λ⁻ the best answer minimises ``Σ_i Σ_j c_ij h_j(x_i)``, with the cost of answering j to someone
of cell (a, y) ``c_ij = 1[j≠y] + Σ_k λ_k D_k[(a, y), j]``: plain training on rows labelled j with the weight
``w_ij = max_j' c_ij' − c_ij``. With the votes of that model,

    θ ← θ + (η/√t) (D(h) − ξ, −D(h) − ξ),   (λ⁺, λ⁻) = B exp θ / (1 + Σ exp θ),      θ = 0 at first     (2K numbers)

and the answer is the mixture of the models. It is the game of `OptFairIn` with other multipliers, from zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from optfair.base import People
from optfair.baselines.base import Baseline, check_choice, check_number, check_whole
from optfair.constraints.criteria import CRITERIA
from optfair.estimation.models import default_estimator
from optfair.features import is_dataset
from optfair.inprocessing.game import Game, Learner, Trace, soft_targets
from optfair.inprocessing.learners import WITHOUT_WEIGHTS, make_learner, seeded, warn_if_counting
from optfair.inprocessing.mixture import Mixture, round_weights
from optfair.inprocessing.summary import history
from optfair.options import check_costs
from optfair.task import multiplier_table

CHECK_EVERY = 5  # rounds between two looks at the duality gap


class WeightedERM(Baseline):
    """The weighted-ERM algorithm of Yang, Cisse and Koyejo (2020), "Fairness with overlapping groups".

    The body of that paper was not seen and no code of it is public: this is our reading of its description and of the
    reductions of Agarwal et al. (2018), which it extends. With two classes its weights are those of
    ``fairlearn.reductions``.

    Parameters
    ----------
    estimator : a classifier that takes ``sample_weight`` (alone or at the end of a Pipeline, whose transformers are
        fitted once), or `optfair.nn.TorchClassifier`; None: standardised multinomial logistic regression.
    sensitive_features : None (give groups to ``fit``), or columns of X, by name, position or a function of X.
    criterion : "dp", "eop", "eo", "meo" or "oae", or the long name. tolerance : ξ, which bounds the gap between the
        rate of each group and that of everybody, on the people trained on, as the rounds go on.
    rounds : T. step : η, of the first round; η/√t in round t (a constant step swings from one side to the other).
    max_multiplier : B, the most that all multipliers together can be.
    inner_epochs : epochs of a torch learner in each round, which goes on from the one before; others are fitted afresh.
    mixture : "last_half" of the rounds, "all" of them (the theory's; the first rounds are those of plain training, so
        that it needs many), or "best": the one round of the smallest error + B · excess, a deterministic answer.
    stop_gap : ν: end early once the duality gap is at most this (looked at every few rounds, for one more fit each
        time); None: do not look.
    without_weights : for estimators that take no weights: "error", or "resample".
    decision : "hashed", "argmax" or "sampled"; see `OptFairPost`. missing : a missing group is an "error", or a "group"
        of its own. random_state : seed.

    Attributes
    ----------
    mixture_ : X -> h(x). history_ : one line per round, of its own model. multipliers_ : the mean λ of the rounds that
        are mixed, with the values D of the mixture. gap_ : the last duality gap looked at, or NaN.
    classes_, groups_ : names.
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
        check_number("tolerance", self.tolerance, most=1.0)
        check_whole("rounds", self.rounds)
        check_whole("inner_epochs", self.inner_epochs)
        check_number("step", self.step, above=True)
        check_number("max_multiplier", self.max_multiplier, above=True)
        check_choice("mixture", self.mixture, ("last_half", "all", "best"))
        check_choice("without_weights", self.without_weights, WITHOUT_WEIGHTS)
        if self.stop_gap is not None:
            check_number("stop_gap", self.stop_gap)

    def _learn(self, people: People, seed: int) -> None:
        if self.estimator is None and is_dataset(people.X):
            raise ValueError("estimator=None: cannot read a torch data set; use optfair.nn.TorchClassifier.")
        estimator = seeded(default_estimator(people.X) if self.estimator is None else self.estimator, seed)
        warn_if_counting(estimator, len(people.classes), "cell", len(people.y))
        game = self._game(people)
        learner = make_learner(estimator, people, None, seed, int(self.inner_epochs), self.without_weights)
        trace, models, self.gap_ = self._play(game, learner)
        if self.mixture == "best":
            weights = (np.arange(len(trace)) == best_round(game, trace)).astype(float)
        else:
            weights = round_weights(self.mixture, game, trace)
        used = np.flatnonzero(weights)
        self.mixture_ = Mixture(learner.front, tuple(models[t] for t in used), weights[used], len(people.classes))
        mean, J = weights @ trace.multipliers, np.tensordot(weights, trace.confusions, axes=1)
        self.multipliers_ = multiplier_table(game.rows, mean, game.values(J))
        self.history_ = pd.DataFrame(history(game, trace))

    def _game(self, people: People) -> Game:
        rows, prior = self._rows(people, float(self.tolerance))
        weight = np.ones(len(people.y)) if people.weight is None else people.weight
        utility, _, _ = check_costs(None, *prior.shape)
        cap = float(self.max_multiplier)
        return Game(rows, rows.matrix(prior), utility, cap, people.cell, weight / weight.sum())

    def _play(self, game: Game, learner: Learner) -> tuple[Trace, list[Any], float]:
        """(What was played, the model of each round, the last duality gap)."""
        trace, models, gap = Trace.empty(game, np.zeros(len(game.rows))), [], np.nan
        theta = np.zeros((2, len(game.rows)))
        for turn in range(int(self.rounds)):
            model = learner.respond(soft_targets(game.weights(trace.next), game.share, "cell"), turn)
            J = game.confusion(learner.votes(model))
            models.append(model)
            eta = float(self.step) / np.sqrt(turn + 1)
            theta += eta * outside(game, J)
            trace = trace.grown(J, eta, multipliers(theta, game.cap))
            if self.stop_gap is not None and (turn + 1) % CHECK_EVERY == 0:
                mixed = "all" if self.mixture == "all" else "last_half"
                gap = duality_gap(game, trace, learner, round_weights(mixed, game, trace))
                if gap <= self.stop_gap:
                    break
        return trace, models, gap

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """h(x), (n, n_classes) in the order of ``classes_``: the share of the mixed rounds that vote for each class."""
        X, _ = self._new_people(X, sensitive_features)
        return self.mixture_(X)


def outside(game: Game, J: np.ndarray) -> np.ndarray:
    """(D(h) − upper, lower − D(h)), (2, K)."""
    values = game.values(J)
    return np.stack([values - game.rows.upper, game.rows.lower - values])


def multipliers(theta: np.ndarray, cap: float) -> np.ndarray:
    """λ = λ⁺ − λ⁻, (K,), of θ (2, K); the 1 of the denominator is the multiplier of doing nothing."""
    up, down = cap * np.exp(theta - logsumexp(np.append(theta.ravel(), 0.0)))
    return np.asarray(up - down)


def best_round(game: Game, trace: Trace) -> int:
    """The round of the largest min_λ L(h, λ) = accuracy − B · excess."""
    worst = [game.accuracy(J) - game.cap * float(game.rows.excess(game.values(J))) for J in trace.confusions]
    return int(np.argmax(worst))


def duality_gap(game: Game, trace: Trace, learner: Learner, weights: np.ndarray) -> float:
    """max_h L(h, λ̄) − min_λ L(h̄, λ) of the mixture so far; the learner's answer to λ̄ stands for the best h."""
    mean, J = weights @ trace.multipliers, np.tensordot(weights, trace.confusions, axes=1)
    answer = learner.aside(soft_targets(game.weights(mean), game.share, "cell"), len(trace))
    best = max(game.lagrangian(K, mean) for K in (game.confusion(learner.votes(answer)), *trace.confusions))
    return best - (game.accuracy(J) - game.cap * float(game.rows.excess(game.values(J))))
