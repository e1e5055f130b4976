"""Readers of the real data used in the benchmarks, from the folder named by $OPTFAIR_DATA.

Every reader returns ``Data(X, y, group, name)``: X float64 (n, d) without the sensitive attribute and not standardised
(the model does that), y and group as readable strings or ints. ``rows`` takes a random subsample; labels (quantiles),
levels and scales are fixed on all rows before, so every subsample has the same columns and classes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd


class Data(NamedTuple):
    """Features (n, d), labels (n,) and groups (n,) of one task."""

    X: np.ndarray
    y: np.ndarray
    group: np.ndarray
    name: str


def authors_split(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(train, test) indices of the authors' code: 60/40, not stratified, numpy's legacy stream at 1 + seed."""
    order = np.random.RandomState(1 + seed).permutation(n)  # their generator, on purpose
    return order[: int(0.6 * n)], order[int(0.6 * n) :]


def random_split(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(train, test) indices of a random 60/40 split."""
    order = np.random.default_rng(seed).permutation(n)
    return order[: int(0.6 * n)], order[int(0.6 * n) :]


def adult(rows: int | None = None, seed: int = 0) -> Data:
    """Adult, prepared as the authors do: income > 50K (2 classes) by sex (2 groups), 48,842 rows, 106 columns."""
    numbers = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    names = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"]
    names += ["race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"]
    parts = []
    for file, skip in (("adult.data", 0), ("adult.test", 1)):
        # "?" is a level of its own, so nothing is read as missing.
        part = pd.read_csv(
            _folder() / "adult" / file, names=names, skiprows=skip, skipinitialspace=True, na_filter=False
        )
        # The authors scale each file by its own range; a common range would move every column a little.
        low, high = part[numbers].min(), part[numbers].max()
        part[numbers] = (part[numbers] - low) / (high - low)
        parts.append(part)
    frame = pd.concat(parts, ignore_index=True)
    y = frame.pop("income").str.rstrip(".").to_numpy(dtype=str)
    group = frame.pop("sex").str.lower().to_numpy(dtype=str)
    return _data("adult", frame, [c for c in frame if c not in numbers], y, group, rows, seed)


def acs_government(rows: int | None = None, seed: int = 0) -> Data:
    """ACS 2018, government employees: salary quintile (5 classes, 0 = lowest) by race (5 groups), 204,309 rows."""
    frame = pd.read_parquet(_folder() / "acs2018_gov_census" / "gov_census.parquet")
    salary = frame.pop("salary").to_numpy()
    # Salaries are heaped on round dollars: left-closed bins at observed values, as ACSIncome is cut.
    edges = np.quantile(salary, [0.2, 0.4, 0.6, 0.8], method="inverted_cdf")
    y = np.searchsorted(edges, salary, side="right")
    pool = {"asian": "asian+NHOPI", "NHOPI": "asian+NHOPI", "other": "other+mix", "mix": "other+mix"}
    group = frame.pop("race").astype(str).replace(pool).to_numpy(dtype=str)
    # All the rest stays. Hispanic origin, citizenship, nativity and English are proxies of race but do not state it;
    # no column is made from the salary (hours and weeks worked are separate questions).
    frame["occupation"] = frame["occupation"].astype(str).str[:2]  # major SOC group: 518 detailed codes are too many
    frame["industry"] = frame["industry"].astype(str).str[:2]  # NAICS sector, of 259 detailed codes
    frame["education_level"] = frame["education_level"].clip(lower=15)  # below: no high-school diploma, few rows each
    frame["children_unknown"] = frame["children"] < 0  # -1 is a code, not a count
    frame["children"] = frame["children"].clip(lower=0)
    numbers = ["age", "family_size", "children", "children_unknown", "english_level", "hours_worked", "weeks_worked"]
    return _data("acs_government", frame, [c for c in frame if c not in numbers], y, group, rows, seed)


def acs_education(rows: int | None = None, seed: int = 0) -> Data:
    """ACSIncome 2018 in 46 states: education (5 levels of SCHL) by race (5 groups), 1,121,894 rows."""
    columns = ["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P", "PINCP_gt_50k"]
    file = _folder() / "acsincome2018" / "acsincome2018_46states_binary.parquet"
    frame = pd.read_parquet(file, columns=columns)  # without STATE: 46 more columns for little
    levels = np.array(["0 no diploma", "1 high school", "2 some college", "3 bachelor", "4 higher"])
    y = levels[np.searchsorted([16, 18, 21, 22], frame.pop("SCHL").to_numpy(), side="right")]
    races = np.array(["", "white", "black", *["AIAN"] * 3, *["asian+NHOPI"] * 2, *["other+mix"] * 2])
    group = races[frame.pop("RAC1P").to_numpy()]
    frame["OCCP"] //= 500  # 20 coarse blocks of the occupation code
    frame["POBP"] //= 100  # US, Europe, Asia, Americas, Africa, Oceania: a strong proxy of race, kept on purpose
    return _data("acs_education", frame, ["COW", "MAR", "SEX", "RELP", "OCCP", "POBP"], y, group, rows, seed)


def enem(rows: int | None = None, seed: int = 0) -> Data:
    """ENEM 2019 in AC and RR: humanities-score quintile (5 classes, 0 = lowest) by pooled race (3 groups)."""
    questions = [f"Q{i:03d}" for i in range(1, 25)]
    frame = pd.read_parquet(_folder() / "enem2019_ac_rr" / "enem2019_ac_rr.parquet")
    keep = (frame[["TP_PRESENCA_CN", "TP_PRESENCA_CH", "TP_PRESENCA_LC", "TP_PRESENCA_MT"]] == 1).all(axis=1)
    keep &= (frame["IN_TREINEIRO"] == 0) & (frame["TP_COR_RACA"] > 0) & (frame["TP_ST_CONCLUSAO"] == 1)
    # The 2019 file has the age instead of the age band.
    columns = ["NU_NOTA_CH", "TP_COR_RACA", "TP_SEXO", *questions, "SG_UF_PROVA", "NU_IDADE"]
    frame = frame.loc[keep, columns].dropna()
    score = frame["NU_NOTA_CH"].to_numpy()
    edges = np.quantile(score, np.linspace(0, 1, 6))
    above = score > edges[0]  # the authors' bins leave the lowest score out
    frame = frame[above]
    y = np.searchsorted(edges[1:-1], frame.pop("NU_NOTA_CH").to_numpy(), side="left")
    # 661 + 380 rows of the last two are too few apart for any rate by class and group.
    races = np.array(["", "white", "black+brown", "black+brown", "yellow+indigenous", "yellow+indigenous"])
    group = races[frame.pop("TP_COR_RACA").to_numpy()]
    frame["TP_SEXO"] = frame["TP_SEXO"] == "M"
    # INEP's TP_FAIXA_ETARIA: up to 16, single years to 25, then five years at a time.
    frame["NU_IDADE"] = np.searchsorted([*range(17, 27), *range(31, 72, 5)], frame["NU_IDADE"].to_numpy(), "right")
    levels = [q for q in questions if q != "Q005"]
    # As the authors: the last level of a question is dropped, every state is kept, everything goes to [0, 1].
    frame = pd.get_dummies(frame, columns=["SG_UF_PROVA"])
    for name in [*levels, "NU_IDADE"]:
        dummies = pd.get_dummies(frame.pop(name), prefix=name)
        frame = pd.concat([frame, dummies.iloc[:, :-1]], axis=1)
    frame = frame.astype(float)
    frame = (frame - frame.min()) / (frame.max() - frame.min())
    return _data("enem", frame, [], y, group, rows, seed)


def celeba() -> tuple[list[bytes], np.ndarray, np.ndarray]:
    """(JPEG files, 2·Smiling + Big_Nose, Young or not) of the first 10,000 images of CelebA, at half size."""
    folder = _folder() / "celeba"
    images = pd.read_parquet(folder / "celeba_first10k_images_89x109_jpeg.parquet")
    attributes = pd.read_parquet(folder / "celeba_attributes.parquet")
    table = images.merge(attributes, on="filename", validate="one_to_one")
    y = 2 * table["Smiling"].to_numpy().astype(int) + table["Big_Nose"].to_numpy().astype(int)
    return table["jpeg"].tolist(), y, np.where(table["Young"].to_numpy().astype(bool), "young", "old")


def _folder() -> Path:
    folder = os.environ.get("OPTFAIR_DATA")
    if not folder:
        raise RuntimeError("set OPTFAIR_DATA to the folder that holds the data")
    return Path(folder)


def _data(
    name: str, frame: pd.DataFrame, levels: list[str], y: np.ndarray, group: np.ndarray, rows: int | None, seed: int
) -> Data:
    """Subsample, then one-hot the columns `levels` with the levels of the whole frame, the other columns first."""
    take = np.arange(len(frame))
    if rows is not None and rows < len(frame):
        take = np.sort(np.random.default_rng(seed).choice(len(frame), rows, replace=False))
    numbers = [c for c in frame if c not in levels]
    blocks = [frame[numbers].to_numpy(dtype=float)[take]]
    for column in levels:
        known, code = np.unique(frame[column].to_numpy(), return_inverse=True)
        blocks.append(code[take, None] == np.arange(len(known)))
    return Data(np.concatenate(blocks, axis=1, dtype=float), y[take], group[take], name)
