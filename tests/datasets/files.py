"""Write small files as the sources of the data sets write theirs."""

import csv
import io
import tarfile
import zipfile

import numpy as np
import pandas as pd
import pytest

from optfair.datasets import entries


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def zip_archive(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def tar_archive(members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def check_table(data):
    """Check that X, y and groups are rows 0, 1, …, and that X is made of numbers; return the data set."""
    n = len(data)
    for part in (data.X, data.y, data.sensitive_features):
        assert isinstance(part.index, pd.RangeIndex) and len(part) == n
    assert np.isfinite(data.X.to_numpy(dtype=float)).all()
    assert data.X.columns.is_unique and data.feature_names == list(data.X.columns)
    return data


# -- ENEM ---------------------------------------------------------------------------------------------------
ENEM_CSV, ENEM_ZIP = "enem/MICRODADOS_ENEM_2020.csv", "enem/microdados_enem_2020.zip"
ENEM_MEMBER = "DADOS/MICRODADOS_ENEM_2020.csv"


def examinee(score, **fields):
    """Return a line of MICRODADOS_ENEM_2020.csv that passes the filters."""
    line = {"NU_INSCRICAO": "200000000001", "NU_ANO": 2020, "TP_FAIXA_ETARIA": 2, "TP_SEXO": "F", "TP_COR_RACA": 1}
    line |= {"TP_ST_CONCLUSAO": 1, "IN_TREINEIRO": 0, "NO_MUNICIPIO_PROVA": "São João d'Água", "SG_UF_PROVA": "AC"}
    line |= {f"TP_PRESENCA_{exam}": 1 for exam in ("CN", "CH", "LC", "MT")} | {"NU_NOTA_CH": score}
    line |= {f"Q{i:03d}": "A" for i in range(1, 26)} | {"Q005": 4}
    return line | fields


# 0 is the lowest score and lies in no bin; 10..100 have the edges 20, 40, 60, 80, each in the bin below it.
ELIGIBLE = [
    examinee(0.0),
    examinee(100.0, TP_COR_RACA=5, TP_SEXO="M", Q001="C", Q005=20, TP_FAIXA_ETARIA=20),
    examinee(10.0, TP_COR_RACA=2, Q001="B", Q005=1),
    examinee(20.0, TP_COR_RACA=3, SG_UF_PROVA="SP"),
    *(examinee(float(score)) for score in (30, 40, 50, 60, 70)),
    examinee(80.0, TP_COR_RACA=4, TP_SEXO="M"),
    examinee(90.0, SG_UF_PROVA="SP"),
]
INELIGIBLE = [
    examinee(500.0, TP_PRESENCA_MT=0),
    examinee(500.0, TP_PRESENCA_CN=2),
    examinee("", TP_PRESENCA_CH=0, TP_PRESENCA_LC=0),
    examinee(500.0, TP_COR_RACA=0),
    examinee(500.0, TP_COR_RACA=6),
    examinee(500.0, IN_TREINEIRO=1),
    *(examinee(500.0, TP_ST_CONCLUSAO=code) for code in (2, 3, 4)),
    examinee(""),
    examinee(500.0, Q001=""),
    examinee(500.0, Q005=""),
    examinee(500.0, SG_UF_PROVA="", TP_FAIXA_ETARIA=""),
]


def enem_csv(lines):
    rows = [";".join(lines[0]), *(";".join(map(str, line.values())) for line in lines)]
    return ("\r\n".join(rows) + "\r\n").encode("cp860")


# -- ACS ----------------------------------------------------------------------------------------------------
PUMS_COLUMNS = (
    "RT", "SERIALNO", "AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P", "PINCP", "PWGTP",
)  # fmt: skip


def person(**fields):
    line = {"RT": "P", "SERIALNO": "2018GQ0000049", "AGEP": 40, "COW": 1, "SCHL": 16, "MAR": 1, "OCCP": "0010"}
    line |= {"POBP": "001", "RELP": 0, "WKHP": 40, "SEX": 1, "RAC1P": 1, "PINCP": 30_000, "PWGTP": 12}
    return line | fields


# Values at the limits of the filters, blanks, and the largest codes.
UNUSUAL_PEOPLE = [
    person(AGEP=16),
    person(AGEP=17, PINCP=101, COW="", SCHL="", OCCP="", RAC1P=9, SEX=2),
    person(PINCP=100),
    person(PINCP=-4_000),
    person(PINCP=""),
    person(WKHP=""),
    person(WKHP=0),
    person(PWGTP=0),
    person(PWGTP=1, PINCP=1_423_000, OCCP=9830, POBP=554, RELP=17, WKHP=99, MAR=5, SCHL=24, COW=8, RAC1P=7, SEX=2),
    person(AGEP=12, PINCP="", WKHP="", COW="", OCCP=""),
]


def pums_csv(lines):
    """Return a person file: quoted serial numbers, leading zeros, blanks where a question was not asked."""
    rows = (",".join(f'"{line[c]}"' if c == "SERIALNO" else f"{line[c]}" for c in PUMS_COLUMNS) for line in lines)
    return "\n".join([",".join(PUMS_COLUMNS), *rows]) + "\n"


def write_census(folder, states=entries.STATES, unusual="AL"):
    """Write an archive per state: two people with rising incomes and every race; in one state also unusual people."""
    people = []
    for number, (state, code) in enumerate(entries.STATES.items()):
        if state not in states:
            continue
        lines = [person(RAC1P=number % 9 + 1, PINCP=1000 * number + 200), person(PINCP=1000 * number + 700, SEX=2)]
        lines += UNUSUAL_PEOPLE if state == unusual else []
        people += lines
        members = {"ACS2018_PUMS_README.pdf": b"%PDF", f"psam_p{code}.csv": pums_csv(lines)}
        write(folder / "acs-income" / f"csv_p{state.lower()}.zip", zip_archive(members))
    return people


# -- COMPAS -------------------------------------------------------------------------------------------------
COMPAS_CSV = "compas/compas-scores-two-years.csv"


def defendant(**fields):
    line = {"id": 1, "name": "x", "sex": "Male", "age": 34, "race": "Caucasian", "juv_fel_count": 0, "decile_score": 3}
    line |= {"juv_misd_count": 1, "juv_other_count": 2, "priors_count": 4, "days_b_screening_arrest": -1}
    line |= {"c_charge_degree": "F", "is_recid": 0, "score_text": "Low", "two_year_recid": 0}
    return line | fields


DEFENDANTS = [
    defendant(days_b_screening_arrest=-30, two_year_recid=1),
    defendant(
        days_b_screening_arrest=30, score_text="High", race="African-American", sex="Female", c_charge_degree="M"
    ),
    defendant(score_text="Medium", race="Asian", age=19, priors_count=0),
    defendant(race="Native-American", score_text="Medium"),
    defendant(race="Hispanic", two_year_recid=1),
    defendant(race="Other"),
    defendant(days_b_screening_arrest=31),
    defendant(days_b_screening_arrest=-31),
    defendant(days_b_screening_arrest=""),
    defendant(is_recid=-1),
    defendant(c_charge_degree="O"),
    defendant(score_text="N/A"),
]


def compas_csv(lines):
    file = io.StringIO()
    writer = csv.DictWriter(file, list(lines[0]))
    writer.writeheader()
    writer.writerows(lines)
    # The published table has the column decile_score twice.
    return "\n".join(
        line + ("," + ("decile_score" if i == 0 else "9")) for i, line in enumerate(file.getvalue().split())
    )


# -- faces --------------------------------------------------------------------------------------------------
CELEBA_TXT, CELEBA_ZIP, CELEBA_FOLDER = (
    "celeba/list_attr_celeba.txt", "celeba/img_align_celeba.zip", "celeba/img_align_celeba",
)  # fmt: skip
UTK_TAR, UTK_FOLDER = "utkface/UTKFace.tar.gz", "utkface/UTKFace"


def celeba_table(n=8):
    """Return 40 attributes, 0 or 1, of n pictures; all four classes and both groups occur."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 2, (n, 40)), columns=list(entries.CELEBA_ATTRIBUTES))
    table.index = [f"{i:06d}.jpg" for i in range(1, n + 1)]
    table["Smiling"], table["Big_Nose"] = np.arange(n) // 2 % 2, np.arange(n) % 2
    table["Young"], table["Male"] = np.arange(n) % 3 > 0, np.arange(n) > 3
    return table.astype(int)


def celeba_text(table):
    lines = [
        f"{name} {'  '.join('1' if value else '-1' for value in line)}"
        for name, line in zip(table.index, table.to_numpy(), strict=True)
    ]
    return "\n".join([str(len(table)), " ".join(table.columns) + " ", *lines]) + "\n"


def jpeg(colour, size=(178, 218)):
    Image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "JPEG", quality=95)
    return file.getvalue()
