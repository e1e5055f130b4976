"""Read Adult (UCI): income by sex as the paper's authors prepare it, and occupation by sex and race."""

from __future__ import annotations

import io
import lzma
from importlib import resources

import numpy as np
import pandas as pd

from optfair.datasets.reading import LoadRequest, RawDataset
from optfair.datasets.tables import encode_table, name_codes, scale_to_unit_range, select_rows

COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
NUMERIC_COLUMNS = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
OCCUPATIONS = {
    "management": ("Exec-managerial",),
    "professional": ("Prof-specialty", "Tech-support"),
    "clerical+sales": ("Adm-clerical", "Sales"),
    "manual": ("Craft-repair", "Machine-op-inspct", "Transport-moving", "Handlers-cleaners", "Farming-fishing"),
    "service": ("Other-service", "Priv-house-serv", "Protective-serv", "Armed-Forces"),
}
ENCODING_TEXT = (
    "The rows of adult.data are followed by those of adult.test. The six numeric columns are scaled to [0, 1] by the "
    "range of their own file, as in the authors' code. Every other column is one-hot with all its levels, of which "
    '"?" is one.'
)


def income(request: LoadRequest) -> RawDataset:
    """Read Adult as the authors of the paper prepare it, 48,842 × 106: income > 50K by sex, by race, or by both.

    "sex": race stays among the features. "race" (white or other): sex stays, as one column. "sex-race": people of
    races other than Black and White are left out, and neither is a feature.
    """
    frame = _read()
    candidates = np.arange(len(frame))
    if request.sensitive == "sex-race":
        candidates = np.flatnonzero(frame["race"].isin(["Black", "White"]))
    female, race = frame.pop("sex").eq("Female"), frame["race"]
    white = race.eq("White").to_numpy().astype(int)
    y = frame.pop("income")
    sex = name_codes(female.to_numpy().astype(int), ("male", "female"), "sex")
    groups: pd.Series | pd.DataFrame
    if request.sensitive == "sex":
        groups, text = sex, "Sex is not among the features; the columns of race are."
    elif request.sensitive == "race":
        groups = name_codes(white, ("other", "white"), "race")
        text = "Race is not among the features; sex is, as 0 or 1."
        frame["sex=female"] = female.astype(float)
    else:
        groups = pd.DataFrame({"sex": sex, "race": name_codes(white, ("black", "white"), "race")})
        text = "Only Black and White people are included; neither sex nor race is among the features."
    if request.sensitive != "sex":
        del frame["race"]
    rows = candidates[request.sample(len(candidates))]
    levels = [column for column in frame if column not in (*NUMERIC_COLUMNS, "sex=female")]
    X = encode_table(frame, levels, rows)
    return RawDataset(X, select_rows(y, rows), select_rows(groups, rows), f"{ENCODING_TEXT} {text}")


def occupation(request: LoadRequest) -> RawDataset:
    """Read the people of Adult whose occupation is recorded: five kinds of work by sex × (white, other)."""
    frame = _read()
    code_of = {name: code for code, names in enumerate(OCCUPATIONS.values()) for name in names}
    frame = frame[frame["occupation"].isin(list(code_of))].reset_index(drop=True)
    y = name_codes(frame.pop("occupation").map(code_of).to_numpy().astype(int), tuple(OCCUPATIONS), "occupation")
    female, white = frame.pop("sex").eq("Female"), frame.pop("race").eq("White")
    groups: pd.Series | pd.DataFrame = pd.DataFrame(
        {
            "sex": name_codes(female.to_numpy().astype(int), ("male", "female"), "sex"),
            "race": name_codes(white.to_numpy().astype(int), ("other", "white"), "race"),
        }
    )
    if request.sensitive != "sex-race":
        groups = groups[request.sensitive]
    del frame["relationship"]  # "Husband" and "Wife" reveal the sex
    frame["income=>50K"] = frame.pop("income").eq(">50K").astype(float)
    rows = request.sample(len(frame))
    levels = [column for column in frame if column not in (*NUMERIC_COLUMNS, "income=>50K")]
    X = encode_table(frame, levels, rows)
    classes = "; ".join(f"{name}: {', '.join(values)}" for name, values in OCCUPATIONS.items())
    preparation = (
        f"{ENCODING_TEXT} People without a recorded occupation are left out. Classes: {classes}. Sex, race and "
        "relationship (which reveals the sex) are not among the features; income is."
    )
    return RawDataset(X, select_rows(y, rows), select_rows(groups, rows), preparation)


def _read() -> pd.DataFrame:
    """Read both files, 48,842 rows: numbers in [0, 1], income without the full stop that it has in the second file."""
    parts = []
    for name, skip in (("adult.data.xz", 0), ("adult.test.xz", 1)):
        packed = resources.files("optfair.datasets").joinpath("embedded", name).read_bytes()
        # "?" is a level of its own, so no value is read as missing.
        part = pd.read_csv(
            io.BytesIO(lzma.decompress(packed)),
            names=list(COLUMNS),
            skiprows=skip,
            skipinitialspace=True,
            na_filter=False,
        )
        # By the range of each file: a common range would move every column slightly away from the authors' numbers.
        part[NUMERIC_COLUMNS] = scale_to_unit_range(part[NUMERIC_COLUMNS])
        parts.append(part)
    frame = pd.concat(parts, ignore_index=True)
    frame["income"] = frame["income"].str.rstrip(".")
    return frame
