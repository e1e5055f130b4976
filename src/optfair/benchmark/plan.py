"""From the readable plans (experiments/*.toml) to runs, each of which is fixed by what is written in it.

A run is one fit, judged once. Settings that tuning chooses are in the run as the values chosen, so a plan cannot be
laid out before its trials have been run: `Plan.runs` then raises `TrialsFirst` with the runs that are needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from optfair.baselines.registry import Method
from optfair.benchmark.areas import area
from optfair.benchmark.catalogue import Experiment, MethodPlan, read_data, read_methods
from optfair.benchmark.people import MADE_UP, DataPlan, source_of

# Trials are compared by these, at the second and the fourth value of the knob's grid: a single point would favour
# settings that make the knob stronger over settings that make the method better.
TRIED, TRIED_VALUES = ("dp", "eo"), (1, 3)
PLAIN, PAIR = "ERM", "Posterior"  # what methods start from: plain training, or the argmax of a network of the pair
OPEN = 1.0  # a tolerance that binds nobody
# What --smoke does to everything: seconds a run, and results that mean nothing.
SMOKE = {"rows": 800, "epochs": 2, "rounds": 3}


class TrialsFirst(Exception):
    """Runs that must be done before the plan can be laid out."""

    def __init__(self, runs: list[Run]) -> None:
        super().__init__(f"{len(runs)} trials first")
        self.runs = runs


@dataclass(frozen=True)
class Run:
    """One fit and its judgement. part : "test", or "validation" of the training people, for trials.

    data, method : names in data.toml and methods.toml. source : of the people who were there; people : which of them,
    the arguments of `load` or `make_fair_classification`. value : of the knob.
    options : of the class; under "model" those of the network, under "features" those of the network frozen below it,
    under "adjustment" those of the one on top that FRAPPÉ learns.
    """

    data: str
    source: str
    method: str
    criterion: str
    value: float | None
    seed: int
    part: str = "test"
    rows: int | None = None
    people: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """The same text for the same run."""
        return json.dumps(self.as_dict(), sort_keys=True)

    def as_dict(self) -> dict[str, Any]:
        names = ("data", "source", "people", "method", "criterion", "value", "seed", "part", "rows", "options")
        return {name: getattr(self, name) for name in names}


class Plan:
    """All experiments, for the people that are there.

    lines : of the ledger, by `Run.key`; they decide trials. smoke : everything small. only : names of data, or none.
    done : the people are those of the lines, whoever is there now. limit : trials stopped before it are not over.
    """

    def __init__(
        self,
        lines: Mapping[str, Any],
        *,
        smoke: bool = False,
        only: tuple[str, ...] = (),
        done: bool = False,
        limit: float = 0.0,
    ) -> None:
        self.lines, self.smoke, self.only, self.limit = lines, smoke, only, limit
        self._sources: dict[str, str] = {}
        self.data = read_data()
        self.methods = read_methods()
        if done:
            there = {(line["run"]["data"], line["run"]["source"]) for line in lines.values()}
            for name, own in self.data.items():
                known = [*(str(source["name"]) for source in own.sources), MADE_UP]
                found = [source for source in known if (name, source) in there]
                self._sources |= {name: found[0]} if found else {}
        self._chosen: dict[tuple[str, str], Mapping[str, Any]] = {}
        for name in only:
            if not self._family(name):
                families = ", ".join(dict.fromkeys(own.split()[0] for own in self.data))
                raise ValueError(f"--data {name}: there is no such data; there are {families}.")

    # -- the runs of an experiment -------------------------------------------------------------------------
    def runs(self, experiment: Experiment) -> list[Run]:
        """Every run of it, once; or `TrialsFirst`."""
        found: dict[str, Run] = {}
        trials: dict[str, Run] = {}
        for data, method, criterion, value, options in self.asked(experiment):
            try:
                for seed in self.seeds(self.data[data]):
                    run = self.run(data, method, criterion, value, seed, options)
                    found[run.key] = run
            except TrialsFirst as first:
                trials |= {run.key: run for run in first.runs}
        if trials:
            raise TrialsFirst(list(trials.values()))
        return list(found.values())

    def asked(self, experiment: Experiment) -> Iterator[tuple[str, str, str, float | None, Mapping[str, Any]]]:
        for table in experiment.tables:
            names = [own for name in table["data"] for own in self._family(name)]
            kept = [own for name in self.only or self.data for own in self._family(name)]
            for data in (name for name in names if name in kept):
                for method in table["methods"]:
                    known = self.methods[method]
                    for options in table.get("options", [{}]):
                        if known.anchor:
                            yield data, method, "dp", OPEN, options
                        elif known.kind.knob is None:
                            yield data, method, "dp", None, options
                        else:
                            for criterion in table["criteria"][: 1 if self.smoke else None]:
                                for value in self._values(known, table["values"]):
                                    yield data, method, criterion, value, options

    def _family(self, name: str) -> list[str]:
        members = [own for own in self.data if own == name or own.startswith(f"{name} ")]
        return members[:2] if self.smoke else members

    def _values(self, method: MethodPlan, asked: Any) -> Sequence[float]:
        if asked == "middle":
            return method.grid[len(method.grid) // 2 :][:1]
        values = method.grid if asked == "grid" else asked
        return values[len(values) // 2 :][:1] if self.smoke else values

    def seeds(self, data: DataPlan) -> Sequence[int]:
        return data.seeds[: len(data.seeds) // 2] if self.smoke else data.seeds

    def run(
        self,
        data: str,
        method: str,
        criterion: str,
        value: float | None,
        seed: int,
        options: Mapping[str, Any] = {},
        part: str = "test",
        trial: Mapping[str, Any] | None = None,
    ) -> Run:
        known, people = self.methods[method], self.data[data]
        chosen = self.choice(data, method) if trial is None else trial
        # Plain training is the base of all others; of itself only the trial counts.
        model = (dict(people.model) if method == PLAIN else self.network(data)) | dict(chosen.get("model", {}))
        merged = {**known.options, **{k: v for k, v in chosen.items() if k != "model"}, **options, "model": model}
        if known.revision != 1:
            merged["revision"] = known.revision
        if people.features_of:
            revision = self.methods["ERM"].revision
            merged["features"] = self.network(people.features_of) | ({"revision": revision} if revision != 1 else {})
        rows = None
        if self.smoke:
            merged, rows = small(merged, known.kind), SMOKE["rows"]
        source = self.source(data)
        return Run(data, source, method, criterion, value, seed, part, rows, people.arguments(source), merged)

    def source(self, data: str) -> str:
        """Of the people taken, once for all."""
        if data not in self._sources:
            self._sources[data] = source_of(self.data[data], smoke=self.smoke)
        return self._sources[data]

    # -- tuning --------------------------------------------------------------------------------------------
    def network(self, data: str) -> dict[str, Any]:
        """Settings of plain training on these people, as chosen."""
        return dict(self.data[data].model) | dict(self.choice(data, "ERM").get("model", {}))

    def trials(self, data: str, method: str) -> tuple[Mapping[str, Any], ...]:
        """What is tried for a method on these people."""
        own = self.data[data]
        known = self.methods[method].trials if own.trials is None else tuple(own.trials.get(method, ()))
        return known[:2] if self.smoke else known

    def choice(self, data: str, method: str) -> Mapping[str, Any]:
        """The best trial by the validation part of the first seed's training people."""
        asked, method = self.data[data].tuned_on or data, self.methods[method].like
        if (data, method) in self._chosen:
            return self._chosen[data, method]
        trials = self.trials(asked, method)
        if not self.data[data].tuned or len(trials) < 2:
            return trials[0] if trials and self.data[data].tuned else {}
        needed = self.needed(asked, method)
        missing = [run for run in needed if not finished(self.lines.get(run.key), self.limit)]
        if missing:
            raise TrialsFirst(missing)
        scores = [self.trial_score(asked, method, trial) for trial in trials]
        best = trials[max(range(len(trials)), key=lambda k: scores[k])]  # the first of the best
        self._chosen[data, method] = best  # lines are never taken back
        return best

    def trial_runs(self, data: str, method: str, trial: Mapping[str, Any]) -> list[Run]:
        asked: Sequence[tuple[str, float | None]] = [("dp", None)]  # plain training has no knob
        if method != PLAIN:
            grid = self.methods[method].grid
            asked = [(criterion, grid[k]) for criterion in TRIED for k in TRIED_VALUES][:: 3 if self.smoke else 1]
        seed = self.data[data].seeds[0]
        return [self.run(data, method, *each, seed, part="validation", trial=trial) for each in asked]

    def needed(self, data: str, method: str) -> list[Run]:
        """All runs that choose among its trials, each once."""
        found: dict[str, Run] = {}
        for trial in self.trials(data, method):
            start = [] if method == PLAIN else [self.start_run(data, method, trial)]
            found |= {run.key: run for run in (*self.trial_runs(data, method, trial), *start)}
        return list(found.values())

    def start(self, method: str, settings: Mapping[str, Any]) -> str:
        """The method whose rule this one's is without any fairness; Σ_a P(Y|X) P(a|X,Y) is plain training's P(Y|X)."""
        known = self.methods[method]
        pair = known.kind.kind == "post" and settings.get("posterior") != "factored"
        return known.start or (PAIR if pair else PLAIN)

    def start_run(self, data: str, method: str, trial: Mapping[str, Any]) -> Run:
        """What a trial starts from, on the validation part."""
        if self.start(method, trial) == PLAIN:
            return self.trial_runs(data, PLAIN, self.choice(data, PLAIN))[0]
        return self.run(data, PAIR, "dp", OPEN, self.data[data].seeds[0], part="validation", trial={})

    def trial_score(self, data: str, method: str, trial: Mapping[str, Any]) -> float:
        """Accuracy of plain training; else the mean of the areas by both criteria, in the better way to answer."""
        lines = [self.lines[run.key] for run in self.trial_runs(data, method, trial)]
        if method == PLAIN:
            return -1.0 if "error" in lines[0] else float(lines[0]["scores"]["answers"]["accuracy"])
        start = self.lines[self.start_run(data, method, trial).key]
        if any("error" in line for line in (*lines, start)):
            return -1.0
        plain = self.lines[self.trial_runs(data, PLAIN, self.choice(data, PLAIN))[0].key]
        if "error" in plain:
            raise ValueError(f"{data}: plain training failed in every trial: {plain['error']}")
        base, found = plain["scores"]["answers"], []
        for way in self.methods[method].ways:
            areas = []
            for criterion in TRIED:
                scores = [line["scores"][way] for line in lines if line["run"]["criterion"] == criterion]
                scores.append(start["scores"]["answers"])
                points = [(score["violation"][criterion], score["accuracy"]) for score in scores]
                v_max, floor = base["violation"][criterion], base["floor"][criterion]
                areas.append(area(points, v_max, lines[0]["constant"], floor))
            found.append(sum(areas) / len(areas))
        return max(found)


def finished(line: Mapping[str, Any] | None, limit: float) -> bool:
    """Whether a run needs no more doing; one that was stopped is tried again where it may take longer."""
    return line is not None and not line.get("limit", limit) < limit


def small(options: dict[str, Any], method: Method) -> dict[str, Any]:
    """Options of a run that takes no time."""
    found = options | ({"rounds": SMOKE["rounds"]} if "rounds" in options else {})
    if method.name == "Frappe":  # which has a network of its own, on top
        found["adjustment"] = {"module": "linear"}
    networks = {"model", "features", "adjustment"} & set(found)
    return found | {name: found[name] | {"epochs": SMOKE["epochs"]} for name in networks}
