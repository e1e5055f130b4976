"""Read the American Community Survey of 2018: income (the paper's task), and stand-ins from other extracts."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from optfair.datasets import store
from optfair.datasets.entries import STATES
from optfair.datasets.reading import LoadRequest, RawDataset, check_columns, parsing
from optfair.datasets.tables import FIFTHS, encode_table, left_closed_fifths, name_codes, select_rows
from optfair.errors import DataFileError

FEATURES = ["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P"]  # of ACSIncome (folktables)
ONE_HOT = ["COW", "SCHL", "MAR", "SEX"]
# RAC1P, codes 1..9.
RACES = ("white", "black", "AIAN", "AIAN", "AIAN", "asian+NHOPI", "asian+NHOPI", "other+mix", "other+mix")
SCHOOL_LEVELS = ("0 no diploma", "1 high school", "2 some college", "3 bachelor", "4 higher")
FEATURES_TEXT = (
    "The features are those of ACSIncome. Class of worker, education, marital status and sex are one-hot; age, hours, "
    "occupation, place of birth and relationship are their codes, not standardised; a missing value is -1."
)


def income(request: LoadRequest, states: Sequence[str] | None = None) -> RawDataset:
    """Read ACSIncome: fifths of PINCP by race (5 groups) or sex, 1,664,500 people of 50 states and Puerto Rico.

    states : letters such as ["AL", "PR"] select these states only. The fifths are then those of their people.
    """
    selection = _check_states(states)
    files = [request.entry.files[list(STATES).index(state)] for state in selection]
    paths = store.obtain_all(files, download=request.download)
    parts = [_read_state(path, f"psam_p{STATES[state]}.csv") for state, path in zip(selection, paths, strict=True)]
    frame = pd.concat(parts, ignore_index=True)
    if frame.empty:
        raise DataFileError(f"{paths[0].parent}: no row of the files passes the filters; are they the published ones?")
    codes, edges = left_closed_fifths(frame.pop("PINCP").to_numpy())
    states_text = "" if states is None else f" States: {', '.join(selection)}."
    preparation = (
        "The filter of folktables (older than 16, income above 100 dollars, hours worked above 0, weight at least 1). "
        f"Classes: fifths of PINCP, {_edges_text(edges)}. {FEATURES_TEXT}{states_text}"
    )
    return _with_income_features(frame, name_codes(codes, FIFTHS, "income"), request, preparation)


def income_binary(request: LoadRequest) -> RawDataset:
    """Read income above 50,000 dollars by race (5 groups) or sex, 1,121,894 people of 46 states, as in `income`."""
    frame = request.parquet(columns=[*FEATURES, "PINCP_gt_50k"])
    y = name_codes(frame.pop("PINCP_gt_50k").to_numpy().astype(int), ("<=50K", ">50K"), "income")
    return _with_income_features(frame, y, request, f"The filter of folktables. {FEATURES_TEXT}")


def education(request: LoadRequest) -> RawDataset:
    """Read education (SCHL in 5 levels) by race (5 groups) or sex, 1,121,894 people of 46 states."""
    frame = request.parquet(columns=[*FEATURES, "PINCP_gt_50k"])  # without STATE: 46 more columns add little
    codes = np.searchsorted([16, 18, 21, 22], frame.pop("SCHL").to_numpy(), side="right")
    y = name_codes(codes, SCHOOL_LEVELS, "education")
    race, sex = _race(frame.pop("RAC1P")), frame["SEX"]
    levels = ["COW", "MAR", "SEX", "RELP", "OCCP", "POBP"]
    frame["OCCP"] //= 500  # 20 coarse blocks of the occupation code
    frame["POBP"] //= 100  # US, Europe, Asia, Americas, Africa, Oceania: a strong proxy of race, kept on purpose
    groups, levels, text = _groups(frame, race, sex, "SEX", levels, request)
    rows = request.sample(len(frame))
    X = encode_table(frame, levels, rows, dtype=np.float32)
    preparation = (
        "The filter of folktables. Classes: SCHL below 16, 16 to 17, 18 to 20, 21, from 22. One-hot: class of worker, "
        "marital status, sex, relationship, occupation in blocks of 500 codes, place of birth in blocks of 100; age, "
        f"hours and income > 50K are numbers. {text}"
    )
    return RawDataset(X, select_rows(y, rows), select_rows(groups, rows), preparation, request.entry.stand_in_for)


def government(request: LoadRequest) -> RawDataset:
    """Read fifths of the salary of government employees by race (5 groups) or sex, 204,309 people."""
    frame = request.parquet()
    codes, edges = left_closed_fifths(frame.pop("salary").to_numpy())
    y = name_codes(codes, FIFTHS, "salary")
    pooled = {"asian": "asian+NHOPI", "NHOPI": "asian+NHOPI", "other": "other+mix", "mix": "other+mix"}
    race, sex = frame.pop("race").astype(str).replace(pooled), frame["sex"].map({"male": 1, "female": 2})
    # All other columns stay. Hispanic origin, citizenship, nativity and English are proxies of race but do not state
    # it; no column is derived from the salary (hours and weeks worked are separate questions).
    frame["occupation"] = frame["occupation"].astype(str).str[:2]  # major SOC group: 518 detailed codes are too many
    frame["industry"] = frame["industry"].astype(str).str[:2]  # NAICS sector, of 259 detailed codes
    frame["education_level"] = frame["education_level"].clip(lower=15)  # below: no high-school diploma, few rows each
    frame["children_unknown"] = frame["children"] < 0  # -1 is a code, not a count
    frame["children"] = frame["children"].clip(lower=0)
    numbers = ["age", "family_size", "children", "children_unknown", "english_level", "hours_worked", "weeks_worked"]
    levels = [column for column in frame if column not in numbers]
    groups, levels, text = _groups(frame, race, sex, "sex", levels, request)
    rows = request.sample(len(frame))
    X = encode_table(frame, levels, rows, dtype=np.float32)
    preparation = (
        f"Classes: fifths of the salary, {_edges_text(edges)}. Occupation is given by its major group and industry by "
        "its sector. All columns that are not numbers are one-hot. Education below a high-school diploma is one "
        f"level. {text}"
    )
    return RawDataset(X, select_rows(y, rows), select_rows(groups, rows), preparation, request.entry.stand_in_for)


def _edges_text(edges: np.ndarray) -> str:
    return f"edges {', '.join(f'{edge:,.0f}' for edge in edges)} dollars, left-closed"


def _with_income_features(frame: pd.DataFrame, y: pd.Series, request: LoadRequest, preparation: str) -> RawDataset:
    """Return the features of ACSIncome with the classes y."""
    race, sex = _race(frame.pop("RAC1P")), frame["SEX"]
    groups, levels, text = _groups(frame, race, sex, "SEX", ONE_HOT, request)
    rows = request.sample(len(frame))
    X = encode_table(frame, levels, rows, dtype=np.float32)
    y, groups = select_rows(y, rows), select_rows(groups, rows)
    return RawDataset(X, y, groups, f"{preparation} {text}", request.entry.stand_in_for)


def _groups(
    frame: pd.DataFrame, race: pd.Series, sex: pd.Series, sex_column: str, levels: list[str], request: LoadRequest
) -> tuple[pd.Series, list[str], str]:
    """Return (groups, columns to encode one-hot, a sentence); of sex and race, the one not sensitive is a feature."""
    if request.sensitive == "race":
        return race.rename("race"), levels, "Race is not among the features; sex is."
    del frame[sex_column]
    frame["race"] = race
    groups = name_codes(sex.to_numpy().astype(int) - 1, ("male", "female"), "sex")
    levels = [*(name for name in levels if name != sex_column), "race"]
    return groups, levels, "Sex is not among the features; race is."


def _race(codes: pd.Series) -> pd.Series:
    if not codes.between(1, len(RACES)).all():  # a code of 0 would otherwise count from the end
        raise DataFileError(f"RAC1P: has codes other than 1 to {len(RACES)}; is it the published file?")
    return name_codes(codes.to_numpy().astype(int) - 1, RACES, "race")


def _check_states(states: Sequence[str] | None) -> list[str]:
    """Return the states to read, each once; None stands for all of them."""
    if states is None:
        return list(STATES)
    selection = [states] if isinstance(states, str) else list(states)
    for state in selection:
        if state not in STATES:
            raise ValueError(f"states={states!r}: {state!r} is not one of {', '.join(STATES)}.")
    if not selection or len(set(selection)) < len(selection):
        raise ValueError(f"states={states!r}: must name at least one state, each once.")
    return selection


def _read_state(path: Path, member: str) -> pd.DataFrame:
    """Read the people of one state who pass the filter of folktables: PINCP and the features, missing values as −1."""
    columns = [*FEATURES, "PINCP", "PWGTP"]
    content = f"the archive of the US Census Bureau with {member}"
    with parsing(path, content), zipfile.ZipFile(path) as archive:
        if member not in archive.namelist():
            raise DataFileError(f"{path}: does not hold {member}; must be {content}.")
        with archive.open(member) as file:
            header = pd.read_csv(file, nrows=0, skipinitialspace=True).columns
        check_columns(header, columns, path, content)
        with archive.open(member) as file:
            frame = pd.read_csv(file, usecols=columns, skipinitialspace=True)
        # A word in a column of codes would otherwise raise far from here.
        frame = frame.apply(pd.to_numeric)
    passing = (frame["AGEP"] > 16) & (frame["PINCP"] > 100) & (frame["WKHP"] > 0) & (frame["PWGTP"] >= 1)
    frame = frame.loc[passing, [*FEATURES, "PINCP"]].fillna(-1)
    # Codes fit in 32 bits, which halves the memory of 1.66 million rows.
    return frame.astype({**dict.fromkeys(FEATURES, np.int32), "PINCP": np.float64})
