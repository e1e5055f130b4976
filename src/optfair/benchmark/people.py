"""Who is learned from and who is judged on: the paper's 60/40 split of the people of one experiment, for one seed.

part "test"         train = 60 %, judged on the other 40 %
part "validation"   train = the first three quarters of those 60 %, judged on the fourth: nobody of the test part
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.benchmark.ledger import alone
from optfair.datasets import load, make_fair_classification
from optfair.datasets.registry import entry, where
from optfair.errors import DataFileError, need_extra
from optfair.files import replacing

TRAIN, VALIDATION = 0.6, 0.25
SMALL = 30  # people of a group and class, below which its rates say nothing
HERE = ("in the package", "$OPTFAIR_DATA", "cache")
SMOKE_SIZE = 16  # of pictures
MADE_UP = "made up"  # what --smoke takes where the people are not there
SMOKE_MADE: dict[str, Any] = {"n_features": 192, "n_classes": 4, "n_groups": 2, "random_state": 0}


@dataclass(frozen=True)
class DataPlan:
    """A line of data.toml. sources : arguments of `load`, the original first. made : of `make_fair_classification`.

    truth : judge also by the true posteriors. tuned : whether trials choose settings; tuned_on : by which people.
    """

    name: str
    title: str
    seeds: Sequence[int]
    model: Mapping[str, Any]
    sources: Sequence[Mapping[str, Any]] = ()
    made: Mapping[str, Any] | None = None
    truth: bool = False
    tuned: bool = True
    tuned_on: str | None = None
    features_of: str | None = None
    trials: Mapping[str, Sequence[Mapping[str, Any]]] | None = None

    def arguments(self, source: str) -> dict[str, Any]:
        """Of the function that gives the people of this source, without its name."""
        if self.made is not None:
            return dict(self.made)
        found = next((dict(own) for own in self.sources if own["name"] == source), {})
        return {name: value for name, value in found.items() if name != "name"}

    def vary(self, values: Mapping[str, Sequence[Any]]) -> Iterator[DataPlan]:
        """One plan per value of each argument of ``made``, the others as they are."""
        assert self.made is not None
        for argument, some in values.items():
            for value in some:
                made = {**self.made, argument: value}
                shape = f"{made['n_samples']} x {made['n_classes']} x {made['n_groups']}"
                yield replace(self, name=f"{self.name} {shape}", made=made)


@dataclass(frozen=True, eq=False)
class People:
    """X, y (n,) and group (n,) of one part; names as text."""

    X: Any
    y: np.ndarray
    group: np.ndarray


@dataclass(frozen=True, eq=False)
class Task:
    """train, judged : the two parts. stand_in : for what, or None. world : the truth, of made-up people."""

    train: People
    judged: People
    stand_in: str | None
    world: Any = None


def source_of(plan: DataPlan, *, smoke: bool = False) -> str:
    """The name of the people that are there, the original before its stand-in."""
    if plan.made is not None:
        return MADE_UP
    for source in plan.sources:
        if where(entry(source["name"])) in HERE:
            return str(source["name"])
    if smoke:
        return MADE_UP
    names = [str(source["name"]) for source in plan.sources]
    how = " or ".join(f"`optfair datasets {name}`" for name in names)
    raise DataFileError(
        f"{plan.title}: {' or '.join(names)} is neither in $OPTFAIR_DATA nor in the cache; {how} says how to get it."
    )


def task(plan: DataPlan, run: Any, cache: Path) -> Task:
    """The people of a run. cache : folder of what is worth keeping (features of networks)."""
    if plan.made is not None:
        return _made(plan, run.seed, run.part, run.rows)
    X, y, group, stand_in = _whole(json.dumps(_source(plan, run)), run.rows)
    order = np.random.RandomState(1 + run.seed).permutation(len(y))  # the split of the authors' code
    train, judged = _parts(order, TRAIN, run.part)
    if plan.features_of:
        settings = run.options["features"]
        own = {name: value for name, value in settings.items() if name != "revision"} | {"random_state": run.seed}
        X = _features(X, y, train, own, cache / f"{_name(run, settings)}.npy")
    parts = [People(X.iloc[part] if hasattr(X, "iloc") else X[part], y[part], group[part]) for part in (train, judged)]
    return Task(parts[0], parts[1], stand_in)


def _source(plan: DataPlan, run: Any) -> dict[str, Any]:
    if run.source == MADE_UP:  # as a table, or as pictures
        return {"name": MADE_UP, "images": any(source.get("images", False) for source in plan.sources)}
    given = {"name": run.source, **run.people}
    return given | ({"size": SMOKE_SIZE} if run.rows and "size" in given else {})


def _parts(order: np.ndarray, share: float, part: str) -> tuple[np.ndarray, np.ndarray]:
    cut = int(share * len(order))
    if part == "test":
        return order[:cut], order[cut:]
    kept = int((1 - VALIDATION) * cut)
    return order[:kept], order[kept:cut]


@lru_cache(maxsize=2)
def _whole(source: str, rows: int | None) -> tuple[Any, np.ndarray, np.ndarray, str | None]:
    """(X, y, group, what they stand in for), in the order of the source."""
    given = json.loads(source)
    name, images = given.pop("name"), given.get("images", False)
    if name == MADE_UP:
        people = make_fair_classification(rows or 1_000, **SMOKE_MADE)
        X = people.X.to_numpy(np.float32).reshape(-1, 3, 8, 8) if images else people.X
        return X, _text(people.y), _text(people.sensitive_features), MADE_UP
    if "sensitive" in given:
        given["sensitive"] = tuple(given["sensitive"])
    data = load(name, rows=rows, download=False, **given)
    X = _pixels(data.X) if images else data.X.astype(np.float32)
    return X, _text(data.y), _text(data.sensitive_features), data.stand_in


def _text(values: pd.Series | pd.DataFrame) -> np.ndarray:
    """One name a person; of several attributes "a × b"."""
    if isinstance(values, pd.DataFrame):
        return np.array([" × ".join(map(str, row)) for row in values.itertuples(index=False)])
    return values.to_numpy(dtype=str)


def _pixels(images: Any) -> np.ndarray:
    """(n, 3, size, size) float32, normalised."""
    from optfair.nn.images import normalise

    return np.stack([normalise(images.picture(row)).numpy() for row in range(len(images))])


def _made(plan: DataPlan, seed: int, part: str, rows: int | None) -> Task:
    """Half of the made-up people are judged on; for the validation part, another half of the first."""
    made = dict(plan.made or {})
    made["n_samples"] = min(made["n_samples"], rows or made["n_samples"])
    people = make_fair_classification(**made, random_state=seed)
    order = np.arange(len(people))
    train, judged = _parts(order, 0.5, part)
    parts = [people.take(rows) for rows in (train, judged)]
    as_people = [People(own.X, _text(own.y), _text(own.sensitive_features)) for own in parts]
    return Task(as_people[0], as_people[1], None, people.world)


# -- features of a frozen network --------------------------------------------------------------------------
def _name(run: Any, settings: Mapping[str, Any]) -> str:
    told = json.dumps([run.source, dict(run.people), run.seed, run.part, run.rows, settings], sort_keys=True)
    return f"features-{run.data}-{run.seed}-{run.part}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"


def _features(X: np.ndarray, y: np.ndarray, train: np.ndarray, settings: Mapping[str, Any], file: Path) -> np.ndarray:
    """What a network, trained on the training people, hands to its last layer; of everybody, (n, 256)."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with alone(file.with_suffix(".lock")):  # the other processes wait for the one that trains
        if not file.exists():
            found = _train_features(X, y, train, settings)
            with replacing(file) as temporary, open(temporary, "wb") as handle:
                np.save(handle, found, allow_pickle=False)
    return np.asarray(np.load(file, allow_pickle=False))


def _train_features(X: np.ndarray, y: np.ndarray, train: np.ndarray, settings: Mapping[str, Any]) -> np.ndarray:
    torch = need_extra("torch", "optfair bench")
    from optfair.nn import TorchClassifier

    model = TorchClassifier(**settings).fit(X[train], y[train])
    below = torch.nn.Sequential(*list(model.module_)[:-2]).eval()  # without Dropout and Linear
    with torch.no_grad():
        blocks = [below(torch.tensor(X[k : k + 512])).numpy() for k in range(0, len(X), 512)]
    return np.concatenate(blocks)
