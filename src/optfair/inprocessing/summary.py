"""Summarise a game: round by round, and what it ended in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints.rows import row_name
from optfair.dual.settings import DRIVER
from optfair.inprocessing.game import Game, Trace
from optfair.inputs.names import decode_index, decode_name, encode_index, encode_name
from optfair.rule.file import decode_table, encode_table
from optfair.rule.keys import key_fingerprint
from optfair.rule.multipliers import multiplier_table


@dataclass(frozen=True, eq=False)
class TrainingSummary:
    """What a game ended in, on the rows it is measured on.

    multipliers : the mean ones, with the values of the result. norm : ‖λ‖₁ of the last round. cap : B. gap : distance
    from an equilibrium, NaN if not known. members : models in the result. worst : the row furthest outside. on_bound :
    whether the multipliers end on their bound.
    """

    groups: pd.Index
    classes: pd.Index
    multipliers: pd.DataFrame
    rounds: int
    accuracy: float
    violation: float
    excess: float
    norm: float
    cap: float
    gap: float
    members: int
    output: str
    worst: str = ""
    measured_on: str = "people trained on"
    has_costs: bool = False
    has_gaps: bool = True
    on_bound: bool = False
    key: bytes | None = None

    def __str__(self) -> str:
        inside = f"outside its bounds by {self.excess:.4f} ({self.worst})" if self.excess else "within its bounds"
        gap = f"violation {self.violation:.4f}, " if self.has_gaps else ""
        lines = [
            f"{self.rounds} rounds; the result is {self.output} of {self.members} model{'s' * (self.members > 1)}",
            f"on the {self.measured_on}: accuracy {self.accuracy:.4f}, {gap}{inside}",
            f"multipliers: ‖λ‖₁ = {self.norm:.4f}, bounded by {self.cap:.4g}",
        ]
        if self.on_bound:
            lines.append("the multipliers end on their bound: raise max_multiplier, or the tolerance cannot be met")
        if np.isfinite(self.gap):
            lines.append(f"distance from an equilibrium: at most {self.gap:.4f}")
        return "\n".join(lines)


def summarise(
    game: Game, trace: Trace, J: np.ndarray, mean: np.ndarray, groups: pd.Index, classes: pd.Index, **facts: Any
) -> TrainingSummary:
    """Summarise a game that ended in a result with confusion J (c, m) and mean multipliers (K,)."""
    rows, values = game.rows, game.values(J)
    norm = float(np.abs(trace.multipliers[-1]).sum()) * game.scale
    return TrainingSummary(
        groups=groups,
        classes=classes,
        multipliers=multiplier_table(rows, mean * game.scale, values),
        rounds=len(trace),
        accuracy=game.accuracy(J),
        violation=float(rows.violation(values)),
        excess=float(rows.excess(values)),
        norm=norm,
        cap=game.cap * game.scale,
        gap=game.gap(J, mean) * game.scale,
        worst=row_name(*rows.keys[int(np.argmax(rows.distances(values)))]),
        has_gaps=bool(rows.is_gap.any()),
        on_bound=norm >= DRIVER.at_cap * game.cap * game.scale,
        **facts,
    )


NUMBERS = (
    "rounds",
    "accuracy",
    "violation",
    "excess",
    "norm",
    "cap",
    "gap",
    "members",
    "has_costs",
    "has_gaps",
    "on_bound",
)


def training_content(training: TrainingSummary) -> dict[str, Any]:
    """Return the summary without its key, as what JSON can hold; `training_from_content` is the way back."""
    return {
        "groups": encode_index(training.groups),
        "classes": encode_index(training.classes),
        "multipliers": encode_table(training.multipliers),
        "output": training.output,
        "worst": training.worst,
        "measured_on": training.measured_on,
        "key": None if training.key is None else key_fingerprint(training.key),
        "numbers": {name: encode_name(getattr(training, name)) for name in NUMBERS},
    }


def training_from_content(content: dict[str, Any]) -> TrainingSummary:
    """Return the summary whose content this is, without its key."""
    return TrainingSummary(
        groups=decode_index(content["groups"]),
        classes=decode_index(content["classes"]),
        multipliers=decode_table(content["multipliers"]),
        output=str(content["output"]),
        worst=str(content["worst"]),
        measured_on=str(content["measured_on"]),
        **{name: decode_name(content["numbers"][name]) for name in NUMBERS},
    )


def history(game: Game, trace: Trace) -> dict[str, np.ndarray]:
    """Return one line per round: of its model, and the distance of the mean of all rounds so far from an equilibrium.

    In the user's units: with costs, λ, its steps and the Lagrangian are in units of costs.
    """
    lines = []
    for t, (lam, J) in enumerate(zip(trace.multipliers, trace.confusions, strict=True)):
        values = game.values(J)
        lines.append(
            {
                "round": t + 1,
                "accuracy": game.accuracy(J),
                "violation": float(game.rows.violation(values)),
                "excess": float(game.rows.excess(values)),
                "norm": float(np.abs(lam).sum()) * game.scale,
                "lagrangian": game.lagrangian(J, lam) * game.scale,
                "equilibrium_gap": game.scale
                * game.gap(trace.confusions[: t + 1].mean(axis=0), trace.multipliers[: t + 1].mean(axis=0)),
                "step": trace.steps[t] * game.scale,
            }
        )
    return {name: np.array([line[name] for line in lines]) for name in lines[0]}
