"""ENEM, on a small file written as its source does."""

import numpy as np
import pytest

from optfair import datasets
from tests.datasets.files import (
    ELIGIBLE,
    ENEM_CSV,
    ENEM_MEMBER,
    ENEM_ZIP,
    INELIGIBLE,
    check_table,
    enem_csv,
    write,
    zip_archive,
)


@pytest.fixture(params=["zip", "csv"])
def exam(request, data_folder, monkeypatch):
    """The file in $OPTFAIR_DATA, packed (and read in small chunks) or unpacked; ineligible lines are mixed in."""
    lines = [line for pair in zip(ELIGIBLE, INELIGIBLE, strict=False) for line in pair]
    content = enem_csv(lines + ELIGIBLE[len(INELIGIBLE) :] + INELIGIBLE[len(ELIGIBLE) :])
    if request.param == "csv":
        return write(data_folder / ENEM_CSV, content)
    members = {"LEIA-ME/leia.txt": "não", "DADOS/ITENS_PROVA_2020.csv": "x", ENEM_MEMBER: content}
    monkeypatch.setattr("optfair.datasets.enem.CHUNK_ROWS", 4)
    return write(data_folder / ENEM_ZIP, zip_archive(members))


def test_enem(exam):
    data = check_table(datasets.load("enem", download=False))
    lines = [line for line in ELIGIBLE if line["NU_NOTA_CH"] > 0]
    names = ["1st fifth", "2nd fifth", "3rd fifth", "4th fifth", "5th fifth"]
    assert data.y.tolist() == [names[int(np.ceil(line["NU_NOTA_CH"] / 20)) - 1] for line in lines]
    races = ["white", "black", "brown", "yellow", "indigenous"]
    assert data.sensitive_features.tolist() == [races[line["TP_COR_RACA"] - 1] for line in lines]
    # Q001 has A, B and C, the last is left out; the other questions have one level, which is the last; both states.
    columns = ["TP_SEXO=M", "Q005", "SG_UF_PROVA=AC", "SG_UF_PROVA=SP", "Q001=A", "Q001=B", "TP_FAIXA_ETARIA=2"]
    assert list(data.X.columns) == columns and set(data.X.dtypes.astype(str)) == {"float32"}
    expected = [
        [
            line["TP_SEXO"] == "M",
            (line["Q005"] - 1) / 19,
            line["SG_UF_PROVA"] == "AC",
            line["SG_UF_PROVA"] == "SP",
            line["Q001"] == "A",
            line["Q001"] == "B",
            line["TP_FAIXA_ETARIA"] == 2,
        ]
        for line in lines
    ]
    np.testing.assert_allclose(data.X, np.array(expected, dtype=float), atol=1e-7)
    assert data.stand_in is None and "0, 20, 40, 60, 80, 100" in data.description


def test_enem_by_other_groups(exam):
    pooled = datasets.load("enem", sensitive="race-pooled")
    assert pooled.group_names == ["black+brown", "white", "yellow+indigenous"]
    by_sex = check_table(datasets.load("enem", sensitive="sex"))
    assert by_sex.sensitive_features.tolist().count("male") == 2
    assert not by_sex.X.filter(like="SEXO").columns.size and by_sex.X.filter(like="race=").shape[1] == 5
    sample = datasets.load("enem", rows=4, random_state=1)
    assert len(sample) == 4 and "A random sample of the 10 people" in " ".join(sample.description.split())
    assert list(sample.X.columns) == list(pooled.X.columns)
