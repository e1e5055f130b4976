"""Run a game from its first round to its last, or from where a killed run left off."""

from __future__ import annotations

from typing import Any

import numpy as np

from optfair.inprocessing.checkpoint import Checkpoint
from optfair.inprocessing.game import Game, Trace, play, soft_targets
from optfair.utils.progress import stage


def run(
    game: Game,
    learner: Any,
    start: np.ndarray,
    rounds: int,
    step: str | float,
    shift: str,
    stop_below: float | None = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[Trace, list[Any], Any]:
    """Return (what was played, the model of each round, the model without constraints).

    Plain training comes first in any case: to compare with, and to continue from. The run is over after ``rounds``, or
    once the violation of a round (its excess, where no gap is asked for) is below ``stop_below``.
    """
    trace, plain = Trace.empty(game, start), None
    limit = -np.inf if stop_below is None else float(stop_below)
    models: list[Any] = []
    if checkpoint is not None:
        trace, models, plain = checkpoint.load(game, learner, start, shift)
        if len(trace) and game.violation(trace.confusions[-1]) < limit:
            return trace, models, plain
    if plain is None:
        with stage("training without constraints"):
            plain = learner.best_response(soft_targets(game.weights(np.zeros(len(start))), game.share, shift), -1)
        if checkpoint is not None:
            checkpoint.begin_rounds(learner.pack(plain), learner.state())
    with stage("rounds", rounds, len(models)) as work:
        for model, grown in play(game, learner, trace, rounds, step, shift):
            trace = grown
            models.append(model)
            if checkpoint is not None:
                checkpoint.add(len(models) - 1, trace, learner.pack(model), learner.state())
            violation = game.violation(trace.confusions[-1])
            work.advance(violation=violation)
            if violation < limit:
                break
    return trace, models, plain
