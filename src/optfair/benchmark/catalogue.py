"""The readable plans, experiments/*.toml, as objects: experiments, methods under the names that runs have, people."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from optfair.baselines.registry import METHODS, Method
from optfair.benchmark.people import DataPlan

EXPERIMENTS = (
    "frontiers",
    "ablation",
    "randomised",
    "scalability",
    "tolerance",
    "calibration",
    "truth",
    "seconds",
)
IN_THEN_POST = Method(
    "OptFairInPost",
    "optfair.in_then_post",
    "post",
    "OptFair-in, then OptFair-post (the paper's ablation)",
    "tolerance",
    (0.1, 0.05, 0.02, 0.01, 0.001),
    "centre",
    ("dp", "eop", "eo"),
    "randomised",
)
CLASSES = METHODS | {IN_THEN_POST.name: IN_THEN_POST}


@dataclass(frozen=True)
class MethodPlan:
    """A line of methods.toml: a class of the registry under a name of its own."""

    name: str
    title: str
    kind: Method
    options: Mapping[str, Any]
    trials: tuple[Mapping[str, Any], ...]
    grid: Sequence[float]  # of the knob, from the least fair to the fairest
    anchor: bool  # where post-processing starts from: one run for all criteria
    revision: int
    start: str  # the method it starts from, where that is not what it stands on
    like: str  # the method whose trials choose for this one: itself, or a part of it

    @property
    def ours(self) -> bool:
        return self.kind.name.startswith("OptFair")

    @property
    def ways(self) -> tuple[str, ...]:
        """To answer, by their names in `scores`: FairProjection's authors take the argmax, its theory draws."""
        drawn = not self.ours and self.kind.knob is not None and self.kind.output == "randomised"
        return ("answers", "argmax") if drawn else ("answers",)


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    question: str
    paper: str
    tables: tuple[Mapping[str, Any], ...]


def read_plan(name: str) -> dict[str, Any]:
    """A file of experiments/."""
    return tomllib.loads((resources.files(__package__) / "experiments" / f"{name}.toml").read_text("utf-8"))


def read_experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise ValueError(f"{name}: there is no such experiment; there are {', '.join(EXPERIMENTS)}.")
    found = read_plan(name)
    return Experiment(name, found["title"], found["question"], found["paper"], tuple(found["runs"]))


def read_methods() -> dict[str, MethodPlan]:
    """methods.toml, by the names that runs have."""
    found = {}
    for name, own in read_plan("methods").items():
        kind = CLASSES[own.get("class", name)]
        found[name] = MethodPlan(
            name,
            own["title"],
            kind,
            own.get("options", {}),
            tuple(own.get("trials", ())),
            own.get("grid", kind.grid),
            own.get("anchor", False),
            own.get("revision", 1),
            own.get("start", ""),
            own.get("like", name),
        )
    return found


def read_data() -> dict[str, DataPlan]:
    """data.toml; a family that varies becomes a member per value."""
    found: dict[str, DataPlan] = {}
    for name, own in read_plan("data").items():
        vary = own.pop("vary", None)
        plan = DataPlan(name=name, **own)
        for member in [plan] if vary is None else plan.vary(vary):
            found[member.name] = member
    return found
