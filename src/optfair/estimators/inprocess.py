"""Train any learner to be fair to many groups, for many classes: `OptFairIn` (Algorithm 1, Theorems 5.1–5.3).

λ  →  W(λ) = U − Dᵀλ  →  soft targets of each cell  →  the learner's model h  →  D(h) with labels  →  the next λ
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from optfair.errors import brief_repr, warn, warn_empty
from optfair.estimators.reports import previous_answers, report_people, with_favourable
from optfair.estimators.saving import SavableClassifier
from optfair.inprocessing.game import soft_targets
from optfair.inprocessing.learners import WITHOUT_WEIGHTS, warn_about_copies
from optfair.inprocessing.mixture import MIXTURES, Mixture, round_weights
from optfair.inprocessing.run import run
from optfair.inprocessing.setup import TrainingSetup, set_up
from optfair.inprocessing.summary import history, summarise, training_content, training_from_content
from optfair.inprocessing.warm_start import OVERFIT_GAP, WarmStart
from optfair.inputs.containers import layout_of
from optfair.inputs.labels import encode_classes
from optfair.reporting.measuring import make_report, normalise_rows
from optfair.reporting.report import Report
from optfair.rule.keys import new_key
from optfair.rule.rule import FairRule
from optfair.utils.checks import check_integer, check_number, is_number
from optfair.utils.display import with_progress
from optfair.utils.html import card
from optfair.utils.progress import stage
from optfair.utils.recovery import restore_on_failure
from optfair.utils.seeds import as_seed

STEPS = ("theorem", "adaptive")
PLAIN, FAIR = "plain model", "fair model"  # in a report: before and after, by their probabilities
EXCESS_WARNING = 0.005  # as a rate: a result this far outside its bounds is worth a warning


class OptFairIn(SavableClassifier):
    """Train a learner with weights that make it fair: a game of ``rounds`` between it and the multipliers λ.

    Parameters
    ----------
    estimator : classifier, optional
        A classifier that takes ``sample_weight`` (alone or at the end of a Pipeline, whose transformers are fitted
        once), or `optfair.nn.TorchClassifier`; standardised multinomial logistic regression by default, behind a
        `TableEncoder` where a data frame has texts or gaps.
    sensitive_features : str, int, list or callable, optional
        Where in X the groups are; see `OptFairPost`.
    criterion : str, Constraint, Ratio, MinimumRate, Rows, or list of these, default "demographic_parity"
        What is constrained; see `optfair.solve`.
    tolerance : float or mapping from group to float, default 0.01
        Bound on every gap between a group's rate and the reference rate.
    reference : {"overall", "pairwise"}, default "overall"
        What a group's rate is compared with.
    outcomes : sequence of class labels, optional
        Predicted classes that the criterion speaks of.
    attributes : str or sequence of attribute names, default "intersections"
        Which groups of several attributes are meant.
    costs : array of shape (n_classes, n_classes) or (n_groups, n_classes, n_classes), optional
        Costs to minimise instead of the error.
    awareness : {"blind", "aware"}, default "blind"
        When aware the learner sees the group too, as columns of X.
    rounds : int, default 50
        Rounds T of the game.
    inner_epochs : int, default 1
        Epochs of a torch learner in each round, at rates that fall by its ``decay`` to a tenth of its ``lr``; plain
        training, before them, has its ``epochs``.
    start : {"post", "zero"}, FairRule or fitted OptFairPost, default "post"
        The multipliers of post-processing with a quick model of the same kind, zero (the paper's), or those of a rule.
        `clone` would unfit an OptFairPost: give searches its ``rule_``.
    step : {"theorem", "adaptive"} or float, default "theorem"
        Step η of Theorem 5.2; larger where D(h) is small, which may overshoot; or a number.
    max_multiplier : "auto" or float, default "auto"
        Bound B on ‖λ‖₁; "auto" is twice that of post-processing, at least 2 (this fits the quick model even from
        "zero"; a number does without).
    shift : {"cell", "global"}, default "cell"
        What makes targets positive: a shift per cell, or the paper's single κ.
    output : {"mixture", "deterministic"}, default "mixture"
        A mixture of the rounds, or one more fit at the mean multipliers.
    mixture : {"last_half", "all", "lp"}, default "last_half"
        Which rounds are mixed: the last half, all (the paper's), or with weights that are best on the rows measured on.
    without_weights : {"error", "resample"}, default "error"
        What to do with estimators that take no weights.
    held_out : float, default 0.0
        Share of the rows that the learner does not see, and on which alone its predictions count. 0 (the paper's) is
        for learners that do no better on rows they have seen; one that overfits is fair to nobody else.
    stop_below : float, optional
        End early, once the violation of a round is below it.
    decision : {"hashed", "argmax", "sampled"}, default "hashed"
        How `predict` chooses a class where the rounds disagree.
    hashing : {"blake2b", "hmac-sha256"}, default "blake2b"
        Hash behind hashed decisions, which is read by `predict`: the second is in every language and database, for
        predictions that are made elsewhere ("Into production" in the user guide). With another one, undecided people
        get other predictions.
    missing : {"error", "group"}, default "error"
        Whether a missing group is an error or a group of its own.
    checkpoint : str or path, optional
        A file to which every round is added; a run with the same data and settings goes on from it.
    progress : bool, default False
        Whether to show on standard error how far training has come; see "Progress" in the user guide.
    random_state : int or generator, optional
        Seed, also of the estimator's parts that have none.

    Attributes
    ----------
    mixture_ : callable
        X -> h(x), the weighted vote of the rounds.
    history_ : pandas.DataFrame
        One line per round.
    trace_ : Trace
        All multipliers and confusions, in units of a utility from 0 to 1; with costs, ``multipliers_``, ``history_``,
        ``step`` and ``max_multiplier`` are in units of costs.
    game_ : Game
        The problem that was played; ``trace_.regret(game_)`` is its regret.
    multipliers_ : pandas.DataFrame
        The mean multipliers, with the values of the result.
    constraints_ : list of Constraint, Ratio, MinimumRate or Rows
        What was trained for.
    training_ : TrainingSummary
        What training ended in.
    plain_ : callable
        The model trained without constraints.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    groups_ : pandas.Index
        Names of the groups.
    n_fits_ : int
        Fits of the learner, without the two of the quick model.
    seconds_ : dict
        What training took.

    Examples
    --------
    >>> from optfair import OptFairIn
    >>> from optfair.datasets import make_fair_classification
    >>> data = make_fair_classification(600, n_classes=3, n_groups=2, random_state=0)
    >>> model = OptFairIn(criterion="dp", tolerance=0.05, rounds=10, random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    >>> len(model.history_)
    10
    >>> model.predict(data.X).shape  # no group is needed
    (600,)
    """

    unseen = "error"
    _prefit_advice = "give it to OptFairPost as FrozenEstimator(model)"
    _record, _personal = "training_", ("game_", "trace_")
    _record_content, _record_from_content = staticmethod(training_content), staticmethod(training_from_content)

    def __init__(
        self,
        estimator: Any = None,
        *,
        sensitive_features: Any = None,
        criterion: Any = "demographic_parity",
        tolerance: Any = None,
        reference: str | None = None,
        outcomes: Sequence[Hashable] | None = None,
        attributes: str | Sequence[Hashable] | None = None,
        costs: Any = None,
        awareness: str = "blind",
        rounds: int = 50,
        inner_epochs: int = 1,
        start: Any = "post",
        step: str | float = "theorem",
        max_multiplier: str | float = "auto",
        shift: str = "cell",
        output: str = "mixture",
        mixture: str = "last_half",
        without_weights: str = "error",
        held_out: float = 0.0,
        stop_below: float | None = None,
        decision: str = "hashed",
        hashing: str = "blake2b",
        missing: str = "error",
        checkpoint: Any = None,
        progress: bool = False,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.sensitive_features = sensitive_features
        self.criterion = criterion
        self.tolerance = tolerance
        self.reference = reference
        self.outcomes = outcomes
        self.attributes = attributes
        self.costs = costs
        self.awareness = awareness
        self.rounds = rounds
        self.inner_epochs = inner_epochs
        self.start = start
        self.step = step
        self.max_multiplier = max_multiplier
        self.shift = shift
        self.output = output
        self.mixture = mixture
        self.without_weights = without_weights
        self.held_out = held_out
        self.stop_below = stop_below
        self.decision = decision
        self.hashing = hashing
        self.missing = missing
        self.checkpoint = checkpoint
        self.progress = progress
        self.random_state = random_state

    # -- fitting -------------------------------------------------------------------------------------------
    @restore_on_failure
    @with_progress
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        cluster: Any = None,
    ) -> OptFairIn:
        """Play the game.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, or torch data set of n rows
            Features; a data set has items (x, y, group).
        y : array-like of shape (n,), optional
            True classes; read from the items of a data set by default.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row; several columns make intersections. Read from the items of a data set by default.
        sample_weight : array-like of shape (n,), optional
            Weights, honoured by the learner and the constraints.
        cluster : array-like of shape (n,), optional
            The person, or family, or school, that each row belongs to, where some have several: people
            held out, and the folds of the quick model, have all of their rows or none.

        Returns
        -------
        OptFairIn
            The fitted classifier itself.

        Examples
        --------
        >>> from optfair import OptFairIn
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(600, random_state=0)
        >>> model = OptFairIn(tolerance=0.05, rounds=5, random_state=0)
        >>> model.fit(data.X, data.y, sensitive_features=data.sensitive_features).training_.rounds
        5
        """
        start = self._check_options()
        constraints = self._constraints()
        data = self._training_data(X, y, sensitive_features, sample_weight, cluster=cluster)
        self._warn_about_data(X, data, sensitive_features, constraints)
        if self.awareness == "aware" and self.sensitive_features is None:
            data = replace(data, X=_with_group(data.X, data.a, len(data.groups)))

        clock = time.perf_counter()
        setup = set_up(data, constraints, start, as_seed(self.random_state), self)
        self._warn_about_setup(setup, len(data.classes))
        seconds = {"start": time.perf_counter() - clock}

        clock = time.perf_counter()
        game, learner = setup.game, setup.learner
        options = int(self.rounds), self.step, self.shift, self.stop_below
        trace, models, plain = run(game, learner, setup.start.multipliers, *options, setup.checkpoint)
        weights = round_weights(self.mixture, game, trace)
        late = trace.multipliers if self.mixture == "all" else trace.multipliers[len(trace) // 2 :]
        mean, J = late.mean(axis=0), np.tensordot(weights, trace.confusions, axes=1)
        if self.output == "deterministic":
            targets = soft_targets(game.weights(mean), game.share, self.shift)
            with stage("training at the mean multipliers"):
                models, weights = [learner.final_fit(targets, len(trace))], np.ones(1)
            J = game.confusion(learner.predict_codes(models[0]))
        seconds["rounds"] = time.perf_counter() - clock

        members, m = np.flatnonzero(weights), len(data.classes)
        self.mixture_ = Mixture(learner.transformer, tuple(models[t] for t in members), weights[members], m)
        self.plain_ = Mixture(learner.transformer, (plain,), np.ones(1), m)
        self.game_, self.trace_, self.seconds_, self.n_fits_ = game, trace, seconds, learner.n_fits
        self._rounds, self.constraints_ = history(game, trace), constraints
        self.classes_, self.groups_ = data.classes, data.groups
        facts = {
            "members": len(members),
            "measured_on": "people held out" if self.held_out else "people trained on",
            "output": "a mixture" if self.output == "mixture" else "one fit at the mean multipliers, out",
            "has_costs": self.costs is not None,
            "key": new_key(as_seed(self.random_state)),
        }
        self.training_ = summarise(game, trace, J, mean, data.groups, data.class_index, **facts)
        self._warn_about_result(setup.start)
        return self

    def _warn_about_setup(self, setup: TrainingSetup, n_classes: int) -> None:
        if setup.copy_settings:
            warn_about_copies(setup.learner, n_classes, setup.copy_settings)
        if setup.game.rows.dropped:
            warn_empty(setup.game.rows.dropped)
        if setup.conflict:
            warn(f"start: post-processing found that {setup.conflict} Starting at zero.")
        if setup.unused_start:
            warn("start: the rule has no multiplier for any of these constraints; starting at zero.")

    def _warn_about_result(self, start: WarmStart) -> None:
        train_accuracy, test_accuracy = start.accuracy
        if train_accuracy - test_accuracy > OVERFIT_GAP and not self.held_out:
            warn(
                f"estimator: overfits (accuracy {train_accuracy:.2f} on people it has seen, {test_accuracy:.2f} on "
                "others), so that being fair to those it was trained on says little about others; try held_out=0.25, "
                "or a simpler model."
            )
        if self.training_.excess > EXCESS_WARNING and self.stop_below is None:
            warn(
                f"tolerance: training ended outside its bounds by {self.training_.excess:.4f} "
                f"({self.training_.worst}); raise rounds, try mixture='lp', or a learner that can express a fair rule."
            )
        if self.training_.on_bound:
            warn(
                f"max_multiplier={self.training_.cap:.4g}: the run ends on this bound, so the tolerance may be missed; "
                "raise it."
            )

    def _check_options(self) -> Any:
        """Check the parameters of training; return the start: "post", "zero" or a rule."""
        self._check_choices(
            output=("mixture", "deterministic"),
            mixture=MIXTURES,
            shift=("cell", "global"),
            without_weights=WITHOUT_WEIGHTS,
        )
        check_integer("rounds", self.rounds, 1)
        check_integer("inner_epochs", self.inner_epochs, 1)
        check_number("held_out", self.held_out, "[0, 1)")
        for name, words in (("step", STEPS), ("max_multiplier", ("auto",)), ("stop_below", (None,))):
            value = getattr(self, name)
            number = is_number(value) and 0 < float(value) < np.inf
            if not number and not ((value is None or isinstance(value, str)) and value in words):
                raise ValueError(
                    f"{name}={brief_repr(value)}: must be {', '.join(map(repr, words))} or a positive number."
                )
        start = getattr(self.start, "rule_", self.start)
        if not isinstance(start, FairRule) and (not isinstance(start, str) or start not in ("post", "zero")):
            raise ValueError(
                f"start={brief_repr(self.start)}: must be 'post', 'zero', a FairRule or a fitted OptFairPost."
            )
        return start

    # -- prediction ----------------------------------------------------------------------------------------
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return h(x), the weight of the rounds that predict each class.

        Parameters
        ----------
        X : array-like, data frame, or torch data set of n rows
            Features.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row; only for an aware classifier whose groups are not in X.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities in the order of ``classes_``.

        Examples
        --------
        >>> from optfair import OptFairIn
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(600, random_state=0)
        >>> model = OptFairIn(tolerance=0.05, rounds=5, random_state=0)
        >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> model.predict_proba(data.X).shape
        (600, 3)
        """
        check_is_fitted(self, "mixture_")
        return self.mixture_(self._features_of(X, sensitive_features))

    def explain(self, X: Any, **arguments: Any) -> NoReturn:
        """Refuse: no answer of this classifier is a sum of terms that could be shown.

        Parameters
        ----------
        X : array-like or data frame of n rows
            Features.
        **arguments
            As in `OptFairPost.explain`.

        Raises
        ------
        ValueError
            Always; it names the classifiers that can explain their answers.

        Examples
        --------
        >>> from optfair import OptFairIn
        >>> OptFairIn().explain([[0.5]])
        Traceback (most recent call last):
        ValueError: explain: OptFairIn answers by a vote of trained models, ...
        """
        raise ValueError(
            "explain: OptFairIn answers by a vote of trained models, whose scores are no sums of constraint terms; use "
            "OptFairPost, or OptFairInPost for a rule on top of such a training."
        )

    def _features_of(self, X: Any, sensitive_features: Any) -> Any:
        X, group = self._check_new_rows(X, sensitive_features)
        return X if group is None or self.sensitive_features is not None else _with_group(X, group, len(self.groups_))

    def _key(self) -> bytes | None:
        return self.training_.key

    def _summary_html(self) -> str:
        if not hasattr(self, "training_"):
            return ""
        lines = str(self.training_).splitlines()
        return card("Training", [(f"{k}.", line) for k, line in enumerate(lines, 1)])

    # -- what was found ------------------------------------------------------------------------------------
    @property
    def history_(self) -> pd.DataFrame:
        """One line per round.

        Accuracy, violation and excess of its model on the rows it is measured on (those trained on, unless some are
        held out), ‖λ‖₁, Lagrangian, step, and the distance of the mean of the rounds so far from an equilibrium (NaN
        where rows of X hardly repeat, so that nothing bounds the best response).
        """
        check_is_fitted(self, "training_")
        return pd.DataFrame(self._rounds)

    @property
    def multipliers_(self) -> pd.DataFrame:
        """One line per constraint row: names, mean multiplier, price, value and bounds."""
        check_is_fitted(self, "training_")
        return self.training_.multipliers

    def report(
        self,
        X: Any = None,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        cluster: Any = None,
        keys: Any = None,
        before: Any = None,
        favourable: Any = None,
    ) -> Report:
        """Report what was asked for and reached, and at what price; ``print`` it.

        Without data it is about the training. With labelled data it compares the plain model, the fair one and its
        decisions on them, every violation with its interval and noise floor.

        Parameters
        ----------
        X : array-like, data frame, or torch data set of n rows, optional
            Features of labelled people.
        y : array-like of shape (n,), optional
            Their true classes.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Their groups, unless these are in X.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights of the rows.
        cluster : array-like of shape (n,), optional
            The person of each row, where some have several: they count as one in the intervals.
        keys : sequence of n keys, optional
            Who each person is, as in `predict`.
        before : array-like of shape (n,) or (n, n_classes), optional
            What these people got before, to be compared with; the plain model by default.
        favourable : sequence of class labels, optional
            Predictions that are good for a person, for who gets and who is denied them and for the section of a
            regulator; by default the outcomes that constraints are limited to.

        Returns
        -------
        Report
            Training, prices, measurements with labels, small cells.

        Examples
        --------
        >>> from optfair import OptFairIn
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(600, random_state=0)
        >>> model = OptFairIn(tolerance=0.05, rounds=5, random_state=0)
        >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> print(model.report().title)
        OptFairIn, dp within 0.05 of everybody, blind: 2 groups, 3 classes
        """
        check_is_fitted(self, "mixture_")
        title, rule = self._title(self.constraints_), self.training_
        if X is None:
            return make_report(title, self.constraints_, {}, rule=rule, seconds=self.seconds_, n_fits=self.n_fits_)
        people = self._check_reported(X, y, sensitive_features, sample_weight, cluster)
        rows, keys = self._features_of(people.X, people.groups), people.take(keys)
        answers = self.predict(people.X, sensitive_features=people.groups, keys=keys)
        decisions, _ = encode_classes(answers, self.classes_.tolist())
        decided, h = f"decisions ({self.decision})", normalise_rows(self.mixture_(rows))
        names = rule.groups, rule.classes
        rules = previous_answers(before, people, rule.classes)
        rules |= {PLAIN: normalise_rows(self.plain_(rows)), FAIR: h, decided: decisions}
        after = FAIR if self.decision == "sampled" else decided
        options: dict[str, Any] = {"after": after, "probabilities": h, "rule": rule, "awareness": self.awareness}
        report = report_people(title, self.constraints_, people, rules, names, **options)
        return with_favourable(report, favourable, rule.classes)


def _with_group(X: Any, group: np.ndarray, n_groups: int) -> Any:
    """Return X with one column per group."""
    columns, layout = np.eye(n_groups)[group], layout_of(X)
    if layout == "pandas":
        names: list[Any] = [f"sensitive_features_{k}" for k in range(n_groups)]
        if X.columns.inferred_type == "integer":  # scikit-learn wants names of one type
            names = [int(X.columns.max()) + 1 + k for k in range(n_groups)]
        return pd.concat([X, pd.DataFrame(columns, index=X.index, columns=names)], axis=1)
    if layout == "sparse":
        return sparse.hstack([X, columns], format=X.format)
    if layout == "array" and X.ndim == 2:
        return np.hstack([np.asarray(X), columns])
    raise ValueError(
        "awareness='aware': groups given to fit can be added to a 2-d array, a sparse matrix or a pandas frame "
        "only; name the columns of X that hold them in the constructor."
    )
