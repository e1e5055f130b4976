"""ENEM, the Brazilian secondary-school exam: the fifth of the humanities score, by race or sex, as in the paper."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from optfair.datasets.tables import (
    FIFTHS,
    Loaded,
    Request,
    named,
    need_columns,
    numbers_and_levels,
    reading,
    take,
    to_unit_range,
)
from optfair.errors import DataFileError

QUESTIONS = [f"Q{i:03d}" for i in range(1, 25)]
LEVELS = [question for question in QUESTIONS if question != "Q005"]  # Q005 counts the people of the household
PRESENT = [f"TP_PRESENCA_{exam}" for exam in ("CN", "CH", "LC", "MT")]
FILTERED = [*PRESENT, "IN_TREINEIRO", "TP_ST_CONCLUSAO"]
KEPT = ["NU_NOTA_CH", "TP_COR_RACA", "TP_SEXO", *QUESTIONS, "SG_UF_PROVA"]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
RACES = ("white", "black", "brown", "yellow", "indigenous")  # codes 1..5; 0 is undeclared
POOLED = ("white", "black+brown", "black+brown", "yellow+indigenous", "yellow+indigenous")
MOST_ROWS = 1_400_000  # of the paper's sample
CSV, CHUNK = "MICRODADOS_ENEM_2020.csv", 200_000
PREPARED = (
    "People present in all four exams, no trainees (IN_TREINEIRO 0), who have finished school (TP_ST_CONCLUSAO 1), of "
    "declared race, with nothing missing among the features. Classes: fifths of NU_NOTA_CH, edges {edges}, "
    "right-closed; the lowest score of all lies in no bin, as in the authors' code, and is left out. Features: sex, "
    "Q001 to Q024, the state of the exam and the age band; one-hot but for Q005, without the last level of each "
    "question and of the age band; scaled to [0, 1]. {other}"
)


def enem_2020(request: Request) -> Loaded:
    """The exam of 2020, 1.4 million people at most: fifths of NU_NOTA_CH by race (5 groups), race pooled, or sex."""
    path = request.unpacked() or request.obtain()
    what = "the microdata of ENEM 2020"
    with reading(path, what), _open_csv(path) as file:
        frame = _read_csv(file, path, what)
    rows = request.rows if request.rows is not None else MOST_ROWS
    return _prepare(frame, Request(request.entry, request.sensitive, rows, request.random_state), np.float32)


def enem_2019(request: Request) -> Loaded:
    """The exam of 2019 in AC and RR, 23,763 people, prepared in the same way: by race pooled (3 groups), race, or sex.

    Pooled by default: the 661 + 380 people of the last two races are too few apart for any rate by class and group.
    """
    frame = request.parquet(columns=[*FILTERED, *KEPT, "NU_IDADE"])
    # INEP's age bands of 2020, which the file of 2019 lacks: up to 16, single years to 25, then five years at a time.
    bands = np.searchsorted([*range(17, 27), *range(31, 72, 5)], frame.pop("NU_IDADE").to_numpy(), "right")
    frame["TP_FAIXA_ETARIA"] = bands + 1
    return _prepare(_eligible(frame), request, np.float64)


@contextmanager
def _open_csv(path: Path) -> Iterator[IO[bytes]]:
    """The table itself, or as it comes out of the archive, without extracting it."""
    if path.suffix == ".csv":
        with open(path, "rb") as file:
            yield file
        return
    with zipfile.ZipFile(path) as archive:
        found = [name for name in archive.namelist() if name.rpartition("/")[2] == CSV]
        if not found:
            raise DataFileError(f"{path}: does not hold {CSV}; must be the archive that INEP publishes.")
        with archive.open(found[0]) as member:
            yield member


def _read_csv(file: IO[bytes], path: Path, what: str) -> pd.DataFrame:
    """The eligible people, read in chunks: the file has 5.8 million lines and 76 columns."""
    wanted = [*FILTERED, *KEPT, "TP_FAIXA_ETARIA"]
    dtypes = dict.fromkeys([*LEVELS, "TP_SEXO", "SG_UF_PROVA"], str)
    with io.TextIOWrapper(file, encoding="cp860", newline="") as text:
        names = [name.strip().strip('"') for name in text.readline().split(";")]
        need_columns(names, wanted, path, what)
        chunks = pd.read_csv(text, sep=";", names=names, usecols=wanted, dtype=dtypes, chunksize=CHUNK)
        parts = [_small(_eligible(chunk), path) for chunk in chunks]
    if not sum(map(len, parts)):
        raise DataFileError(f"{path}: nobody in it passes the filters; must be {what}.")
    return pd.concat(parts, ignore_index=True)


def _small(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Answers as categories of one byte each, the same ones in all chunks."""
    for column in LEVELS:
        strange = ~frame[column].isin(list(LETTERS))
        if strange.any():
            found = frame.loc[strange, column].iloc[0]
            raise DataFileError(f"{path}: {column} is {found!r} somewhere; must be one letter, A to Z.")
        frame[column] = pd.Categorical(frame[column], categories=list(LETTERS))
    return frame


def _eligible(frame: pd.DataFrame) -> pd.DataFrame:
    """The paper's filters; without the columns that only they need."""
    keep = (frame[PRESENT] == 1).all(axis=1) & (frame["IN_TREINEIRO"] == 0) & (frame["TP_ST_CONCLUSAO"] == 1)
    # 0 is undeclared; 6, where it occurs, says that there is no information.
    keep &= frame["TP_COR_RACA"].between(1, len(RACES))
    return frame.loc[keep].drop(columns=FILTERED).dropna().reset_index(drop=True)


def _prepare(frame: pd.DataFrame, request: Request, dtype: Any) -> Loaded:
    """Fifths of the score, groups, and one-hot features, of people who passed the filters."""
    score = frame.pop("NU_NOTA_CH").to_numpy()
    edges = np.quantile(score, np.linspace(0, 1, 6))
    above = score > edges[0]
    frame, score = frame[above].reset_index(drop=True), score[above]
    y = named(np.searchsorted(edges[1:-1], score, side="left"), FIFTHS, "humanities")
    race, male = frame.pop("TP_COR_RACA").to_numpy().astype(int) - 1, frame.pop("TP_SEXO").eq("M")
    levels = ["SG_UF_PROVA", *LEVELS, "TP_FAIXA_ETARIA"]
    if request.sensitive == "sex":
        groups = named(male.to_numpy().astype(int), ("female", "male"), "sex")
        frame["race"] = named(race, RACES, "race")
        levels.append("race")
        other = "Race stays among the features, one-hot."
    else:
        groups = named(race, RACES if request.sensitive == "race" else POOLED, "race")
        frame.insert(0, "TP_SEXO=M", male.astype(float))
        other = "Race is not among the features; sex is."
    frame["Q005"] = to_unit_range(frame["Q005"])
    rows = request.sample(len(frame))
    X = numbers_and_levels(frame, levels, rows, dtype=dtype, drop_last=[*LEVELS, "TP_FAIXA_ETARIA"])
    done = PREPARED.format(edges=", ".join(f"{edge:g}" for edge in edges), other=other)
    if request.entry.stand_in_for:
        done += " The age bands are made from the age."
    if len(rows) < len(frame):
        done += f" A random sample of the {len(frame):,} people."
    return Loaded(X, take(y, rows), take(groups, rows), done, request.entry.stand_in_for)
