"""Set a game up: divide the rows, compile the constraints, make the learner, choose where the multipliers start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optfair.constraints import AnyConstraint, compile_rows
from optfair.inprocessing.checkpoint import Checkpoint, fingerprint
from optfair.inprocessing.copies import WeightedCopies, settings_that_count_copies
from optfair.inprocessing.game import Game
from optfair.inprocessing.learners import SoftTargets, make_learner, split_pipeline, trainable_clone, with_probabilities
from optfair.inprocessing.warm_start import QuickRule, WarmStart, make_start, quick_rule
from optfair.inputs.containers import is_dataset
from optfair.inputs.identity import duplicate_row_ids
from optfair.inputs.splits import split_held_out
from optfair.inputs.training_data import TrainingData
from optfair.rule.problem import check_cost_names, make_utility
from optfair.rule.rule import FairRule
from optfair.utils.seeds import fresh_seed

NOT_FINGERPRINTED = (
    "checkpoint",
    "progress",
    "decision",
    "hashing",
    "mixture",
    "output",
)  # settings that change no round


@dataclass(frozen=True, eq=False)
class TrainingSetup:
    """What is played, by whom, and from where; and what a user should be warned about.

    conflict : why post-processing found no rule to start from, or "". unused_start : whether a rule was given to start
    from and has no multiplier for any of these constraints. copy_settings : settings of the estimator in which copies
    of a row count as rows.
    """

    game: Game
    learner: WeightedCopies | SoftTargets
    start: WarmStart
    checkpoint: Checkpoint | None
    conflict: str = ""
    unused_start: bool = False
    copy_settings: tuple[str, ...] = ()


def set_up(
    data: TrainingData, constraints: Sequence[AnyConstraint], start: Any, seed: int | None, parameters: Any
) -> TrainingSetup:
    """Return the set-up of a game.

    start : "post", "zero" or a FairRule. seed : None for a fresh one. parameters : the `OptFairIn` that says the rest.
    """
    checkpoint = None if parameters.checkpoint is None else make_checkpoint(parameters, start, data, constraints)
    recorded = checkpoint.begin({}) if checkpoint is not None and checkpoint.exists() else {}
    seed = int(recorded["seed"]) if recorded else fresh_seed() if seed is None else seed
    train = measured = data
    if parameters.held_out:
        parts = split_held_out(data, float(parameters.held_out), seed)
        train, measured = data.take(parts[0]), data.take(parts[1])
    game = make_game(measured, constraints, parameters.costs)
    estimator = trainable_clone(parameters.estimator, seed, data.X)
    quick_estimator = with_probabilities(estimator)
    X_measured = None if measured is train else measured.X
    epochs = int(parameters.inner_epochs)
    learner = make_learner(estimator, train, X_measured, seed, epochs, parameters.without_weights)
    counting: tuple[str, ...] = ()
    if isinstance(learner, WeightedCopies):  # settings as they were given: the learner has decided what "auto" means
        final, m = split_pipeline(estimator)[1], len(data.classes)
        counting = settings_that_count_copies(final, m, parameters.shift, len(train.y))
    if recorded:
        first = WarmStart.from_arrays(recorded)
        return TrainingSetup(replace(game, cap=first.cap), learner, first, checkpoint, copy_settings=counting)
    quick, bound = QuickRule(start if isinstance(start, FairRule) else None), parameters.max_multiplier
    if quick.rule is None and (start == "post" or bound == "auto"):
        aware = parameters.awareness == "aware"
        quick = quick_rule(quick_estimator, train, constraints, parameters.costs, seed, aware=aware)
    first = make_start(quick, game.rows, bound, game.scale, seed, zero=isinstance(start, str) and start == "zero")
    if checkpoint is not None:
        checkpoint.begin(first.arrays())
    unused = isinstance(start, FairRule) and start.multipliers["multiplier"].any() and not first.multipliers.any()
    game = replace(game, cap=first.cap)
    return TrainingSetup(game, learner, first, checkpoint, quick.conflict, bool(unused), counting)


def make_game(data: TrainingData, constraints: Sequence[AnyConstraint], costs: Any) -> Game:
    """Return the game on labelled rows, ‖λ‖₁ not yet bounded."""
    rows = compile_rows(constraints, data.groups, data.class_index, data.prior)
    matrix = rows.matrix(data.prior)
    utility = make_utility(costs, len(data.groups), len(data.classes))
    check_cost_names(costs, data.class_index)
    weight = np.ones(len(data.y)) if data.weight is None else data.weight
    row_ids = None if is_dataset(data.X) else duplicate_row_ids(data.X)
    return Game(rows, matrix, utility.matrix, np.inf, data.cell, weight / weight.sum(), row_ids, utility.scale)


def make_checkpoint(
    parameters: Any, start: Any, data: TrainingData, constraints: Sequence[AnyConstraint]
) -> Checkpoint:
    """Return the checkpoint of a run with these parameters on these rows."""
    parts = {k: v for k, v in parameters.get_params(deep=True).items() if k not in NOT_FINGERPRINTED}
    if isinstance(start, FairRule):  # known by its multipliers, not by its name
        parts = {k: v for k, v in parts.items() if not k.startswith("start")}
        parts["the start"] = start.multipliers.to_csv()
    if not isinstance(parts["random_state"], int | np.integer | None):
        del parts["random_state"]  # changes as it is drawn from; the file has the seed
    rows = compile_rows(constraints, data.groups, data.class_index, data.prior)
    D = rows.matrix(data.prior)
    parts |= {"the cells": data.cell, "the weights": data.weight, "the classes": data.classes.tolist()}
    parts |= {"D": [D.data, D.indices, D.indptr], "bounds": [rows.lower, rows.upper]}
    parts["the groups"] = data.groups.tolist()
    if data.cluster is not None:
        parts["the clusters"] = data.cluster
    return Checkpoint(parameters.checkpoint, fingerprint(data.X, parts))
