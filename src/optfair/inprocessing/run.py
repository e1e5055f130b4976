"""A game from its first round to its last, or from where a killed run left off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from optfair.errors import need_extra
from optfair.inprocessing.checkpoint import Checkpoint
from optfair.inprocessing.game import Game, Trace, play, soft_targets


def run(
    game: Game,
    learner: Any,
    start: np.ndarray,
    rounds: int,
    step: str | float,
    shift: str,
    stop_below: float | None = None,
    file: Checkpoint | None = None,
    progress: bool = False,
) -> tuple[Trace, list[Any], Any]:
    """(What was played, the model of each round, the model without constraints).

    Plain training comes first in any case: to compare with, and to go on from. The run is over after ``rounds``, or
    once the violation of a round (its excess, where no gap is asked for) is below ``stop_below``.
    """
    trace, plain = Trace.empty(game, start), None
    models: list[Any] = []
    if file is not None:
        trace, models, plain = file.load(game, learner, start, shift)
    if plain is None:
        plain = learner.respond(soft_targets(game.weights(np.zeros(len(start))), game.share, shift), -1)
        if file is not None:
            file.begin_rounds(learner.pack(plain), learner.state())

    def violation() -> float:
        values = game.values(trace.confusions[-1])
        return float(game.rows.violation(values) if game.rows.is_gap.any() else game.rows.excess(values))

    limit = -np.inf if stop_below is None else float(stop_below)
    if len(trace) and violation() < limit:
        return trace, models, plain
    with _bar(rounds, len(trace), progress) as show:
        for model, grown in play(game, learner, trace, rounds, step, shift):
            trace = grown
            models.append(model)
            if file is not None:
                file.add(len(trace) - 1, trace, learner.pack(model), learner.state())
            show(violation())
            if violation() < limit:
                break
    return trace, models, plain


@contextmanager
def _bar(total: int, done: int, wanted: bool) -> Iterator[Any]:
    """A function that is told the violation of every round."""
    if not wanted:
        yield lambda violation: None
        return
    with need_extra("tqdm", "progress=True").tqdm(total=total, initial=done, unit="round") as bar:

        def show(violation: float) -> None:
            bar.set_postfix(violation=f"{violation:.4f}")
            bar.update()

        yield show
