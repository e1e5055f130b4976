"""COMPAS: what a commercial risk score said of defendants, and who was arrested again (ProPublica)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from optfair.datasets import store
from optfair.datasets.tables import (
    Loaded,
    Request,
    named,
    need_columns,
    numbers_and_levels,
    read_parquet,
    reading,
    take,
)

COUNTS = ["age", "priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count"]
WANTED = [*COUNTS, "sex", "race", "c_charge_degree", "days_b_screening_arrest", "is_recid", "score_text"]
SCORES = {"Low": "0 low", "Medium": "1 medium", "High": "2 high"}
LABELS = ("score_text", "two_year_recid")
RACES = ("African-American", "Caucasian", "Hispanic")


def compas(request: Request, label: str = "score_text") -> Loaded:
    """The score in three classes, or two_year_recid, by race (4 groups) or sex, 6,172 people.

    label : "score_text", what the score said; or "two_year_recid", whether there was a new offence within two years.
    """
    if label not in LABELS:
        raise ValueError(f"label={label!r}: must be one of {', '.join(map(repr, LABELS))}.")
    frame, path = _read(request)
    need_columns(frame.columns, [*WANTED, "two_year_recid"], path, "ProPublica's compas-scores-two-years")
    with reading(path, "ProPublica's compas-scores-two-years"):
        days = pd.to_numeric(frame["days_b_screening_arrest"])
        keep = days.between(-30, 30) & (frame["is_recid"] != -1) & (frame["c_charge_degree"] != "O")
        keep &= frame["score_text"].isin(list(SCORES))  # "N/A" is no score
        frame = frame[keep].reset_index(drop=True)
        if frame.empty:
            raise ValueError("nobody passes the filters")
        X = frame[COUNTS].astype(float)
        if label == "score_text":
            y = frame["score_text"].map(SCORES).rename("score")
        else:
            y = named(frame["two_year_recid"].to_numpy().astype(int), ("no", "yes"), "two_year_recid")
    X["c_charge_degree=F"] = frame["c_charge_degree"].eq("F")
    race, female = frame["race"].where(frame["race"].isin(RACES), "other"), frame["sex"].eq("Female")
    levels = []
    if request.sensitive == "race":
        groups, other = race, "Race is not among the features; sex is."
        X["sex=Female"] = female
    else:
        groups = named(female.to_numpy().astype(int), ("male", "female"), "sex")
        X["race"], other, levels = race, "Sex is not among the features; race is.", ["race"]
    rows = request.sample(len(frame))
    done = (
        "ProPublica's filters: arrested within 30 days of the screening, is_recid known, no ordinary traffic offences "
        '(c_charge_degree "O"), a score given. Asian, Native American and Other are one group, "other". Features: age, '
        f"counts of prior and juvenile offences, degree of the charge; nothing that states score or outcome. {other}"
    )
    return Loaded(numbers_and_levels(X, levels, rows), take(y, rows), take(groups, rows), done)


def _read(request: Request) -> tuple[pd.DataFrame, Path]:
    """The table as published; or the same one as a Parquet file of $OPTFAIR_DATA."""
    own = store.local(request.entry.local_files[0])
    if own is not None and store.find(request.entry.files[0]) is None:
        return read_parquet(own, "load('compas')"), own
    path = request.obtain()
    with reading(path, "a CSV table"):
        return pd.read_csv(path), path
