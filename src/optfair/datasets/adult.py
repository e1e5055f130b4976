"""Adult (UCI): income by sex as the paper's authors prepare it, and occupation by sex and race."""

from __future__ import annotations

import io
import lzma
from importlib import resources

import numpy as np
import pandas as pd

from optfair.datasets.tables import Loaded, Request, named, numbers_and_levels, take, to_unit_range

COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
NUMBERS = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
JOBS = {
    "management": ("Exec-managerial",),
    "professional": ("Prof-specialty", "Tech-support"),
    "clerical+sales": ("Adm-clerical", "Sales"),
    "manual": ("Craft-repair", "Machine-op-inspct", "Transport-moving", "Handlers-cleaners", "Farming-fishing"),
    "service": ("Other-service", "Priv-house-serv", "Protective-serv", "Armed-Forces"),
}
SCALED = (
    "adult.data and adult.test one after the other; the six numbers go to [0, 1] by the range of their own file, as in "
    'the code of the authors; every other column is one-hot with all its levels, "?" being one.'
)


def income(request: Request) -> Loaded:
    """Adult as the authors of the paper prepare it, 48,842 × 106: income > 50K by sex, by race, or by both.

    "sex": race stays among the features. "race" (white or other): sex stays, as one column. "sex-race": people of
    races other than Black and White are left out, and neither is a feature.
    """
    frame = _read()
    people = np.arange(len(frame))
    if request.sensitive == "sex-race":
        people = np.flatnonzero(frame["race"].isin(["Black", "White"]))
    female, race = frame.pop("sex").eq("Female"), frame["race"]
    white = race.eq("White").to_numpy().astype(int)
    y = frame.pop("income")
    sex = named(female.to_numpy().astype(int), ("male", "female"), "sex")
    groups: pd.Series | pd.DataFrame
    if request.sensitive == "sex":
        groups, kept = sex, "Sex is not among the features; the columns of race are."
    elif request.sensitive == "race":
        groups, kept = named(white, ("other", "white"), "race"), "Race is not among the features; sex is, as 0 or 1."
        frame["sex=female"] = female.astype(float)
    else:
        groups = pd.DataFrame({"sex": sex, "race": named(white, ("black", "white"), "race")})
        kept = "Black and White people only; neither sex nor race is among the features."
    if request.sensitive != "sex":
        del frame["race"]
    rows = people[request.sample(len(people))]
    levels = [column for column in frame if column not in (*NUMBERS, "sex=female")]
    X = numbers_and_levels(frame, levels, rows)
    return Loaded(X, take(y, rows), take(groups, rows), f"{SCALED} {kept}")


def occupation(request: Request) -> Loaded:
    """The people of Adult whose occupation is known: five kinds of work by sex × (white, other)."""
    frame = _read()
    job = {name: position for position, names in enumerate(JOBS.values()) for name in names}
    frame = frame[frame["occupation"].isin(list(job))].reset_index(drop=True)
    y = named(frame.pop("occupation").map(job).to_numpy().astype(int), tuple(JOBS), "occupation")
    female, white = frame.pop("sex").eq("Female"), frame.pop("race").eq("White")
    groups: pd.Series | pd.DataFrame = pd.DataFrame(
        {
            "sex": named(female.to_numpy().astype(int), ("male", "female"), "sex"),
            "race": named(white.to_numpy().astype(int), ("other", "white"), "race"),
        }
    )
    if request.sensitive != "sex-race":
        groups = groups[request.sensitive]
    del frame["relationship"]  # "Husband" and "Wife" state the sex
    frame["income=>50K"] = frame.pop("income").eq(">50K").astype(float)
    rows = request.sample(len(frame))
    levels = [column for column in frame if column not in (*NUMBERS, "income=>50K")]
    X = numbers_and_levels(frame, levels, rows)
    kinds = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in JOBS.items())
    done = (
        f"{SCALED} People of unknown occupation are left out. Classes: {kinds}. Sex, race and relationship (which "
        "states the sex) are not among the features; income is."
    )
    return Loaded(X, take(y, rows), take(groups, rows), done)


def _read() -> pd.DataFrame:
    """Both files, 48,842 people, numbers in [0, 1], income without the full stop it has in the second file."""
    parts = []
    for name, skip in (("adult.data.xz", 0), ("adult.test.xz", 1)):
        packed = resources.files("optfair.datasets").joinpath("embedded", name).read_bytes()
        # "?" is a level of its own, so nothing is read as missing.
        part = pd.read_csv(
            io.BytesIO(lzma.decompress(packed)),
            names=list(COLUMNS),
            skiprows=skip,
            skipinitialspace=True,
            na_filter=False,
        )
        # By the range of each file: a common range would move every column a little away from the authors' numbers.
        part[NUMBERS] = to_unit_range(part[NUMBERS])
        parts.append(part)
    frame = pd.concat(parts, ignore_index=True)
    frame["income"] = frame["income"].str.rstrip(".")
    return frame
