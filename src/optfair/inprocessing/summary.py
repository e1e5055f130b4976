"""What a game did round by round, and what it ended in, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optfair.inprocessing.game import Game, Trace
from optfair.rule_file import (
    decode_index,
    decode_name,
    decode_table,
    encode_index,
    encode_name,
    encode_table,
    key_fingerprint,
)


@dataclass(frozen=True, eq=False)
class Training:
    """What a game ended in, on the people it is judged by; multipliers : the mean ones, with values of the answer."""

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
    judged: str = "people trained on"
    has_costs: bool = False
    has_gaps: bool = True
    key: bytes | None = None

    @property
    def on_bound(self) -> bool:
        return self.norm >= 0.99 * self.cap

    def __str__(self) -> str:
        inside = f"outside its bounds by {self.excess:.4f} ({self.worst})" if self.excess else "within its bounds"
        gap = f"violation {self.violation:.4f}, " if self.has_gaps else ""
        lines = [
            f"{self.rounds} rounds; the answer is {self.output} of {self.members} model{'s' * (self.members > 1)}",
            f"on the {self.judged}: accuracy {self.accuracy:.4f}, {gap}{inside}",
            f"multipliers: ‖λ‖₁ = {self.norm:.4f}, bounded by {self.cap:.4g}",
        ]
        if self.on_bound:
            lines.append("the multipliers end on their bound: raise max_multiplier, or the tolerance cannot be met")
        if np.isfinite(self.gap):
            lines.append(f"distance from an equilibrium: at most {self.gap:.4f}")
        return "\n".join(lines)


NUMBERS = ("rounds", "accuracy", "violation", "excess", "norm", "cap", "gap", "members", "has_costs", "has_gaps")


def training_content(training: Training) -> dict[str, Any]:
    """The summary without its key, as what JSON can hold; `training_from` is the way back."""
    return {
        "groups": encode_index(training.groups),
        "classes": encode_index(training.classes),
        "multipliers": encode_table(training.multipliers),
        "output": training.output,
        "worst": training.worst,
        "judged": training.judged,
        "key": None if training.key is None else key_fingerprint(training.key),
        "numbers": {name: encode_name(getattr(training, name)) for name in NUMBERS},
    }


def training_from(content: dict[str, Any]) -> Training:
    return Training(
        groups=decode_index(content["groups"]),
        classes=decode_index(content["classes"]),
        multipliers=decode_table(content["multipliers"]),
        output=str(content["output"]),
        worst=str(content["worst"]),
        judged=str(content["judged"]),
        **{name: decode_name(content["numbers"][name]) for name in NUMBERS},
    )


def history(game: Game, trace: Trace) -> dict[str, np.ndarray]:
    """One line per round: of its model, and the distance of the mean of all rounds so far from an equilibrium.

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
