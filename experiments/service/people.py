"""Make a table of people with texts and gaps, and a model of it: what a service is asked about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair import OptFairPost
from optfair.datasets import load

N_FITTED = 10_000
TOLERANCE = 0.02
GAPS = 0.05  # of the hours: Adult has gaps in texts only
AGES = (17.0, 90.0)
MODEL = "model.skops"


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A saved model, and people whom it was not fitted on, with its own answers for them.

    bodies : of requests about one person each. answers : for them, by `predict` in this process.
    """

    path: Path
    bodies: list[dict[str, Any]]
    answers: list[str]


def read_table(seed: int = 0) -> tuple[pd.DataFrame, pd.Series, pd.DataFrame]:
    """Return Adult's people with numbers, texts and gaps; their occupation; their sex and race."""
    data = load("adult-occupation")
    table = data.X[[name for name in data.X.columns if "=" not in name]].copy()
    table["age"] = (AGES[0] + (AGES[1] - AGES[0]) * table["age"]).round()
    for text in sorted({name.partition("=")[0] for name in data.X.columns if "=" in name}):
        columns = [name for name in data.X.columns if name.startswith(f"{text}=")]
        levels = np.array([name.partition("=")[2] for name in columns], dtype=object)
        if len(levels) > 1:
            table[text] = levels[data.X[columns].to_numpy().argmax(axis=1)]
            table.loc[table[text] == "?", text] = None
        else:
            table[text] = data.X[columns[0]] == 1
    gaps = np.random.default_rng(seed).random(len(table)) < GAPS
    table["hours-per-week"] = table["hours-per-week"].mask(gaps)
    return table, data.y, data.sensitive_features


def make_model(folder: Path, n_people: int, n_fitted: int = N_FITTED) -> ServedModel:
    """Fit a model, save it in a folder, and ask it about people it has not seen."""
    table, y, groups = read_table()
    model = OptFairPost(tolerance=TOLERANCE, cv=2, random_state=0)
    model.fit(table[:n_fitted], y[:n_fitted], sensitive_features=groups[:n_fitted])
    model.path()  # for /explain
    model.save(folder / MODEL)
    people = table.iloc[n_fitted : n_fitted + n_people]
    keys = [f"person {k}" for k in range(len(people))]
    answers = model.predict(people, keys=keys).tolist()
    return ServedModel(
        folder / MODEL, [request_body(*pair) for pair in zip(records(people), keys, strict=True)], answers
    )


def records(people: pd.DataFrame) -> list[dict[str, Any]]:
    """Return people as JSON has them; missing values as null."""
    objects = people.astype(object).where(people.notna(), None)
    return [{str(name): value for name, value in record.items()} for record in objects.to_dict("records")]


def request_body(features: dict[str, Any], key: str) -> dict[str, Any]:
    """Return a request about one person."""
    return {"features": features, "key": key}
