"""`OptFairIn`: any learner trained to be fair to many groups, for many classes (Algorithm 1, Theorems 5.1–5.3).

λ  →  W(λ) = U − Dᵀλ  →  soft targets of each cell  →  the learner's answer h  →  D(h) with labels  →  the next λ
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from optfair.base import People, held_apart, whole_or_nothing
from optfair.constraints import RowSet, compile_rows
from optfair.constraints.criteria import DEFAULT_TOLERANCE, AnyConstraint
from optfair.decisions import new_key
from optfair.errors import warn, warn_empty
from optfair.estimation.models import default_estimator
from optfair.features import is_dataset, layout_of
from optfair.inprocessing.checkpoint import Checkpoint, fingerprint
from optfair.inprocessing.game import Game, soft_targets
from optfair.inprocessing.learners import (
    WITHOUT_WEIGHTS,
    make_learner,
    seeded,
    warn_if_counting,
    with_probabilities,
)
from optfair.inprocessing.mixture import MIXTURES, Mixture, round_weights
from optfair.inprocessing.run import run
from optfair.inprocessing.start import Start, make_start, post_rule
from optfair.inprocessing.summary import Training, history, training_content, training_from
from optfair.labels import encode_classes
from optfair.options import check_costs
from optfair.people import row_numbers
from optfair.record import RecordedClassifier
from optfair.report import Report, make_report
from optfair.rule import FairRule
from optfair.task import multiplier_table

STEPS = ("theorem", "adaptive")
NOT_PLAYED = ("checkpoint", "progress", "decision", "mixture", "output")  # of no matter to the rounds
MISSED = 0.005  # beyond its bounds, as a rate: what is worth a warning


class OptFairIn(RecordedClassifier):
    """A learner trained with weights that make it fair: a game of ``rounds`` between it and the multipliers λ.

    Parameters
    ----------
    estimator : a classifier that takes ``sample_weight`` (alone or at the end of a Pipeline, whose transformers are
        fitted once), or `optfair.nn.TorchClassifier`; None: standardised multinomial logistic regression.
    sensitive_features, criterion, tolerance, reference, outcomes, attributes, costs, decision, missing : see
        `OptFairPost`. awareness : "blind", or "aware": the learner sees the group too, as columns of X.
    rounds : T. inner_epochs : epochs of a torch learner in each round, at rates that fall by its ``decay`` to a tenth
        of its ``lr``; plain training, before them, has its ``epochs``.
    start : "post" (the multipliers of post-processing with a quick model of the same kind), "zero" (the paper's), or a
        FairRule or fitted OptFairPost (which `clone` would unfit: give searches its ``rule_``).
    step : "theorem" (η of Theorem 5.2), "adaptive" (larger where D(h) is small; may overshoot), or a number.
    max_multiplier : B, bound on ‖λ‖₁; "auto": twice that of post-processing, at least 2 (this fits the quick model even
        from "zero"; a number does without).
    shift : what makes targets positive: per "cell", or "global", the paper's single κ.
    output : "mixture" of the rounds, or "deterministic": one more fit at the mean multipliers.
    mixture : which rounds: "last_half", "all" (the paper's), or "lp" (weights that are best on the people judged by).
    without_weights : for estimators that take no weights: "error", or "resample".
    held_out : share of the people whom the learner does not see, and on whom alone its votes count. 0 (the paper's) is
        for learners that do no better on those they have seen; one that remembers them is fair to nobody else.
    stop_below : end early, once the violation of a round is below it.
    checkpoint : a file to which every round is added; a run with the same data and settings goes on from it.
    progress : show a bar (extra ``cli``). random_state : seed, also of the estimator's parts that have none.

    Attributes
    ----------
    mixture_ : X -> h(x). history_ : one line per round. trace_ : all multipliers and confusions (in units of a utility
        from 0 to 1; with costs, multipliers_, history_, ``step`` and ``max_multiplier`` are in units of costs).
    game_ : the problem that was played (``trace_.regret(game_)``). multipliers_ : λ̄, with the values of the answer.
    training_ : the summary. plain_ : the model trained without constraints. classes_, groups_ : names.
    n_fits_, seconds_ : what it took (the fits of the learner, without the two of the quick model).
    """

    unseen = "error"
    _record, _personal = "training_", ("game_", "trace_")
    _record_content, _record_from = staticmethod(training_content), staticmethod(training_from)

    def __init__(
        self,
        estimator: Any = None,
        *,
        sensitive_features: Any = None,
        criterion: Any = "demographic_parity",
        tolerance: Any = DEFAULT_TOLERANCE,
        reference: str = "overall",
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
        self.missing = missing
        self.checkpoint = checkpoint
        self.progress = progress
        self.random_state = random_state

    # -- fitting -------------------------------------------------------------------------------------------
    @whole_or_nothing
    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None) -> OptFairIn:
        """Play the game.

        X may be a torch data set of items (x, y, group); then y and groups are read from it unless given.
        sensitive_features : the group of each row, as in `OptFairPost.fit`. sample_weight : honoured by the learner and
        the constraints.
        """
        constraints = self._constraints()
        self._check_options()
        y, sensitive_features = self._read(X, y, sensitive_features)
        people = self._people(X, y, sensitive_features, sample_weight)
        if len(people.groups) == 1:
            warn(f"sensitive_features: there is one group, {people.groups.tolist()[0]!r}; nothing is compared.")
        features = self._model_features(people.X)
        people = replace(people, X=self._with_group(features, people.a, len(people.groups)))
        file = self._checkpoint(people, constraints)
        known = file.begin({}) if file is not None and file.exists() else {}
        seed = int(known["seed"]) if known else self._seed()
        seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        if self.estimator is None and is_dataset(people.X):
            raise ValueError("estimator=None: cannot read a torch data set; use optfair.nn.TorchClassifier.")
        estimator = seeded(default_estimator(people.X) if self.estimator is None else self.estimator, seed)

        clock = time.perf_counter()
        trained, judged = self._divided(people, seed)
        warn_if_counting(estimator, len(people.classes), self.shift, len(trained.y))
        game = self._game(judged, constraints)
        X_judged = None if judged is trained else judged.X
        learner = make_learner(estimator, trained, X_judged, seed, int(self.inner_epochs), self.without_weights)
        start = Start.read(known) if known else self._start(estimator, trained, constraints, game, seed)
        if file is not None and not known:
            file.begin(start.arrays())
        game = replace(game, cap=start.cap)
        seconds = {"start": time.perf_counter() - clock}

        clock = time.perf_counter()
        options = int(self.rounds), self.step, self.shift, self.stop_below
        trace, models, plain = run(game, learner, start.multipliers, *options, file, self.progress)
        weights = round_weights(self.mixture, game, trace)
        settled = trace.multipliers if self.mixture == "all" else trace.multipliers[len(trace) // 2 :]
        mean, J = settled.mean(axis=0), np.tensordot(weights, trace.confusions, axes=1)
        if self.output == "deterministic":
            targets = soft_targets(game.weights(mean), game.share, self.shift)
            models, weights = [learner.settle(targets, len(trace))], np.ones(1)
            J = game.confusion(learner.votes(models[0]))
        seconds["rounds"] = time.perf_counter() - clock

        used, m = np.flatnonzero(weights), len(people.classes)
        self.mixture_ = Mixture(learner.front, tuple(models[t] for t in used), weights[used], m)
        self.plain_ = Mixture(learner.front, (plain,), np.ones(1), m)
        self.game_, self.trace_, self.seconds_, self.n_fits_ = game, trace, seconds, learner.n_fits
        self._rounds = history(game, trace)
        self.classes_, self.groups_ = people.classes, people.groups
        self.training_ = Training(
            groups=people.groups,
            classes=people.class_index,
            multipliers=multiplier_table(game.rows, mean * game.scale, game.values(J)),
            rounds=len(trace),
            accuracy=game.accuracy(J),
            violation=float(game.rows.violation(game.values(J))),
            excess=float(game.rows.excess(game.values(J))),
            norm=float(np.abs(trace.multipliers[-1]).sum()) * game.scale,
            cap=game.cap * game.scale,
            gap=game.gap(J, mean) * game.scale,
            members=len(used),
            judged="people held out" if self.held_out else "people trained on",
            output="a mixture" if self.output == "mixture" else "one fit at the mean multipliers, out",
            worst=game.rows.names[int(np.argmax(game.rows.distances(game.values(J))))],
            has_costs=self.costs is not None,
            has_gaps=bool(game.rows.is_gap.any()),
            key=new_key(self._seed()),
        )
        self._warn(start)
        return self

    def _divided(self, people: People, seed: int) -> tuple[People, People]:
        """(Those the learner sees, those its votes are counted on)."""
        if not self.held_out:
            return people, people
        trained, judged = held_apart(people, float(self.held_out), seed)
        return people.part(trained), people.part(judged)

    def _warn(self, start: Start) -> None:
        if start.remembers and not self.held_out:
            warn(
                f"estimator: remembers the people it has seen (accuracy {start.accuracy[0]:.2f} on them, "
                f"{start.accuracy[1]:.2f} on others), so that being fair to them says little about others; try "
                "held_out=0.25, or a simpler model."
            )
        if self.training_.excess > MISSED and self.stop_below is None:
            warn(
                f"tolerance: training ended outside its bounds by {self.training_.excess:.4f} "
                f"({self.training_.worst}); raise rounds, try mixture='lp', or a learner that can express a fair rule."
            )
        if self.training_.on_bound:
            warn(
                f"max_multiplier={self.training_.cap:.4g}: the run ends on this bound, so the tolerance may be missed; "
                "raise it."
            )

    def _read(self, X: Any, y: Any, groups: Any) -> tuple[Any, Any]:
        """Labels and groups, from the items of a data set where they are not given."""
        if type(X).__name__ == "DataLoader":
            raise ValueError("X: is a DataLoader; give the data set it reads, X.dataset.")
        wanted = groups is None and self.sensitive_features is None
        if not is_dataset(X) or (y is not None and not wanted):
            return y, groups
        from optfair.nn.batches import read_labels

        labels, found = read_labels(X)
        return labels if y is None else y, found if wanted else groups

    def _check_options(self) -> None:
        self._check_choices(
            output=("mixture", "deterministic"),
            mixture=MIXTURES,
            shift=("cell", "global"),
            without_weights=WITHOUT_WEIGHTS,
        )
        for name in ("rounds", "inner_epochs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name}={value!r}: must be an integer >= 1.")
        for name, word in (("step", STEPS), ("max_multiplier", ("auto",)), ("stop_below", (None,))):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < np.inf
            if not number and not ((value is None or isinstance(value, str)) and value in word):
                words = ", ".join(map(repr, word))
                raise ValueError(f"{name}={value!r}: must be {words} or a positive number.")
        share = self.held_out
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= float(share) < 1:
            raise ValueError(f"held_out={share!r}: must be a number from 0 to below 1.")
        rule = getattr(self.start, "rule_", self.start)
        if not isinstance(rule, FairRule) and (not isinstance(rule, str) or rule not in ("post", "zero")):
            raise ValueError(f"start={self.start!r}: must be 'post', 'zero', a FairRule or a fitted OptFairPost.")

    def _rows(
        self, people: People, constraints: Sequence[AnyConstraint]
    ) -> tuple[RowSet, sparse.csr_array, np.ndarray]:
        """(Rows, D for the labels' own prior, the weight of each person)."""
        weight = np.ones(len(people.y)) if people.weight is None else people.weight
        weight = weight / weight.sum()
        shape = len(people.groups), len(people.classes)
        prior = np.bincount(people.cell, weight, shape[0] * shape[1]).reshape(shape)
        rows = compile_rows(constraints, people.groups, people.class_index, prior)
        return rows, rows.matrix(prior), weight

    def _game(self, people: People, constraints: Sequence[AnyConstraint]) -> Game:
        """The game, not yet bounded."""
        rows, D, weight = self._rows(people, constraints)
        warn_empty(rows.dropped)
        utility, scale, _ = check_costs(self.costs, len(people.groups), len(people.classes))
        twins = None if is_dataset(people.X) else row_numbers(people.X)
        return Game(rows, D, utility, np.inf, people.cell, weight, twins, scale)

    def _start(
        self, estimator: Any, people: People, constraints: Sequence[AnyConstraint], game: Game, seed: int
    ) -> Start:
        def post() -> tuple[FairRule | None, np.ndarray]:
            quick, aware = with_probabilities(estimator), self.awareness == "aware"
            return post_rule(quick, people, constraints, self.costs, seed, aware=aware)

        asked = getattr(self.start, "rule_", self.start)
        start = make_start(asked, self.max_multiplier, game.rows, game.scale, seed, post)
        if isinstance(asked, FairRule) and asked.multipliers["multiplier"].any() and not start.multipliers.any():
            warn("start: the rule has no multiplier for any of these constraints; starting at zero.")
        return start

    def _checkpoint(self, people: People, constraints: Sequence[AnyConstraint]) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        parts = {k: v for k, v in self.get_params(deep=True).items() if k not in NOT_PLAYED}
        rule = getattr(self.start, "rule_", self.start)
        if isinstance(rule, FairRule):  # known by its multipliers, not by its name
            parts = {k: v for k, v in parts.items() if not k.startswith("start")}
            parts["the start"] = rule.multipliers.to_csv()
        if not isinstance(self.random_state, int | np.integer | None):
            del parts["random_state"]  # changes as it is drawn from; the file has the seed
        rows, D, _ = self._rows(people, constraints)
        parts |= {"the cells": people.cell, "the weights": people.weight, "the classes": people.classes.tolist()}
        parts |= {"D": [D.data, D.indices, D.indptr], "bounds": [rows.lower, rows.upper]}
        return Checkpoint(self.checkpoint, fingerprint(people.X, parts | {"the groups": people.groups.tolist()}))

    def _with_group(self, X: Any, group: np.ndarray | None, n_groups: int) -> Any:
        """X with one column per group, where the rule is aware and X does not hold the group already."""
        if self.awareness == "blind" or self.sensitive_features is not None or group is None:
            return X
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

    # -- prediction ----------------------------------------------------------------------------------------
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """h(x), (n, n_classes) in the order of ``classes_``: the weight of the rounds that vote for each class."""
        check_is_fitted(self, "mixture_")
        return self.mixture_(self._features_of(X, sensitive_features))

    def _features_of(self, X: Any, sensitive_features: Any) -> Any:
        X, group = self._new_people(X, sensitive_features)
        return self._with_group(X, group, len(self.groups_))

    def _key(self) -> bytes | None:
        return self.training_.key

    # -- what was found ------------------------------------------------------------------------------------
    @property
    def history_(self) -> pd.DataFrame:
        """One line per round: accuracy, violation and excess of its model on the people it is judged by (those trained
        on, unless some are held out), ‖λ‖₁, Lagrangian, step, and the distance of the mean of the rounds so far from an
        equilibrium (NaN where rows of X hardly repeat, and so nothing bounds the best response)."""
        check_is_fitted(self, "training_")
        return pd.DataFrame(self._rounds)

    @property
    def multipliers_(self) -> pd.DataFrame:
        check_is_fitted(self, "training_")
        return self.training_.multipliers

    def report(
        self,
        X: Any = None,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        keys: Any = None,
    ) -> Report:
        """What was asked for and reached, and at what price; `print` it.

        Without data: of the training. With labelled data: the plain model, the answer and its decisions on them (with
        ``keys`` as in `predict`), every violation with its interval and noise floor.
        """
        check_is_fitted(self, "mixture_")
        constraints, m = self._constraints(), len(self.classes_)
        what = self._title(constraints)
        if X is None:
            fitted: dict[str, Any] = {"seconds": self.seconds_, "n_base_fits": self.n_fits_}
            return make_report(what, self.training_, constraints, {}, **fitted)
        y, sensitive_features = self._read(X, y, sensitive_features)
        X, label, group, asked = self._judged(X, y, sensitive_features, sample_weight)
        rows = self._features_of(X, asked)
        decided, _ = encode_classes(self.predict(X, sensitive_features=asked, keys=keys), self.classes_.tolist())
        answers = {
            "plain model": self.plain_(rows),
            f"decisions ({self.decision})": np.eye(m)[decided],
            "fair model": self.mixture_(rows),
        }
        title = f"{what}; {len(label)} people given"
        return make_report(title, self.training_, constraints, answers, label, group, sample_weight)
