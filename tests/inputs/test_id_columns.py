"""Columns that tell who a person is are recognised, and measurements are not."""

import uuid

import numpy as np
import pandas as pd
import pytest

from optfair.inputs.id_columns import MIN_ROWS, id_columns

N = 600
RNG = np.random.default_rng(0)
WIDE = RNG.choice(10**9, N, replace=False)  # whole numbers, each once
REPEATED = np.r_[WIDE[: N - 150], WIDE[:150]]  # some people twice

IDS = {
    "patient_nbr": WIDE,
    "id_student": REPEATED,
    "encounter_id": np.arange(N) + 7,
    "id": [f"{k:06d}" for k in range(N)],
    "userId": pd.array(WIDE, dtype="Int64"),
    "PatientID": np.where(np.arange(N) == 3, np.nan, WIDE),  # pandas turns whole numbers with holes into floats
    "SSN": [f"{k:03d}-45-6789" for k in range(N)],
    "row": np.arange(N),
    "account": [f"DE{k:012d}" for k in WIDE],
    "token": [uuid.UUID(int=int(k) ** 4).hex for k in WIDE],
}
NO_IDS = {
    "income": RNG.lognormal(10, 1, N),
    "dollars": RNG.lognormal(10, 1, N).astype(int),
    "population": WIDE,
    "rank": RNG.permutation(N),
    "paid": WIDE,
    "grid": WIDE,
    "idle_time": WIDE,
    "school_id": RNG.integers(0, 40, N),
    "score_id": RNG.random(N),
    "date": pd.date_range("2020-01-01", periods=N).astype(str),
    "when": pd.date_range("2020-01-01", periods=N),
    "time": pd.date_range("2020-01-01", periods=N, freq="h").strftime("%Y-%m-%dT%H:%M"),
    "price_text": [f"{k}.50" for k in WIDE],
    "comment": [f"visit {k} of the ward" for k in range(N)],
    "name": [f"Person {k}" for k in range(N)],
    "city": RNG.choice(["A1", "B2"], N),
    "code": [f"c{k // 2}" for k in range(N)],
    "flag_id": RNG.random(N) < 0.5,
    "holes": [None, *(f"c{k}" for k in range(1, N))],
    "mixed": [0, *(f"c{k}" for k in range(1, N))],
    0: WIDE,
}


@pytest.mark.parametrize("name", IDS)
def test_ids_are_recognised(name):
    column = pd.Series(IDS[name])
    assert id_columns(pd.DataFrame({name: IDS[name]})) == {name: column.nunique()}


@pytest.mark.parametrize("name", NO_IDS)
def test_measurements_dates_categories_and_running_text_are_no_ids(name):
    assert id_columns(pd.DataFrame({name: NO_IDS[name]})) == {}


def test_few_rows_tell_nothing():
    assert id_columns(pd.DataFrame({"id": np.arange(MIN_ROWS - 1)})) == {}
    assert id_columns(pd.DataFrame({"id": np.arange(MIN_ROWS)})) == {"id": MIN_ROWS}
