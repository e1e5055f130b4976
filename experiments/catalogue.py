"""Read the plans, plans/*.toml, as objects: experiments, methods by the names that runs have, and data."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from experiments.data_plan import DataPlan
from optfair.baselines.registry import METHODS, Method

PLANS = Path(__file__).parent / "plans"
EXPERIMENTS = (
    "frontiers",
    "ablation",
    "randomised",
    "scalability",
    "tolerance",
    "calibration",
    "truth",
    "seconds",
    "installed",
    "labels",
    "tightening",
    "scaling",
    "networks",
)
SHARED_PAGES = ("data_and_settings", "tuning", "runs")  # about all experiments, written when all are asked for
CLASSES = METHODS | {
    "OptFairInPost": Method(
        "OptFairInPost",
        "optfair",
        "post",
        "OptFair-in, then OptFair-post (the paper's ablation)",
        "tolerance",
        (0.1, 0.05, 0.02, 0.01, 0.001),
        "centre",
        ("dp", "eop", "eo"),
        "randomised",
    )
}


@dataclass(frozen=True)
class MethodPlan:
    """A table of methods.toml: a class of the registry under the name that runs have."""

    name: str
    title: str
    kind: Method
    options: Mapping[str, Any]
    trials: tuple[Mapping[str, Any], ...]
    grid: Sequence[float]  # of the knob, from the least fair to the fairest
    anchor: bool  # what post-processing starts from: one run for all criteria
    revision: int
    start: str  # the method it starts from, where that is not what it is fitted on
    like: str  # the method whose trials choose for this one

    @property
    def is_optfair(self) -> bool:
        """Tell whether this is a method of this library."""
        return self.kind.name.startswith("OptFair")

    @property
    def decisions(self) -> tuple[str, ...]:
        """Return the names in `scores` of the ways to decide that are compared.

        FairProjection's authors take the argmax; its theory draws.
        """
        two_ways = not self.is_optfair and self.kind.knob is not None and self.kind.output == "randomised"
        return ("answers", "argmax") if two_ways else ("answers",)


@dataclass(frozen=True)
class Experiment:
    """A plan of plans/. page : where it is shown. paper : where the paper has it, if it does. tables : what is run."""

    name: str
    title: str
    question: str
    paper: str
    tables: tuple[Mapping[str, Any], ...]
    page: str


@lru_cache
def read_plan(name: str) -> Mapping[str, Any]:
    """Read a file of plans/, once; the result must not be changed."""
    return tomllib.loads((PLANS / f"{name}.toml").read_text("utf-8"))


def read_experiment(name: str) -> Experiment:
    """Read the plan of an experiment."""
    if name not in EXPERIMENTS:
        raise ValueError(f"{name}: there is no such experiment; there are {', '.join(EXPERIMENTS)}.")
    texts = {key: value for key, value in read_plan(name).items() if key != "runs"}
    return Experiment(name, tables=tuple(read_plan(name)["runs"]), **{"page": name, **texts})


def pages_of(experiments: Iterable[Experiment]) -> dict[str, list[Experiment]]:
    """Return the pages that these experiments fill, in the order of the experiments."""
    pages: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        pages.setdefault(experiment.page, []).append(experiment)
    return pages


def read_methods() -> dict[str, MethodPlan]:
    """Read methods.toml, by the names that runs have."""
    methods = {}
    for name, table in read_plan("methods").items():
        kind = CLASSES[table.get("class", name)]
        methods[name] = MethodPlan(
            name,
            table["title"],
            kind,
            table.get("options", {}),
            tuple(table.get("trials", ())),
            table.get("grid", kind.grid),
            table.get("anchor", False),
            table.get("revision", 1),
            table.get("start", ""),
            table.get("like", name),
        )
    return methods


def read_data() -> dict[str, DataPlan]:
    """Read data.toml; a family that varies becomes a member per value."""
    plans: dict[str, DataPlan] = {}
    for name, table in read_plan("data").items():
        plan = DataPlan(name=name, **{key: value for key, value in table.items() if key != "vary"})
        for member in plan.vary(table["vary"]) if "vary" in table else [plan]:
            plans[member.name] = member
    return plans


def published() -> Mapping[str, Any]:
    """Read the numbers of others, with their sources."""
    return read_plan("published")
