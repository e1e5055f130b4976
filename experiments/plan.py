"""Turn the plans (plans/*.toml) into runs; all that fixes a run is written in it.

A run is one fit, scored once. Settings that tuning chooses are in the run as the values chosen, so a plan cannot be
laid out before its trials have been run: `Plan.runs` then raises `TrialsNeeded` with the missing runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

from experiments.areas import area
from experiments.catalogue import Experiment, MethodPlan, read_data, read_methods
from experiments.data_plan import SYNTHETIC, DataPlan, available_source
from experiments.ledger import RUN_TYPES
from optfair.baselines.registry import Method

# Trials are compared by these criteria, at the second and the fourth value of the knob's grid: a single point would
# favour settings that make the knob stronger over settings that make the method better.
TUNING_CRITERIA, TUNING_PLACES = ("dp", "eo"), (1, 3)
PLAIN, JOINT = "ERM", "Posterior"  # what methods start from: plain training, or the argmax of the joint posterior
NO_BOUND = 1.0  # a tolerance that no rule exceeds
# What --smoke does to everything: a run takes seconds, and its results mean nothing.
SMOKE_ROWS, SMOKE_EPOCHS, SMOKE_ROUNDS = 800, 2, 3
SMOKE_MODEL = {"module": "linear"}  # where a class would take its own, larger model
RUN_KEYS = {key: "load_arguments" if key == "people" else key for key in RUN_TYPES}  # keys of a line to attributes


class TrialsNeeded(Exception):
    """Runs that must be done before the plan can be laid out."""

    def __init__(self, runs: list[Run]) -> None:
        super().__init__(f"{len(runs)} trials are needed first")
        self.runs = runs


class Setting(NamedTuple):
    """What an experiment asks for; a run is a setting at one seed. value : of the knob; None: it has none."""

    data: str
    method: str
    criterion: str
    value: float | None
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One fit and its scores. part : "test", or "validation" of the training rows, for trials.

    data, method : names in data.toml and methods.toml. source : where the rows were loaded from; load_arguments : of
    `load` or `make_fair_classification`. value : of the knob. rows : the size of the sample, None for all rows.
    options : of the class; under "model" those of the network, under "features" those of the network frozen below it,
    under "adjustment" those of the one on top that FRAPPÉ fits; under "path" the rules that `walk` solves for.
    """

    data: str
    source: str
    method: str
    criterion: str
    value: float | None
    seed: int
    part: str = "test"
    rows: int | None = None
    load_arguments: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """Return the same text for the same run."""
        return json.dumps(self.as_dict(), sort_keys=True)

    def as_dict(self) -> dict[str, Any]:
        """Return the run as its line has it."""
        return {key: getattr(self, name) for key, name in RUN_KEYS.items()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the run of a line."""
        return cls(**{RUN_KEYS[key]: value for key, value in content.items()})


class Plan:
    """All experiments, for the data that are available.

    lines : of the ledger, by `Run.key`; they decide trials. smoke : everything small. only : names of data, or none.
    finished : the data are those of the lines, whatever is available. limit : trials stopped before it are repeated.
    """

    def __init__(
        self,
        lines: Mapping[str, Any],
        *,
        smoke: bool = False,
        only: tuple[str, ...] = (),
        finished: bool = False,
        limit: float = 0.0,
    ) -> None:
        self.lines, self.smoke, self.only, self.limit = lines, smoke, only, limit
        self.data = read_data()
        self.methods = read_methods()
        self._sources: dict[str, str] = self._sources_of_lines() if finished else {}
        self._choices: dict[tuple[str, str], Mapping[str, Any]] = {}
        for name in only:
            if not self.family(name):
                families = ", ".join(dict.fromkeys(plan.split()[0] for plan in self.data))
                raise ValueError(f"--data {name}: there is no such data; there are {families}.")

    def _sources_of_lines(self) -> dict[str, str]:
        pairs = {(line["run"]["data"], line["run"]["source"]) for line in self.lines.values()}
        sources: dict[str, str] = {}
        for name, plan in self.data.items():
            candidates = [*(str(source["name"]) for source in plan.sources), SYNTHETIC]
            used = [source for source in candidates if (name, source) in pairs]
            sources[name] = (used or candidates)[0]  # of the original, where no line says: its runs have no line
        return sources

    # -- the runs of an experiment -------------------------------------------------------------------------
    def runs(self, experiment: Experiment) -> list[Run]:
        """Return every run of an experiment once, or raise `TrialsNeeded`."""
        runs: dict[str, Run] = {}
        trials: dict[str, Run] = {}
        for setting in self.settings(experiment):
            try:
                for seed in self.seeds(self.data[setting.data]):
                    run = self.run(setting, seed)
                    runs[run.key] = run
            except TrialsNeeded as needed:
                trials |= {run.key: run for run in needed.runs}
        if trials:
            raise TrialsNeeded(list(trials.values()))
        return list(runs.values())

    def settings(self, experiment: Experiment) -> Iterator[Setting]:
        """Yield what an experiment asks for, in the order of its tables."""
        selected = {member for name in self.only or self.data for member in self.family(name)}
        for table in experiment.tables:
            members = [member for name in table["data"] for member in self.family(name)]
            for data in (name for name in members if name in selected):
                for name in table["methods"]:
                    method = self.methods[name]
                    path = {"path": table["path"]} if "path" in table else {}
                    for options in ({**options, **path} for options in table.get("options", [{}])):
                        if method.anchor:
                            yield Setting(data, name, "dp", NO_BOUND, options)
                        elif method.kind.knob is None:
                            yield Setting(data, name, "dp", None, options)
                        else:
                            for criterion in table["criteria"][: 1 if self.smoke else None]:
                                for value in self._values(data, method, table["values"]):
                                    yield Setting(data, name, criterion, value, options)

    def family(self, name: str) -> list[str]:
        """Return the data of this name, or those of the family of this name."""
        members = [member for member in self.data if member == name or member.startswith(f"{name} ")]
        return members[:2] if self.smoke else members

    def _values(self, data: str, method: MethodPlan, values: Any) -> Sequence[float | None]:
        if values == "default":
            return [None]
        grid = method.kind.grid if self.data[data].installed else method.grid
        if values == "middle":
            return grid[len(grid) // 2 :][:1]
        grid = grid if values == "grid" else values
        return grid[len(grid) // 2 :][:1] if self.smoke else grid

    def seeds(self, data: DataPlan) -> Sequence[int]:
        """Return the seeds of the runs on these data."""
        return data.seeds[: min(2, max(1, len(data.seeds) // 2))] if self.smoke else data.seeds

    def run(self, setting: Setting, seed: int, *, part: str = "test", trial: Mapping[str, Any] | None = None) -> Run:
        """Return the run of a setting at a seed. trial : its settings; None: those that tuning chose."""
        data, method = self.data[setting.data], self.methods[setting.method]
        if data.installed:
            options = dict(setting.options) | ({} if data.model is None else {"model": dict(data.model)})
        else:
            options = self._options(setting, trial)
        if data.features_of:
            revision = self.methods[PLAIN].revision
            options["features"] = self.network(data.features_of) | ({"revision": revision} if revision != 1 else {})
        rows = data.rows
        if self.smoke:
            options, rows = shrink(options, method.kind, installed=data.installed), SMOKE_ROWS
        source = self.source(setting.data)
        name, kind, criterion, value, _ = setting
        return Run(name, source, kind, criterion, value, seed, part, rows, data.load_arguments(source), options)

    def _options(self, setting: Setting, trial: Mapping[str, Any] | None) -> dict[str, Any]:
        data, method = self.data[setting.data], self.methods[setting.method]
        choice = self.choice(setting.data, setting.method) if trial is None else trial
        # Plain training is the base of all others; of itself only the trial counts.
        base = dict(data.model or {}) if setting.method == PLAIN else self.network(setting.data)
        model = base | dict(choice.get("model", {}))
        settings = {name: value for name, value in choice.items() if name != "model"}
        revision = {"revision": method.revision} if method.revision != 1 else {}
        return {**method.options, **settings, **setting.options, "model": model, **revision}

    def source(self, data: str) -> str:
        """Return where the rows come from, decided once."""
        if data not in self._sources:
            self._sources[data] = available_source(self.data[data], smoke=self.smoke)
        return self._sources[data]

    # -- tuning --------------------------------------------------------------------------------------------
    def network(self, data: str) -> dict[str, Any]:
        """Return the settings chosen for plain training on these data."""
        return dict(self.data[data].model or {}) | dict(self.choice(data, PLAIN).get("model", {}))

    def trials(self, data: str, method: str) -> tuple[Mapping[str, Any], ...]:
        """Return what is tried for a method on these data."""
        plan = self.data[data]
        trials = self.methods[method].trials if plan.trials is None else tuple(plan.trials.get(method, ()))
        return trials[:2] if self.smoke else trials

    def choice(self, data: str, method: str) -> Mapping[str, Any]:
        """Return the best trial by the validation part of the first seed's training rows."""
        tuned_on, method = self.data[data].tuned_on or data, self.methods[method].like
        if (data, method) in self._choices:
            return self._choices[data, method]
        trials = self.trials(tuned_on, method)
        if not self.data[data].tuned or len(trials) < 2:
            return trials[0] if trials and self.data[data].tuned else {}
        runs = self.tuning_runs(tuned_on, method)
        missing = [run for run in runs if not is_finished(self.lines.get(run.key), self.limit)]
        if missing:
            raise TrialsNeeded(missing)
        scores = [self.trial_score(tuned_on, method, trial) for trial in trials]
        best = trials[max(range(len(trials)), key=lambda k: scores[k])]  # the first of the best
        self._choices[data, method] = best  # lines are never removed
        return best

    def trial_runs(self, data: str, method: str, trial: Mapping[str, Any]) -> list[Run]:
        """Return the runs by which a trial is scored."""
        points: Sequence[tuple[str, float | None]] = [("dp", None)]  # plain training has no knob
        if method != PLAIN:
            grid = self.methods[method].grid
            points = [(c, grid[k]) for c in TUNING_CRITERIA for k in TUNING_PLACES][:: 3 if self.smoke else 1]
        seed = self.data[data].seeds[0]
        settings = [Setting(data, method, criterion, value, {}) for criterion, value in points]
        return [self.run(setting, seed, part="validation", trial=trial) for setting in settings]

    def tuning_runs(self, data: str, method: str) -> list[Run]:
        """Return all runs that choose among the trials of a method, each once."""
        runs: dict[str, Run] = {}
        for trial in self.trials(data, method):
            start = [] if method == PLAIN else [self.start_run(data, method, trial)]
            runs |= {run.key: run for run in (*self.trial_runs(data, method, trial), *start)}
        return list(runs.values())

    def start_method(self, method: str, settings: Mapping[str, Any]) -> str:
        """Return the method whose rule this one has without constraints.

        Σ_a P(Y|X) P(a|X,Y) is plain training's P(Y|X), so a factored posterior starts from plain training.
        """
        plan = self.methods[method]
        joint = plan.kind.kind == "post" and settings.get("posterior") != "factored"
        return plan.start or (JOINT if joint else PLAIN)

    def start_run(self, data: str, method: str, trial: Mapping[str, Any]) -> Run:
        """Return the run that a trial starts from, on the validation part."""
        if self.start_method(method, trial) == PLAIN:
            return self.trial_runs(data, PLAIN, self.choice(data, PLAIN))[0]
        setting = Setting(data, JOINT, "dp", NO_BOUND, {})
        return self.run(setting, self.data[data].seeds[0], part="validation", trial={})

    def trial_score(self, data: str, method: str, trial: Mapping[str, Any]) -> float:
        """Return the accuracy of plain training; else the mean area over the criteria, by the better decision."""
        lines = [self.lines[run.key] for run in self.trial_runs(data, method, trial)]
        if method == PLAIN:
            return -1.0 if "error" in lines[0] else float(lines[0]["scores"]["answers"]["accuracy"])
        start = self.lines[self.start_run(data, method, trial).key]
        if any("error" in line for line in (*lines, start)):
            return -1.0
        plain = self.lines[self.trial_runs(data, PLAIN, self.choice(data, PLAIN))[0].key]
        if "error" in plain:
            raise ValueError(f"{data}: plain training failed in every trial: {plain['error']}")
        base, means = plain["scores"]["answers"], []
        for decision in self.methods[method].decisions:
            areas = []
            for criterion in TUNING_CRITERIA:
                scores = [line["scores"][decision] for line in lines if line["run"]["criterion"] == criterion]
                scores.append(start["scores"]["answers"])
                points = [(score["violation"][criterion], score["accuracy"]) for score in scores]
                v_max, floor = base["violation"][criterion], base["floor"][criterion]
                areas.append(area(points, v_max, lines[0]["constant"], floor))
            means.append(sum(areas) / len(areas))
        return max(means)


def is_finished(line: Mapping[str, Any] | None, limit: float) -> bool:
    """Tell whether a run is done; one that was stopped is repeated where it may take longer."""
    return line is not None and not line.get("limit", limit) < limit


def shrink(options: dict[str, Any], method: Method, *, installed: bool) -> dict[str, Any]:
    """Return the options of a smoke run."""
    options = dict(options)
    if installed:
        options |= {"model": options.get("model", SMOKE_MODEL)}
        options |= {"rounds": SMOKE_ROUNDS} if method.name in ("OptFairIn", "WeightedERM") else {}
    options |= {"rounds": SMOKE_ROUNDS} if "rounds" in options else {}
    if "path" in options:  # one rule of each path
        options["path"] = {name: values[:1] for name, values in options["path"].items()}
    if method.name == "Frappe":  # which has a network of its own, on top
        options["adjustment"] = {"module": "linear"}
    for name in {"model", "features", "adjustment"} & set(options):
        options[name] = options[name] | ({"epochs": SMOKE_EPOCHS} if "module" in options[name] else {})
    return options
