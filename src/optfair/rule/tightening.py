"""Search for the most accurate rule whose gaps can be promised to new people, on the people it is fitted on.

Let v_k be the gap of a rule by labels, out of fold, on the n people fitted on. In the population it is

    D_k(h) = v_k − G_k + o(n^−½),   G the sampling noise of the labelled gaps,

also for a rule that was fitted to these people: K multipliers cannot follow the noise of n people. A rule is promised
if P*(lower_k ≤ v_k − G*_k ≤ upper_k for all k) ≥ confidence, where G* are draws of that noise. All rows count at once:
a solver puts many of them at their bounds, so that chance chooses the worst.

Where the plain rule does not pass, bounds are tightened by c standard errors s_k, for the smallest c that does:

    lower_k + c s_k ≤ v_k ≤ upper_k − c s_k.

The solver keeps bounds on z(x), not on labels; so they are moved by the difference v − D(z), until that settles.

What is measured out of fold is the rule on the models of the folds. The model of all rows, which answers, may differ:
the leaves of a tree hold a share of all people, and flip as a whole. So the difference of the two by labels, on the
rows themselves, counts in full beside the noise; it vanishes where the mixture of the folds answers, whose gaps are
those measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, sparse

from optfair.constraints.naming import attribute_names
from optfair.constraints.rows import accuracy
from optfair.errors import InfeasibleError
from optfair.metrics.counts import ConfusionCounts, count_codes
from optfair.metrics.influence import as_rates
from optfair.metrics.noise import own_noise
from optfair.rule.certificate import UNDECIDED
from optfair.rule.decisions import choose, first_best
from optfair.rule.driver import Solution, solve_problem
from optfair.rule.problem import FairProblem
from optfair.rule.rule import FairRule
from optfair.utils.progress import tick

PROMISING = "looking for a rule that can be promised"  # the stage whose steps are rules that are tried
N_DRAWS = 1000  # of the noise: the 95 % point is then known to a fiftieth of itself
MOST = 4.0  # standard errors to tighten by: enough for the noise of ten thousand rows
FIRST = 2.5  # standard errors to begin with: what 10 to 100 rows need where all of them bind
PRECISE = 0.1  # standard errors: rules that are closer have the same accuracy to three digits
REFINEMENTS = 4  # trials between two of which one is promised and the other is not
LEAST_WIDTH = 0.02  # of a bound: with less, moved bounds contradict each other
ROUNDS = 6  # of moving the bounds by what labels say
OVER, UNDER = 0.0005, 0.001  # labelled values outside and inside of their bounds that are near enough


@dataclass(frozen=True, eq=False)
class Trial:
    """A rule and what labels say of it.

    values, se : (K,) by labels, out of fold, and their standard errors. draws : (K, N_DRAWS) of their noise. shift :
    (K,) how far the model that answers is from those of the folds. ratio : see `PromiseSearch.ratio`. gain : expected
    utility by labels. tightening : c.
    """

    solution: Solution
    counts: ConfusionCounts
    values: np.ndarray
    se: np.ndarray
    draws: np.ndarray
    shift: np.ndarray
    ratio: float
    gain: float
    tightening: float

    @property
    def accuracy(self) -> float:
        """Accuracy by labels, out of fold."""
        return accuracy(self.counts.tensor)


@dataclass(frozen=True, eq=False)
class FittedRows:
    """Who the rows of a problem are, and what the models that answer say of them.

    cluster : codes of the people, or None: a person is one, however many rows. answering : z of the rows by the model
    of all rows, (n, A, m), or None where the folds answer. kinds : (n,) codes of rows of equal features, which get the
    same hashed decision, −1 for rows without a twin; None where these are few. kind_posteriors : z of each kind by the
    model that answers, or by each of the folds that do.
    """

    cluster: np.ndarray | None = None
    answering: np.ndarray | None = None
    kinds: np.ndarray | None = None
    kind_posteriors: tuple[np.ndarray, ...] = ()


class PromiseSearch:
    """The search for a rule that can be promised, on the rows of one problem and their labels.

    problem : as asked for, with the observed cells of its rows. decision : how the rule will be used.
    """

    def __init__(self, problem: FairProblem, people: FittedRows, confidence: float, decision: str) -> None:
        self.problem, self.people, self.confidence, self.decision = problem, people, confidence, decision
        self.rows = as_rates(problem.rows)
        self.measure = problem.posterior.draw(problem.posterior.n)
        self.attributes = attribute_names(self.measure.groups)
        self.group, self.label = np.divmod(np.asarray(self.measure.cell), len(self.measure.classes))

    # -- one rule ------------------------------------------------------------------------------------------
    def trial(self, solution: Solution, tightening: float = 0.0) -> Trial:
        """Return what labels say of a rule."""
        tick(PROMISING)
        counts = self.count(solution.rule, self.measure.Z)
        noise, rng = own_noise(counts, self.rows), np.random.default_rng(self.problem.options.seed)
        draws = np.concatenate(list(noise.draws(N_DRAWS, rng)), axis=1)
        # The error of a fair rule counts where it is larger.
        draws *= np.divide(noise.scale, noise.observed_scale, out=np.ones(len(draws)), where=noise.scale > 0)[:, None]
        if self.decision == "hashed" and self.people.kinds is not None:
            draws += self.hash_noise(solution.rule, counts.prior, rng)
        values, shift = self.rows.values(counts.tensor), np.zeros(len(self.rows))
        if self.people.answering is not None:
            shift = self.rows.values(self.count(solution.rule, self.people.answering).tensor) - values
        gain = float((counts.tensor.reshape(-1, counts.tensor.shape[-1]) * self.problem.utility.matrix).sum())
        ratio = self.ratio(values, draws, shift)
        return Trial(solution, counts, values, noise.scale, draws, shift, ratio, gain, tightening)

    def count(self, rule: FairRule, Z: np.ndarray) -> ConfusionCounts:
        """Count the decisions of a rule by labels.   Z: (n, A, m)"""
        h = rule.predict_proba(Z)
        prediction = first_best(h.T) if self.decision == "argmax" else h / h.sum(axis=1, keepdims=True)
        names = self.measure.groups, self.measure.classes
        return count_codes(self.group, self.label, prediction, self.measure.weight, *names, self.people.cluster)

    def hash_noise(self, rule: FairRule, prior: np.ndarray, rng: np.random.Generator) -> np.ndarray | float:
        """Return draws of what hashed decisions do to the values, (K, N_DRAWS): people of equal rows flip together."""
        kinds = self.people.kinds
        assert kinds is not None
        h = np.mean([rule.predict_proba(Z) for Z in self.people.kind_posteriors], axis=0)
        undecided = h.max(axis=1) < UNDECIDED
        index = np.flatnonzero((kinds >= 0) & undecided[kinds])
        if len(index) == 0:
            return 0.0
        weight = np.ones(self.measure.n) if self.measure.weight is None else self.measure.weight
        place = kinds[index], np.asarray(self.measure.cell)[index]
        mass = sparse.coo_array((weight[index] / weight.sum(), place), (len(h), self.measure.n_cells)).tocsr()
        D, identity = self.rows.combination @ self.rows.rate_matrix(prior), np.eye(h.shape[1])
        draws = [D @ (mass.T @ (identity[choose(h, rng.random(len(h)))] - h)).ravel() for _ in range(N_DRAWS)]
        return np.stack(draws, axis=1)

    def ratio(
        self,
        values: np.ndarray,
        draws: np.ndarray,
        shift: np.ndarray | None = None,
        tolerances: np.ndarray | None = None,
    ) -> float:
        """Return what max_k (|D_k| + |shift_k|) / tolerance_k of the population stays below with the confidence.

        Draws in which a row that is no gap is outside its bounds count as infinite. tolerances : (K,), by default
        those of the rows.
        """
        rows, D = self.rows, values[:, None] - draws
        extra = np.zeros((len(rows), 1)) if shift is None else np.abs(shift)[:, None]
        bounds = (rows.upper if tolerances is None else tolerances)[rows.is_gap]
        size = np.abs(D[rows.is_gap]) + extra[rows.is_gap]
        relative = np.divide(size, bounds[:, None], out=np.where(size > 0, np.inf, 0.0), where=bounds[:, None] > 0)
        outside = np.maximum(D - rows.upper[:, None], rows.lower[:, None] - D) + extra
        outside = outside[~rows.is_gap].max(axis=0, initial=-1.0)
        largest = np.where(outside > 0, np.inf, relative.max(axis=0, initial=0.0))
        return float(np.quantile(largest, self.confidence, method="higher"))

    def limits(self, trial: Trial) -> tuple[np.ndarray, np.ndarray]:
        """Return limits of each value in the population, each by itself with the confidence, (K,) each."""
        D, extra = trial.values[:, None] - trial.draws, np.abs(trial.shift)
        low = np.quantile(D, 1 - self.confidence, axis=1, method="lower")
        high = np.quantile(D, self.confidence, axis=1, method="higher")
        return low - extra, high + extra

    # -- tighter rules -------------------------------------------------------------------------------------
    def tightened(self, start: Trial, c: float) -> list[Trial]:
        """Return rules whose labelled values approach bounds tightened by c standard errors; none where there is none.

        start : of similar bounds. What labels say of a rule changes with the rule, so that the bounds are moved again;
        by the mean of the last two moves where these go to and fro.
        """
        lower, upper = self.tight_bounds(start.se, c)
        trials, shift = [start], None
        for _ in range(ROUNDS):
            latest = trials[-1].values - trials[-1].solution.rule.multipliers["value"].to_numpy()
            shift = latest if shift is None or len(trials) <= 2 else (latest + shift) / 2
            problem = self.problem.with_bounds(lower - shift, upper - shift)
            try:
                trials.append(self.trial(solve_problem(problem, trials[-1].solution), c))
            except InfeasibleError:
                break
            values = trials[-1].values
            if -UNDER <= float(np.maximum(values - upper, lower - values).max()) <= OVER:
                break
        return trials[1:]

    def tight_bounds(self, se: np.ndarray, c: float) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds tightened by c standard errors; of two bounds at least a fiftieth of their width remains."""
        lower, upper = self.rows.lower, self.rows.upper
        is_double = np.isfinite(lower) & np.isfinite(upper)
        middle = np.where(is_double, np.where(is_double, lower, 0) + np.where(is_double, upper, 0), 0.0) / 2
        half = np.where(is_double, upper, 0.0) - middle
        width = np.maximum(half - c * se, LEAST_WIDTH * half)
        return np.where(is_double, middle - width, lower + c * se), np.where(is_double, middle + width, upper - c * se)

    def search(self, plain: Trial) -> tuple[Trial | None, Trial]:
        """Return (the promised rule of most gain by labels, None if there is none; the fairest rule tried)."""
        trials = {0.0: [plain]}

        def excess(c: float) -> float:
            if c not in trials:
                nearest = min((d for d in trials if trials[d]), key=lambda d: abs(d - c))
                trials[c] = self.tightened(replace(trials[nearest][-1], se=plain.se), c)
            return min([trial.ratio - 1 for trial in trials[c]], default=1.0)

        if plain.ratio > 1:
            low, high = (0.0, FIRST) if excess(FIRST) <= 0 else (FIRST, MOST)
            if excess(high) < 0:
                optimize.brentq(lambda c: min(excess(c), 1.0), low, high, xtol=PRECISE, maxiter=REFINEMENTS, disp=False)
        candidates = [trial for several in trials.values() for trial in several]
        promised = [trial for trial in candidates if trial.ratio <= 1]
        fairest = min(candidates, key=lambda trial: trial.ratio)
        return max(promised, key=lambda trial: trial.gain, default=None), fairest
