"""Read COMPAS (ProPublica): a commercial risk score of defendants, and whether they were arrested again."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from optfair.datasets.reading import LoadRequest, RawDataset, check_columns, parsing
from optfair.datasets.tables import encode_table, name_codes, select_rows

CONTENT = "ProPublica's compas-scores-two-years"
COUNTS = ["age", "priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count"]
REQUIRED = [
    *COUNTS, "sex", "race", "c_charge_degree", "days_b_screening_arrest", "is_recid", "score_text", "two_year_recid",
]  # fmt: skip
SCORES = {"Low": "0 low", "Medium": "1 medium", "High": "2 high"}
LABELS = ("score_text", "two_year_recid")
RACES = ("African-American", "Caucasian", "Hispanic")


def compas(request: LoadRequest, label: str = "score_text") -> RawDataset:
    """Read the score in three classes, or two_year_recid, by race (4 groups) or sex, 6,172 people.

    label : "score_text", the risk score; or "two_year_recid", whether there was a new offence within two years.
    """
    if label not in LABELS:
        raise ValueError(f"label={label!r}: must be one of {', '.join(map(repr, LABELS))}.")
    frame, path = _read(request)
    check_columns(frame.columns, REQUIRED, path, CONTENT)
    with parsing(path, CONTENT):
        frame = _filter(frame)
        X = frame[COUNTS].astype(float)
        if label == "score_text":
            y = frame["score_text"].map(SCORES).rename("score")
        else:
            y = name_codes(frame["two_year_recid"].to_numpy().astype(int), ("no", "yes"), "two_year_recid")
    X["c_charge_degree=F"] = frame["c_charge_degree"].eq("F")
    race, female = frame["race"].where(frame["race"].isin(RACES), "other"), frame["sex"].eq("Female")
    levels = []
    if request.sensitive == "race":
        groups, text = race, "Race is not among the features; sex is."
        X["sex=Female"] = female
    else:
        groups = name_codes(female.to_numpy().astype(int), ("male", "female"), "sex")
        X["race"], text, levels = race, "Sex is not among the features; race is.", ["race"]
    rows = request.sample(len(frame))
    preparation = (
        "ProPublica's filters: arrested within 30 days of the screening, is_recid recorded, no ordinary traffic "
        'offences (c_charge_degree "O"), with a score. Asian, Native American and Other form one group, "other". '
        "Features: age, counts of prior and juvenile offences, and degree of the charge; none reveals score or "
        f"outcome. {text}"
    )
    return RawDataset(encode_table(X, levels, rows), select_rows(y, rows), select_rows(groups, rows), preparation)


def _filter(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that pass ProPublica's filters; raise if there are none."""
    days = pd.to_numeric(frame["days_b_screening_arrest"])
    passing = days.between(-30, 30) & (frame["is_recid"] != -1) & (frame["c_charge_degree"] != "O")
    passing &= frame["score_text"].isin(list(SCORES))  # "N/A" is no score
    if not passing.any():
        raise ValueError("no row passes the filters")
    return frame[passing].reset_index(drop=True)


def _read(request: LoadRequest) -> tuple[pd.DataFrame, Path]:
    """Read the published table, or the same table as a Parquet file of $OPTFAIR_DATA."""
    if (substitute := request.substitute()) is not None:
        return request.read_parquet(substitute), substitute
    path = request.obtain()
    with parsing(path, "a CSV table"):
        return pd.read_csv(path), path
