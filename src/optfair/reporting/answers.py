"""Tell which classes rules answer with, how often, and which of them a fair rule has all but lost."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import AnyConstraint, MinimumRate, Rows
from optfair.constraints.rows import object_frame
from optfair.dual.measure import Block, Measure
from optfair.errors import warn
from optfair.metrics.counts import ConfusionCounts
from optfair.rule.rule import FairRule, probabilities_of

COLUMNS = ("rule", "class", "people", "share", "recall")
MIN_SHARE = 0.01  # a class that a model gives to fewer people may come and go without being missed
MIN_PEOPLE = 20  # so many answers, or people of the class, do not vanish by chance
LOST = 0.1  # of its share of the answers: a class that keeps less has nearly vanished


# -- tables --------------------------------------------------------------------------------------------------
def class_answers(predictions: Mapping[str, ConfusionCounts]) -> pd.DataFrame:
    """Return rule, class, people, share, recall: P(Y=j), P(Ŷ=j) and P(Ŷ=j | Y=j) of every rule and class j."""
    rows: list[tuple[Any, ...]] = []
    for name, counts in predictions.items():
        J = counts.tensor.sum(axis=0)
        people, hits = J.sum(axis=1), np.diag(J)
        recall = np.divide(hits, people, out=np.full(len(people), np.nan), where=people > 0)
        rows += zip([name] * len(people), counts.classes, people, J.sum(axis=0), recall, strict=True)
    table = object_frame(COLUMNS, rows)
    return table.astype(dict.fromkeys(COLUMNS[2:], float))


def _name(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


# -- classes that vanish -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class LostClass:
    """A class with its shares of the answers: of the model, of its recalibrated probabilities, and of the rule."""

    name: Hashable
    model: float
    recalibrated: float
    rule: float

    @property
    def by_recalibration(self) -> bool:
        """Whether it was lost before any constraint was asked for."""
        return self.recalibrated < LOST * self.model


def answer_shares(rule: FairRule, posterior: Measure) -> np.ndarray:
    """Return P(Ŷ=j) of a rule, (m,)."""

    def total(block: Block) -> tuple[np.ndarray]:
        return (block.weights @ probabilities_of(rule, block.Z.astype(np.float64), None),)

    return np.asarray(posterior.sum_blocks(total)[0] / posterior.n)


def lost_classes(plain: ConfusionCounts, recalibrated: ConfusionCounts, rule: np.ndarray) -> list[LostClass]:
    """Return the classes that people have and the model gives, and that the rule gives hardly anybody.

    plain, recalibrated : what is predicted without constraints, counted. rule : P(Ŷ=j) with constraints, (m,).
    """
    n, J = float(plain.n_people.sum()), plain.tensor.sum(axis=0)
    people, given, free = J.sum(axis=1), J.sum(axis=0), recalibrated.tensor.sum(axis=(0, 1))
    missed = (given >= MIN_SHARE) & (n * given >= MIN_PEOPLE) & (n * people >= MIN_PEOPLE) & (rule < LOST * given)
    names = plain.classes.tolist()
    return [LostClass(names[j], float(given[j]), float(free[j]), float(rule[j])) for j in np.flatnonzero(missed)]


def warn_lost(
    lost: Sequence[LostClass], constraints: Sequence[AnyConstraint], calibration: str, *, solved_again: bool
) -> None:
    """Warn about classes that nearly vanish, with the call that brings them back; one warning for all of them.

    solved_again : whether the rule can be, with posteriors that are kept.
    """
    if not lost:
        return
    classes = ", ".join(
        f"{_name(loss.name)} to {loss.rule:.2%} of people instead of {loss.model:.2%} "
        f"({'recalibration' if loss.by_recalibration else 'the constraints'} did it)"
        for loss in lost
    )
    code = repaired_criterion(lost, constraints)
    advice = f"{f'with_criterion({code})' if solved_again else f'criterion={code}'} keeps as many answers"
    if any(loss.by_recalibration for loss in lost) and calibration == "posterior":
        advice += ", calibration='groups' the model's own probabilities of the classes"
    warn(f"criterion: the rule gives hardly anybody a class that the model gives: {classes}; {advice}.")


def repaired_criterion(lost: Sequence[LostClass], constraints: Sequence[AnyConstraint]) -> str:
    """Return, as code, the constraints and a minimum rate for each lost class: what the model gave, rounded down."""
    rates = [
        MinimumRate("selection", np.floor(1000 * loss.model) / 1000, by="overall", outcomes=[loss.name])
        for loss in lost
    ]
    return f"[{', '.join(constraint_code(constraint) for constraint in [*constraints, *rates])}]"


def constraint_code(constraint: AnyConstraint) -> str:
    """Return a constraint as a user would write it: without the arguments that are as by default."""
    if isinstance(constraint, Rows):
        return "Rows(...)"
    values = [(f.name, getattr(constraint, f.name), f.default) for f in fields(constraint)]
    required = [repr(value) for _, value, default in values if default is MISSING]
    options = [f"{name}={value!r}" for name, value, default in values if default is not MISSING and value != default]
    return f"{type(constraint).__name__}({', '.join([*required, *options])})"
