"""The American Community Survey of 2018: income (the paper's task), and stand-ins for it from other extracts."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from optfair.datasets import store
from optfair.datasets.entries import STATES
from optfair.datasets.tables import (
    FIFTHS,
    Loaded,
    Request,
    left_closed_fifths,
    named,
    need_columns,
    numbers_and_levels,
    reading,
    take,
)
from optfair.errors import DataFileError

FEATURES = ["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P"]  # of ACSIncome (folktables)
ONE_HOT = ["COW", "SCHL", "MAR", "SEX"]
# RAC1P, codes 1..9.
RACES = ("white", "black", "AIAN", "AIAN", "AIAN", "asian+NHOPI", "asian+NHOPI", "other+mix", "other+mix")
SCHOOL = ("0 no diploma", "1 high school", "2 some college", "3 bachelor", "4 higher")


def income(request: Request, states: Sequence[str] | None = None) -> Loaded:
    """ACSIncome: fifths of PINCP by race (5 groups), 1,664,500 people of 50 states and Puerto Rico; or by sex.

    states : letters such as ["AL", "PR"], for these states only. The fifths are then those of their people.
    """
    chosen = _states(states)
    files = [request.entry.files[list(STATES).index(state)] for state in chosen]
    paths = store.obtain_all(files, download=request.download)
    parts = [_read_state(path, f"psam_p{STATES[state]}.csv") for state, path in zip(chosen, paths, strict=True)]
    frame = pd.concat(parts, ignore_index=True)
    if frame.empty:
        raise DataFileError(f"{paths[0].parent}: nobody in the files passes the filters; are they the published ones?")
    codes, edges = left_closed_fifths(frame.pop("PINCP").to_numpy())
    whole = "" if states is None else f" States: {', '.join(chosen)}."
    done = (
        "The filter of folktables (older than 16, income above 100 dollars, hours worked above 0, weight at least 1). "
        f"Classes: fifths of PINCP, edges {', '.join(f'{edge:,.0f}' for edge in edges)} dollars, left-closed. "
        f"{_FEATURES_TEXT}{whole}"
    )
    return _income_features(frame, named(codes, FIFTHS, "income"), request, done)


def income_binary(request: Request) -> Loaded:
    """Income above 50,000 dollars by race (5 groups) or sex, 1,121,894 people of 46 states, features as in `income`."""
    frame = request.parquet(columns=[*FEATURES, "PINCP_gt_50k"])
    y = named(frame.pop("PINCP_gt_50k").to_numpy().astype(int), ("<=50K", ">50K"), "income")
    done = f"The filter of folktables. {_FEATURES_TEXT}"
    return _income_features(frame, y, request, done)


def education(request: Request) -> Loaded:
    """Education (SCHL in 5 levels) by race (5 groups) or sex, 1,121,894 people of 46 states."""
    frame = request.parquet(columns=[*FEATURES, "PINCP_gt_50k"])  # without STATE: 46 more columns for little
    y = named(np.searchsorted([16, 18, 21, 22], frame.pop("SCHL").to_numpy(), side="right"), SCHOOL, "education")
    race, sex = _race(frame.pop("RAC1P")), frame["SEX"]
    levels = ["COW", "MAR", "SEX", "RELP", "OCCP", "POBP"]
    frame["OCCP"] //= 500  # 20 coarse blocks of the occupation code
    frame["POBP"] //= 100  # US, Europe, Asia, Americas, Africa, Oceania: a strong proxy of race, kept on purpose
    groups, levels, other = _groups(frame, race, sex, "SEX", levels, request)
    rows = request.sample(len(frame))
    X = numbers_and_levels(frame, levels, rows, dtype=np.float32)
    done = (
        "The filter of folktables. Classes: SCHL below 16, 16 to 17, 18 to 20, 21, from 22. One-hot: class of worker, "
        "marital status, sex, relationship, occupation in blocks of 500 codes, place of birth in blocks of 100; age, "
        f"hours and income > 50K are numbers. {other}"
    )
    return Loaded(X, take(y, rows), take(groups, rows), done, request.entry.stand_in_for)


def government(request: Request) -> Loaded:
    """Fifths of the salary of government employees by race (5 groups) or sex, 204,309 people."""
    frame = request.parquet()
    codes, edges = left_closed_fifths(frame.pop("salary").to_numpy())
    y = named(codes, FIFTHS, "salary")
    pool = {"asian": "asian+NHOPI", "NHOPI": "asian+NHOPI", "other": "other+mix", "mix": "other+mix"}
    race, sex = frame.pop("race").astype(str).replace(pool), frame["sex"].map({"male": 1, "female": 2})
    # All the rest stays. Hispanic origin, citizenship, nativity and English are proxies of race but do not state it;
    # no column is made from the salary (hours and weeks worked are separate questions).
    frame["occupation"] = frame["occupation"].astype(str).str[:2]  # major SOC group: 518 detailed codes are too many
    frame["industry"] = frame["industry"].astype(str).str[:2]  # NAICS sector, of 259 detailed codes
    frame["education_level"] = frame["education_level"].clip(lower=15)  # below: no high-school diploma, few rows each
    frame["children_unknown"] = frame["children"] < 0  # -1 is a code, not a count
    frame["children"] = frame["children"].clip(lower=0)
    numbers = ["age", "family_size", "children", "children_unknown", "english_level", "hours_worked", "weeks_worked"]
    levels = [column for column in frame if column not in numbers]
    groups, levels, other = _groups(frame, race, sex, "sex", levels, request)
    rows = request.sample(len(frame))
    X = numbers_and_levels(frame, levels, rows, dtype=np.float32)
    done = (
        f"Classes: fifths of the salary, edges {', '.join(f'{edge:,.0f}' for edge in edges)} dollars, left-closed. "
        "Occupation by its major group and industry by its sector, one-hot as is all that is not a number; education "
        f"below a high-school diploma is one level. {other}"
    )
    return Loaded(X, take(y, rows), take(groups, rows), done, request.entry.stand_in_for)


_FEATURES_TEXT = (
    "Features of ACSIncome: class of worker, education, marital status and sex one-hot; age, hours, occupation, place "
    "of birth and relationship as their codes, not standardised; missing is -1."
)


def _income_features(frame: pd.DataFrame, y: pd.Series, request: Request, done: str) -> Loaded:
    race, sex = _race(frame.pop("RAC1P")), frame["SEX"]
    groups, levels, other = _groups(frame, race, sex, "SEX", ONE_HOT, request)
    rows = request.sample(len(frame))
    X = numbers_and_levels(frame, levels, rows, dtype=np.float32)
    return Loaded(X, take(y, rows), take(groups, rows), f"{done} {other}", request.entry.stand_in_for)


def _groups(
    frame: pd.DataFrame, race: pd.Series, sex: pd.Series, column: str, levels: list[str], request: Request
) -> tuple[pd.Series, list[str], str]:
    """(groups, columns to encode one-hot, a sentence); of sex and race, the one that is not sensitive is a feature."""
    if request.sensitive == "race":
        return race.rename("race"), levels, "Race is not among the features; sex is."
    del frame[column]
    frame["race"] = race
    groups = named(sex.to_numpy().astype(int) - 1, ("male", "female"), "sex")
    return groups, [*(name for name in levels if name != column), "race"], "Sex is not among the features; race is."


def _race(codes: pd.Series) -> pd.Series:
    if not codes.between(1, len(RACES)).all():  # before a code of 0 counts from the end
        raise DataFileError(f"RAC1P: has codes other than 1 to {len(RACES)}; is it the published file?")
    return named(codes.to_numpy().astype(int) - 1, RACES, "race")


def _states(states: Sequence[str] | None) -> list[str]:
    if states is None:
        return list(STATES)
    asked = [states] if isinstance(states, str) else list(states)
    for state in asked:
        if state not in STATES:
            raise ValueError(f"states={states!r}: {state!r} is not one of {', '.join(STATES)}.")
    if not asked or len(set(asked)) < len(asked):
        raise ValueError(f"states={states!r}: must name at least one state, each once.")
    return asked


def _read_state(path: Path, member: str) -> pd.DataFrame:
    """The people of one state who pass the filter of folktables: PINCP and the features, missing values as −1."""
    wanted = [*FEATURES, "PINCP", "PWGTP"]
    what = f"the archive of the US Census Bureau with {member}"
    with reading(path, what), zipfile.ZipFile(path) as archive:
        if member not in archive.namelist():
            raise DataFileError(f"{path}: does not hold {member}; must be {what}.")
        with archive.open(member) as file:
            names = pd.read_csv(file, nrows=0, skipinitialspace=True).columns
        need_columns(names, wanted, path, what)
        with archive.open(member) as file:
            frame = pd.read_csv(file, usecols=wanted, skipinitialspace=True)
        # A column of codes with a word in it would otherwise be found far from here.
        frame = frame.apply(pd.to_numeric)
    keep = (frame["AGEP"] > 16) & (frame["PINCP"] > 100) & (frame["WKHP"] > 0) & (frame["PWGTP"] >= 1)
    frame = frame.loc[keep, [*FEATURES, "PINCP"]].fillna(-1)
    # Codes fit in 32 bits, dollars do too: half the memory of 1.66 million people.
    return frame.astype({**dict.fromkeys(FEATURES, np.int32), "PINCP": np.float64})
