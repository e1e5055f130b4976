"""Read ENEM, the Brazilian secondary-school exam: fifths of the humanities score by race or sex, as in the paper."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from optfair.datasets.reading import LoadRequest, RawDataset, check_columns, parsing
from optfair.datasets.tables import FIFTHS, encode_table, name_codes, scale_to_unit_range, select_rows
from optfair.errors import DataFileError

QUESTIONS = [f"Q{i:03d}" for i in range(1, 25)]
ONE_HOT_QUESTIONS = [question for question in QUESTIONS if question != "Q005"]  # Q005 is the size of the household
ATTENDANCE = [f"TP_PRESENCA_{exam}" for exam in ("CN", "CH", "LC", "MT")]
FILTER_COLUMNS = [*ATTENDANCE, "IN_TREINEIRO", "TP_ST_CONCLUSAO"]
DATA_COLUMNS = ["NU_NOTA_CH", "TP_COR_RACA", "TP_SEXO", *QUESTIONS, "SG_UF_PROVA"]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
RACES = ("white", "black", "brown", "yellow", "indigenous")  # codes 1..5; 0 is undeclared
POOLED_RACES = ("white", "black+brown", "black+brown", "yellow+indigenous", "yellow+indigenous")
MAX_ROWS = 1_400_000  # the size of the paper's sample
CSV_NAME = "MICRODADOS_ENEM_2020.csv"
CONTENT_2020 = "the microdata of ENEM 2020"
CHUNK_ROWS = 200_000  # the file has 5.8 million lines and 76 columns
PREPARATION = (
    "People who were present in all four exams, are not trainees (IN_TREINEIRO 0), have finished school "
    "(TP_ST_CONCLUSAO 1) and have declared their race, without missing values among the features. Classes: fifths of "
    "NU_NOTA_CH, edges {edges}, right-closed; the lowest score of all lies in no bin, as in the authors' code, and is "
    "left out. Features: sex, Q001 to Q024, the state of the exam and the age band; all but Q005 are one-hot, without "
    "the last level of each question and of the age band; values are scaled to [0, 1]. {features}"
)


def enem_2020(request: LoadRequest) -> RawDataset:
    """Read the exam of 2020, up to 1.4 million people: fifths of NU_NOTA_CH by race (5 groups), pooled race, or sex."""
    path = request.unpacked() or request.obtain()
    with parsing(path, CONTENT_2020), _open_csv(path) as file:
        frame = _read_csv(file, path)
    rows = request.rows if request.rows is not None else MAX_ROWS
    return _prepare(frame, replace(request, rows=rows), np.float32)


def enem_2019(request: LoadRequest) -> RawDataset:
    """Read the exam of 2019 in AC and RR, 23,763 people, in the same way: by race pooled (3 groups), race, or sex.

    Races are pooled by default: the 661 + 380 people of the last two races are too few for a rate by class and group.
    """
    frame = request.parquet(columns=[*FILTER_COLUMNS, *DATA_COLUMNS, "NU_IDADE"])
    # INEP's age bands of 2020, which the file of 2019 lacks: up to 16, single years to 25, then five years at a time.
    bands = np.searchsorted([*range(17, 27), *range(31, 72, 5)], frame.pop("NU_IDADE").to_numpy(), "right")
    frame["TP_FAIXA_ETARIA"] = bands + 1
    return _prepare(_eligible(frame), request, np.float64)


@contextmanager
def _open_csv(path: Path) -> Iterator[IO[bytes]]:
    """Open the table itself, or its stream in the archive without extracting it."""
    if path.suffix == ".csv":
        with open(path, "rb") as file:
            yield file
        return
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if name.rpartition("/")[2] == CSV_NAME]
        if not members:
            raise DataFileError(f"{path}: does not hold {CSV_NAME}; must be the archive that INEP publishes.")
        with archive.open(members[0]) as member:
            yield member


def _read_csv(file: IO[bytes], path: Path) -> pd.DataFrame:
    """Read the eligible people in chunks."""
    columns = [*FILTER_COLUMNS, *DATA_COLUMNS, "TP_FAIXA_ETARIA"]
    dtypes = dict.fromkeys([*ONE_HOT_QUESTIONS, "TP_SEXO", "SG_UF_PROVA"], str)
    with io.TextIOWrapper(file, encoding="cp860", newline="") as text:
        header = [name.strip().strip('"') for name in text.readline().split(";")]
        check_columns(header, columns, path, CONTENT_2020)
        chunks = pd.read_csv(text, sep=";", names=header, usecols=columns, dtype=dtypes, chunksize=CHUNK_ROWS)
        parts = [_as_categories(_eligible(chunk), path) for chunk in chunks]
    if not sum(map(len, parts)):
        raise DataFileError(f"{path}: no row passes the filters; must be {CONTENT_2020}.")
    return pd.concat(parts, ignore_index=True)


def _as_categories(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the frame with answers as categories of one byte each, the same ones in all chunks."""
    for column in ONE_HOT_QUESTIONS:
        invalid = ~frame[column].isin(list(LETTERS))
        if invalid.any():
            value = frame.loc[invalid, column].iloc[0]
            raise DataFileError(f"{path}: {column} has the value {value!r}; must be one letter, A to Z.")
        frame[column] = pd.Categorical(frame[column], categories=list(LETTERS))
    return frame


def _eligible(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that pass the paper's filters, without the columns that only the filters need."""
    passing = (frame[ATTENDANCE] == 1).all(axis=1) & (frame["IN_TREINEIRO"] == 0) & (frame["TP_ST_CONCLUSAO"] == 1)
    # 0 is undeclared; 6, where it occurs, means that there is no information.
    passing &= frame["TP_COR_RACA"].between(1, len(RACES))
    return frame.loc[passing].drop(columns=FILTER_COLUMNS).dropna().reset_index(drop=True)


def _prepare(frame: pd.DataFrame, request: LoadRequest, dtype: Any) -> RawDataset:
    """Return fifths of the score, groups and one-hot features of the eligible people."""
    score = frame.pop("NU_NOTA_CH").to_numpy()
    edges = np.quantile(score, np.linspace(0, 1, 6))
    above = score > edges[0]
    frame, score = frame[above].reset_index(drop=True), score[above]
    y = name_codes(np.searchsorted(edges[1:-1], score, side="left"), FIFTHS, "humanities")
    race, male = frame.pop("TP_COR_RACA").to_numpy().astype(int) - 1, frame.pop("TP_SEXO").eq("M")
    levels = ["SG_UF_PROVA", *ONE_HOT_QUESTIONS, "TP_FAIXA_ETARIA"]
    if request.sensitive == "sex":
        groups = name_codes(male.to_numpy().astype(int), ("female", "male"), "sex")
        frame["race"] = name_codes(race, RACES, "race")
        levels.append("race")
        text = "Race is among the features, one-hot; sex is not."
    else:
        groups = name_codes(race, RACES if request.sensitive == "race" else POOLED_RACES, "race")
        frame.insert(0, "TP_SEXO=M", male.astype(float))
        text = "Race is not among the features; sex is."
    frame["Q005"] = scale_to_unit_range(frame["Q005"])
    rows = request.sample(len(frame))
    X = encode_table(frame, levels, rows, dtype=dtype, drop_last=[*ONE_HOT_QUESTIONS, "TP_FAIXA_ETARIA"])
    preparation = PREPARATION.format(edges=", ".join(f"{edge:g}" for edge in edges), features=text)
    if request.entry.stand_in_for:
        preparation += " The age bands are derived from the age."
    if len(rows) < len(frame):
        preparation += f" A random sample of the {len(frame):,} people."
    return RawDataset(X, select_rows(y, rows), select_rows(groups, rows), preparation, request.entry.stand_in_for)
