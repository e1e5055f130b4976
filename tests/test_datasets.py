"""The loaders: Adult against the counts of the paper's data, the others on small files written as their sources do."""

import csv
import importlib
import inspect
import io
import pickle
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from optfair import OptFairWarning, datasets
from optfair.datasets import entries
from optfair.datasets.tables import left_closed_fifths, numbers_and_levels
from optfair.errors import DataFileError

NAMES = datasets.names()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An $OPTFAIR_DATA of our own, and an empty cache."""
    path = tmp_path / "data"
    path.mkdir()
    monkeypatch.setenv("OPTFAIR_DATA", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return path


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def numbered(data):
    """X, y and groups are rows 0, 1, …, and X is made of numbers."""
    n = len(data)
    for part in (data.X, data.y, data.sensitive_features):
        assert isinstance(part.index, pd.RangeIndex) and len(part) == n
    assert np.isfinite(data.X.to_numpy(dtype=float)).all()
    assert data.X.columns.is_unique and data.feature_names == list(data.X.columns)
    return data


# -- the catalogue ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_an_entry_is_complete(name):
    entry = datasets.entry(name)
    assert entry.name == name and entry.sensitive and entry.title and entry.task and entry.groups and entry.licence
    assert entry.page.startswith("http") and entry.citation.endswith(".")
    module, _, function = entry.reader.partition(":")
    reader = getattr(importlib.import_module(f"optfair.datasets.{module}"), function)
    assert next(iter(inspect.signature(reader).parameters)) == "request" and reader.__doc__
    assert entry.embedded or entry.files or entry.local_files
    for file in entry.files:
        assert file.url or file.by_hand
        assert file.url is None or file.url.startswith("https://")
        assert (file.checksum is None) == (file.checksum_origin == "")
    if entry.stand_in_for:
        assert entry.local_files and not entry.files


def test_the_catalogue_says_where(folder):
    table = datasets.catalogue()
    assert list(table.index) == NAMES == list(entries.ENTRIES)
    where = table["where"]
    assert where["adult"] == where["adult-occupation"] == "in the package"
    assert where["acs-income"] == where["celeba"] == where["compas"] == "to download"
    assert where["utkface"] == where["enem-2019"] == "by hand"
    write(folder / "enem2019_ac_rr" / "enem2019_ac_rr.parquet", b"")
    write(folder / "utkface" / "UTKFace.tar.gz", b"")
    write(folder.parent / "cache" / "optfair" / "compas" / "compas-scores-two-years.csv", b"")
    where = datasets.catalogue()["where"]
    assert where["enem-2019"] == where["utkface"] == "$OPTFAIR_DATA" and where["compas"] == "cache"
    write(folder / "celeba" / "list_attr_celeba.txt", b"")
    (folder / "celeba" / "img_align_celeba").mkdir()
    write(folder.parent / "cache" / "optfair" / "enem" / "MICRODADOS_ENEM_2020.csv", b"")
    where = datasets.catalogue()["where"]
    assert where["celeba"] == "$OPTFAIR_DATA" and where["enem"] == "cache"


def test_the_files_of_acs_are_those_of_the_states():
    """50 states and Puerto Rico, without the District of Columbia, each with its FIPS code."""
    assert len(entries.STATES) == 51 == len(set(entries.STATES.values()))
    assert "DC" not in entries.STATES and entries.STATES["PR"] == "72" and entries.STATES["WY"] == "56"
    assert entries.STATES["AK"] == "02" and entries.STATES["RI"] == "44"  # not in one row: 03, 07, 14, 43 and 52 lack
    names = [file.name for file in datasets.entry("acs-income").files]
    assert names[0] == "acs-income/csv_pal.zip" and names[-1] == "acs-income/csv_ppr.zip" and len(names) == 51


def test_importing_is_light():
    code = "import sys, optfair.datasets as d; d.__all__; print('pandas' in sys.modules, d.load.__name__, d.names()[0])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "load", "adult"]
    with pytest.raises(AttributeError, match="has no attribute 'lod'"):
        datasets.lod  # noqa: B018
    assert set(datasets.__all__) <= set(dir(datasets))


def test_the_function_stays_the_function():
    """No module takes the place of a public name once it is imported."""
    datasets.load("adult", rows=10)
    assert all(callable(getattr(datasets, name)) for name in datasets.__all__)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "adutl"}, "name='adutl': must be one of 'adult', 'adult-occupation', 'enem'"),
        ({"name": None}, "name=None: must be one of"),
        ({"sensitive": "age"}, "sensitive='age': must be one of 'sex', 'race', 'sex-race' for 'adult'."),
        ({"sensitive": ("sex", "race")}, r"sensitive=\('sex', 'race'\): must be one of"),
        ({"size": 64}, "size=64: is not an option of 'adult'; it has no options of its own."),
        ({"name": "compas", "labels": 1}, "labels=1: is not an option of 'compas'; its own options are label."),
        ({"name": "compas", "label": "x"}, "label='x': must be one of 'score_text', 'two_year_recid'."),
        ({"name": "acs-income", "states": ["DC"]}, r"states=\['DC'\]: 'DC' is not one of AL, AK"),
        ({"name": "acs-income", "states": ["AL", "AL"]}, "must name at least one state, each once"),
        ({"name": "celeba", "sensitive": "old"}, "'age', 'sex', 'race' for 'celeba'; or one or several of the attrib"),
        ({"name": "celeba", "sensitive": ("Male", "Male")}, "must be one of"),
        ({"name": "celeba", "sensitive": ("sex", "Male")}, "must be different attributes"),
        ({"name": "celeba", "sensitive": "Smiling"}, "must be different attributes"),
        ({"name": "celeba", "labels": ("Smile",)}, r"labels=\('Smile',\): must be one or several, each once, of 5_o"),
        ({"rows": 0}, "rows=0: must be a whole number of at least 1, or None for all."),
        ({"rows": True}, "rows=True: must be"),
        ({"random_state": "x"}, "random_state='x': must be a seed, a generator of numpy, or None."),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        datasets.load(**{"name": "adult"} | options)


@pytest.mark.parametrize("name", [name for name in NAMES if not datasets.entry(name).embedded])
def test_a_file_that_is_not_there(name, folder):
    """Without the network and the file: one error that says which file, and what to do."""
    if name in ("celeba", "utkface"):
        pytest.importorskip("torch")
    entry = datasets.entry(name)
    file = entry.files[0].name if entry.files else entry.local_files[0]
    with pytest.raises(DataFileError, match=r"not found in \$OPTFAIR_DATA") as error:
        datasets.load(name, download=False)
    assert file in str(error.value) and "\n" not in str(error.value)


def test_terms_are_told_before_a_download(folder, monkeypatch):
    asked = []
    monkeypatch.setattr("optfair.datasets.store.obtain", lambda file, download: asked.append(file) or 1 / 0)
    terms = pytest.warns(OptFairWarning, match="CelebA may be used for non-commercial research only")
    with terms, pytest.raises(ZeroDivisionError):
        datasets.load("celeba", images=False)
    assert [file.name for file in asked] == ["celeba/list_attr_celeba.txt"]


# -- what the readers share ---------------------------------------------------------------------------------
def test_numbers_and_levels():
    frame = pd.DataFrame({"a": ["y", "x", "z", "x"], "n": [1, 2, 3, 4], "b": [2.0, 1.0, 2.0, 2.0]})
    found = numbers_and_levels(frame, ["a", "b"], np.array([3, 0]), drop_last=["a"])
    assert list(found.columns) == ["n", "a=x", "a=y", "b=1", "b=2"]
    np.testing.assert_array_equal(found, [[4, 1, 0, 0, 1], [1, 0, 1, 0, 1]])


def test_fifths_are_left_closed_at_values_that_occur():
    """10 values: the edges have the ranks 2, 4, 6, 8, and belong to the bin above."""
    codes, edges = left_closed_fifths(np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10]))
    assert edges.tolist() == [2, 4, 6, 8] and codes.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
    codes, edges = left_closed_fifths(np.array([5.0, 5, 5, 5, 9]))
    assert edges.tolist() == [5, 5, 5, 5] and codes.tolist() == [4, 4, 4, 4, 4]


# -- Adult --------------------------------------------------------------------------------------------------
ADULT = {"sex": (48_842, 106), "race": (48_842, 102), "sex-race": (46_447, 101)}  # as the released code prepares them


@pytest.mark.parametrize("sensitive", ADULT)
def test_adult_is_that_of_the_paper(sensitive):
    data = numbered(datasets.load("adult", sensitive=sensitive))
    assert data.X.shape == ADULT[sensitive] and set(data.X.dtypes.astype(str)) == {"float64"}
    assert data.class_names == ["<=50K", ">50K"] and data.y.name == "income" and data.stand_in is None
    assert data.X.to_numpy().min() >= 0 and data.X.to_numpy().max() == 1
    levels = Counter(column.partition("=")[0] for column in data.X if "=" in column)
    known = {"workclass": 9, "education": 16, "marital-status": 7, "occupation": 15, "relationship": 6}
    extra = {"sex": {"race": 5}, "race": {"sex": 1}, "sex-race": {}}[sensitive]
    assert levels == {**known, "native-country": 42, **extra}


def test_adult_by_sex():
    data = datasets.load("adult")
    assert data.sensitive_features.name == "sex" and data.group_names == ["female", "male"]
    found = pd.crosstab(data.sensitive_features, data.y)
    assert found.loc["male"].tolist() == [22_732, 9_918] and found.loc["female"].tolist() == [14_423, 1_769]
    first, second = data.X.iloc[:32_561], data.X.iloc[32_561:]
    for part in (first, second):  # each file by its own range
        numbers = part.iloc[:, :6]
        assert (numbers.min() == 0).all() and (numbers.max() == 1).all()
        assert (part.drop(columns=numbers.columns).filter(like="workclass=").sum(axis=1) == 1).all()
    assert first["age"][0] == (39 - 17) / (90 - 17) and first["hours-per-week"][0] == (40 - 1) / (99 - 1)
    assert first["native-country=Holand-Netherlands"].sum() == 1
    assert second["native-country=Holand-Netherlands"].sum() == 0
    assert data.X["workclass=?"].sum() == 2_799
    share = (data.sensitive_features == "male").mean(), (data.y == ">50K").mean()
    np.testing.assert_allclose(share, (0.6685, 0.2393), atol=5e-5)
    text = data.description
    for words in (
        "CC BY 4.0",
        "Becker, B. and Kohavi, R. (1996)",
        "https://doi.org/10.24432/C5XW20",
        "14423",
        "48,842",
    ):
        assert words in text
    assert max(map(len, text.splitlines())) <= 100


def test_adult_by_race_and_both():
    by_sex, by_race, both = (datasets.load("adult", sensitive=s) for s in ("sex", "race", "sex-race"))
    assert by_race.group_names == ["other", "white"]
    np.testing.assert_array_equal(by_race.sensitive_features == "white", by_sex.X["race=White"] == 1)
    np.testing.assert_array_equal(by_race.X["sex=female"] == 1, by_sex.sensitive_features == "female")
    assert both.group_names == [(s, r) for s in ("female", "male") for r in ("black", "white")]
    kept = (by_sex.X["race=Black"] + by_sex.X["race=White"]).to_numpy() == 1
    pd.testing.assert_frame_equal(both.X, by_sex.take(kept).X.drop(columns=by_sex.X.filter(like="race=").columns))
    np.testing.assert_array_equal(both.sensitive_features["sex"], by_sex.sensitive_features[kept])
    np.testing.assert_array_equal(both.sensitive_features["race"] == "black", by_sex.X["race=Black"][kept] == 1)


def test_occupation():
    data = numbered(datasets.load("adult-occupation"))
    adult = datasets.load("adult")
    assert len(data) == 48_842 - adult.X["occupation=?"].sum() == 46_033
    assert sorted(data.class_names) == sorted(["management", "professional", "clerical+sales", "manual", "service"])
    assert list(data.sensitive_features.columns) == ["sex", "race"] and len(data.group_names) == 4
    stated = {column.partition("=")[0] for column in data.X} & {"sex", "race", "relationship", "occupation"}
    assert not stated and "income=>50K" in data.X
    known = adult.X["occupation=?"] == 0
    work = adult.X.filter(like="occupation=").loc[known].idxmax(axis=1).str.removeprefix("occupation=").to_numpy()
    for kind, names in {
        "management": {"Exec-managerial"},
        "professional": {"Prof-specialty", "Tech-support"},
        "clerical+sales": {"Adm-clerical", "Sales"},
        "service": {"Other-service", "Priv-house-serv", "Protective-serv", "Armed-Forces"},
    }.items():
        np.testing.assert_array_equal(data.y == kind, np.isin(work, list(names)))
    assert datasets.load("adult-occupation", sensitive="race", rows=100).group_names == ["other", "white"]


def test_a_sample_and_its_rows():
    whole, some = datasets.load("adult"), datasets.load("adult", rows=500, random_state=3)
    rows = np.sort(np.random.default_rng(3).choice(len(whole), 500, replace=False))
    taken = numbered(whole.take(rows))
    for part in ("X", "y", "sensitive_features"):
        (pd.testing.assert_frame_equal if part == "X" else pd.testing.assert_series_equal)(
            getattr(some, part), getattr(taken, part)
        )
    assert len(datasets.load("adult", rows=10**6)) == len(whole)
    assert repr(some) == "<Dataset adult: 500 people, 106 features, 2 classes, 2 groups>"
    assert datasets.load("adult", rows=50, random_state=np.random.default_rng(1)).X.shape == (50, 106)


# -- ENEM ---------------------------------------------------------------------------------------------------
def examinee(score, **other):
    """A line of MICRODADOS_ENEM_2020.csv that passes the filters."""
    line = {"NU_INSCRICAO": "200000000001", "NU_ANO": 2020, "TP_FAIXA_ETARIA": 2, "TP_SEXO": "F", "TP_COR_RACA": 1}
    line |= {"TP_ST_CONCLUSAO": 1, "IN_TREINEIRO": 0, "NO_MUNICIPIO_PROVA": "São João d'Água", "SG_UF_PROVA": "AC"}
    line |= {f"TP_PRESENCA_{exam}": 1 for exam in ("CN", "CH", "LC", "MT")} | {"NU_NOTA_CH": score}
    line |= {f"Q{i:03d}": "A" for i in range(1, 26)} | {"Q005": 4}
    return line | other


# 0 is the lowest score and lies in no bin; 10..100 have the edges 20, 40, 60, 80, each in the bin below it.
PASS = [
    examinee(0.0),
    examinee(100.0, TP_COR_RACA=5, TP_SEXO="M", Q001="C", Q005=20, TP_FAIXA_ETARIA=20),
    examinee(10.0, TP_COR_RACA=2, Q001="B", Q005=1),
    examinee(20.0, TP_COR_RACA=3, SG_UF_PROVA="SP"),
    *(examinee(float(score)) for score in (30, 40, 50, 60, 70)),
    examinee(80.0, TP_COR_RACA=4, TP_SEXO="M"),
    examinee(90.0, SG_UF_PROVA="SP"),
]
FAIL = [
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


@pytest.fixture(params=["zip", "csv"])
def exam(request, folder, monkeypatch):
    mixed = [line for pair in zip(PASS, FAIL, strict=False) for line in pair] + PASS[len(FAIL) :] + FAIL[len(PASS) :]
    content = enem_csv(mixed)
    if request.param == "csv":
        return write(folder / "enem" / "MICRODADOS_ENEM_2020.csv", content)
    members = {"LEIA-ME/leia.txt": "não", "DADOS/ITENS_PROVA_2020.csv": "x", "DADOS/MICRODADOS_ENEM_2020.csv": content}
    monkeypatch.setattr("optfair.datasets.enem.CHUNK", 4)
    return write(folder / "enem" / "microdados_enem_2020.zip", zipped(members))


def test_enem(exam):
    data = numbered(datasets.load("enem", download=False))
    kept = [line for line in PASS if line["NU_NOTA_CH"] > 0]
    names = ["1st fifth", "2nd fifth", "3rd fifth", "4th fifth", "5th fifth"]
    assert data.y.tolist() == [names[int(np.ceil(line["NU_NOTA_CH"] / 20)) - 1] for line in kept]
    races = ["white", "black", "brown", "yellow", "indigenous"]
    assert data.sensitive_features.tolist() == [races[line["TP_COR_RACA"] - 1] for line in kept]
    # Q001 has A, B and C, the last is left out; the other questions have one level, which is the last; both states.
    expected = ["TP_SEXO=M", "Q005", "SG_UF_PROVA=AC", "SG_UF_PROVA=SP", "Q001=A", "Q001=B", "TP_FAIXA_ETARIA=2"]
    assert list(data.X.columns) == expected and set(data.X.dtypes.astype(str)) == {"float32"}
    by_hand = [
        [
            line["TP_SEXO"] == "M",
            (line["Q005"] - 1) / 19,
            line["SG_UF_PROVA"] == "AC",
            line["SG_UF_PROVA"] == "SP",
            line["Q001"] == "A",
            line["Q001"] == "B",
            line["TP_FAIXA_ETARIA"] == 2,
        ]
        for line in kept
    ]
    np.testing.assert_allclose(data.X, np.array(by_hand, dtype=float), atol=1e-7)
    assert data.stand_in is None and "0, 20, 40, 60, 80, 100" in data.description


def test_enem_by_other_groups(exam):
    pooled = datasets.load("enem", sensitive="race-pooled")
    assert pooled.group_names == ["black+brown", "white", "yellow+indigenous"]
    by_sex = numbered(datasets.load("enem", sensitive="sex"))
    assert by_sex.sensitive_features.tolist().count("male") == 2
    assert not by_sex.X.filter(like="SEXO").columns.size and by_sex.X.filter(like="race=").shape[1] == 5
    some = datasets.load("enem", rows=4, random_state=1)
    assert len(some) == 4 and "A random sample of the 10 people" in some.description
    assert list(some.X.columns) == list(pooled.X.columns)


# -- ACS ----------------------------------------------------------------------------------------------------
PUMS = [
    "RT",
    "SERIALNO",
    "AGEP",
    "COW",
    "SCHL",
    "MAR",
    "OCCP",
    "POBP",
    "RELP",
    "WKHP",
    "SEX",
    "RAC1P",
    "PINCP",
    "PWGTP",
]


def person(**other):
    line = {"RT": "P", "SERIALNO": "2018GQ0000049", "AGEP": 40, "COW": 1, "SCHL": 16, "MAR": 1, "OCCP": "0010"}
    line |= {"POBP": "001", "RELP": 0, "WKHP": 40, "SEX": 1, "RAC1P": 1, "PINCP": 30_000, "PWGTP": 12}
    return line | other


def pums(lines):
    """A person file: quoted serial numbers, leading zeros, blanks where a question was not asked."""
    rows = [
        ",".join(PUMS),
        *(",".join(f'"{line[c]}"' if c == "SERIALNO" else f"{line[c]}" for c in PUMS) for line in lines),
    ]
    return "\n".join(rows) + "\n"


ODD = [
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


def census(folder, odd="AL", **other):
    """All 51 archives: two people each, with every race code and rising incomes; the odd ones in one of them."""
    people = []
    for number, (state, code) in enumerate(entries.STATES.items()):
        lines = [person(RAC1P=number % 9 + 1, PINCP=1000 * number + 200), person(PINCP=1000 * number + 700, SEX=2)]
        lines += ODD if state == odd else []
        people += lines
        members = {"ACS2018_PUMS_README.pdf": b"%PDF", f"psam_p{code}.csv": pums(lines)}
        write(folder / "acs-income" / f"csv_p{state.lower()}.zip", zipped(members))
    return people


def test_acs_income(folder):
    people = census(folder)
    data = numbered(datasets.load("acs-income", download=False))
    asked = [p for p in people if all(p[c] != "" for c in ("PINCP", "WKHP"))]
    kept = [p for p in asked if p["AGEP"] > 16 and p["PINCP"] > 100 and p["WKHP"] > 0 and p["PWGTP"] >= 1]
    assert len(data) == len(kept) == 104
    incomes = sorted(p["PINCP"] for p in kept)
    edges = [incomes[int(np.ceil(104 * k / 5)) - 1] for k in (1, 2, 3, 4)]  # the smallest with rank/n ≥ k/5
    assert [int(name[0]) for name in data.y] == [1 + sum(p["PINCP"] >= edge for edge in edges) for p in kept]
    races = {1: "white", 2: "black", 3: "AIAN", 4: "AIAN", 5: "AIAN", 6: "asian+NHOPI", 7: "asian+NHOPI"}
    assert data.sensitive_features.tolist() == [races.get(p["RAC1P"], "other+mix") for p in kept]
    assert data.group_names == ["AIAN", "asian+NHOPI", "black", "other+mix", "white"]
    numbers = ["AGEP", "OCCP", "POBP", "RELP", "WKHP"]
    codes = ["COW=-1", "COW=1", "COW=8", "SCHL=-1", "SCHL=16", "SCHL=24", "MAR=1", "MAR=5", "SEX=1", "SEX=2"]
    assert list(data.X.columns) == [*numbers, *codes] and set(data.X.dtypes.astype(str)) == {"float32"}
    by_hand = [[-1 if p[c] == "" else int(p[c]) for c in numbers] for p in kept]
    np.testing.assert_array_equal(data.X[numbers], by_hand)
    for code in codes:
        column, _, level = code.partition("=")
        np.testing.assert_array_equal(data.X[code], [str(p[column] if p[column] != "" else -1) == level for p in kept])


def test_acs_income_by_sex_and_of_some_states(folder):
    census(folder)
    data = numbered(datasets.load("acs-income", sensitive="sex", states=["WY", "AL"]))
    assert len(data) == 6 and data.group_names == ["female", "male"] and "States: WY, AL." in data.description
    assert not data.X.filter(like="SEX").columns.size and "race=white" in data.X
    assert len(datasets.load("acs-income", states="PR")) == 2


def test_acs_stand_ins(folder):
    pytest.importorskip("pyarrow")
    schl = [1, 15, 16, 17, 18, 20, 21, 22, 24]
    columns = {"AGEP": 30, "COW": 1, "MAR": 5, "OCCP": 4999, "POBP": 399, "RELP": 17, "WKHP": 40, "SEX": [1, 2, 1] * 3}
    frame = pd.DataFrame(
        {"SCHL": schl, "RAC1P": range(1, 10), "STATE": "AK", "PINCP_gt_50k": [True, False, True] * 3, **columns}
    )
    write(folder / "acsincome2018" / "acsincome2018_46states_binary.parquet", b"")
    frame.to_parquet(folder / "acsincome2018" / "acsincome2018_46states_binary.parquet")
    levels = ["0 no diploma"] * 2 + ["1 high school"] * 2 + ["2 some college"] * 2 + ["3 bachelor"] + ["4 higher"] * 2
    races = ["white", "black", *["AIAN"] * 3, *["asian+NHOPI"] * 2, *["other+mix"] * 2]
    school = numbered(datasets.load("acs-education"))
    assert school.y.tolist() == levels and school.sensitive_features.tolist() == races
    assert "OCCP=9" in school.X and "POBP=3" in school.X and not school.X.filter(regex="SCHL|RAC1P|STATE").size
    income = numbered(datasets.load("acs-income-binary"))
    assert income.y.tolist() == [">50K", "<=50K", ">50K"] * 3 and income.sensitive_features.tolist() == races
    assert "SCHL=24" in income.X and not income.X.filter(regex="PINCP|RAC1P|STATE").size
    assert income.stand_in and datasets.load("acs-education", sensitive="sex").group_names == ["female", "male"]


# -- COMPAS -------------------------------------------------------------------------------------------------
def defendant(**other):
    line = {"id": 1, "name": "x", "sex": "Male", "age": 34, "race": "Caucasian", "juv_fel_count": 0, "decile_score": 3}
    line |= {"juv_misd_count": 1, "juv_other_count": 2, "priors_count": 4, "days_b_screening_arrest": -1}
    line |= {"c_charge_degree": "F", "is_recid": 0, "score_text": "Low", "two_year_recid": 0}
    return line | other


def compas_csv(lines):
    file = io.StringIO()
    writer = csv.DictWriter(file, list(lines[0]))
    writer.writeheader()
    writer.writerows(lines)
    # Twice in the published table, as are two_year_recid's neighbours.
    return "\n".join(
        line + ("," + ("decile_score" if i == 0 else "9")) for i, line in enumerate(file.getvalue().split())
    )


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


def test_compas(folder):
    write(folder / "compas" / "compas-scores-two-years.csv", compas_csv(DEFENDANTS))
    data = numbered(datasets.load("compas", download=False))
    assert data.y.tolist() == ["0 low", "2 high", "1 medium", "1 medium", "0 low", "0 low"]
    assert data.sensitive_features.tolist() == ["Caucasian", "African-American", "other", "other", "Hispanic", "other"]
    columns = [
        "age",
        "priors_count",
        "juv_fel_count",
        "juv_misd_count",
        "juv_other_count",
        "c_charge_degree=F",
        "sex=Female",
    ]
    assert list(data.X.columns) == columns
    assert data.X.iloc[1].tolist() == [34, 4, 0, 1, 2, 0, 1] and data.X.iloc[2].tolist() == [19, 0, 0, 1, 2, 1, 0]
    again = numbered(datasets.load("compas", sensitive="sex", label="two_year_recid"))
    assert again.y.tolist() == ["yes", "no", "no", "no", "yes", "no"] and again.group_names == ["female", "male"]
    assert not again.X.filter(like="sex").columns.size and again.X["race=other"].tolist() == [0, 0, 1, 1, 0, 1]


# -- faces --------------------------------------------------------------------------------------------------
def unchecked(monkeypatch, name):
    """The entry without its checksums: our files are not the published ones."""
    entry = datasets.entry(name)
    files = tuple(replace(file, checksum=None, checksum_origin="") for file in entry.files)
    monkeypatch.setitem(entries.ENTRIES, name, replace(entry, files=files))


def celeba_people(n=8):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 2, (n, 40)), columns=list(entries.CELEBA_ATTRIBUTES))
    table.index = [f"{i:06d}.jpg" for i in range(1, n + 1)]
    # All four classes and both groups occur.
    table["Smiling"], table["Big_Nose"] = np.arange(n) // 2 % 2, np.arange(n) % 2
    table["Young"], table["Male"] = np.arange(n) % 3 > 0, np.arange(n) > 3
    return table.astype(int)


def celeba_text(table):
    lines = [
        f"{name} {'  '.join('1' if v else '-1' for v in line)}"
        for name, line in zip(table.index, table.to_numpy(), strict=True)
    ]
    return "\n".join([str(len(table)), " ".join(table.columns) + " ", *lines]) + "\n"


def jpeg(colour, size=(178, 218)):
    Image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "JPEG", quality=95)
    return file.getvalue()


@pytest.fixture
def celeba(folder, monkeypatch):
    unchecked(monkeypatch, "celeba")
    table = celeba_people()
    write(folder / "celeba" / "list_attr_celeba.txt", celeba_text(table))
    return table


CLASSES = ["0 none", "1 Big_Nose", "2 Smiling", "3 Smiling + Big_Nose"]


def test_celeba_attributes(celeba):
    data = numbered(datasets.load("celeba", images=False, download=False))
    assert data.y.tolist() == CLASSES * 2 and data.class_names == CLASSES and data.stand_in is None
    assert data.sensitive_features.name == "age"
    assert data.sensitive_features.tolist() == ["young" if young else "old" for young in celeba["Young"]]
    pd.testing.assert_frame_equal(
        data.X, celeba.drop(columns=["Smiling", "Big_Nose", "Young"]).reset_index(drop=True), check_dtype=False
    )
    by_sex = datasets.load("celeba", images=False, sensitive="sex", labels="Smiling", rows=5)
    assert by_sex.class_names == ["0 none", "1 Smiling"] and len(by_sex) == 5 and "Male" not in by_sex.X
    assert datasets.load("celeba", images=False, sensitive="race").sensitive_features.isin(["pale", "not pale"]).all()


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_scalability_sets_of_the_paper(celeba, k):
    groups, labels = (
        ("Young", "Male", "Black_Hair")[:k],
        ("Smiling", "Big_Nose", "Attractive", "Bags_Under_Eyes")[: k + 1],
    )
    data = numbered(datasets.load("celeba", images=False, sensitive=groups, labels=labels))
    code = sum(celeba[label] * 2 ** (k - i) for i, label in enumerate(labels))
    assert [int(name.split()[0]) for name in data.y] == code.tolist()
    assert data.class_names == sorted(data.class_names, key=lambda name: int(name.split()[0]))
    assert data.X.shape[1] == 40 - k - (k + 1)
    who = data.sensitive_features if k > 1 else data.sensitive_features.to_frame()
    for group in groups:
        yes = {"Young": "young", "Male": "male"}.get(group, group)
        np.testing.assert_array_equal(who[group] == yes, celeba[group] == 1)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of Python 3.12, for fork where threads are
@pytest.mark.parametrize("where", ["zip", "folder"])
def test_celeba_pictures(celeba, folder, where):
    torch = pytest.importorskip("torch")
    colours = {name: (30 * i, 10, 250 - 30 * i) for i, name in enumerate(celeba.index)}
    if where == "zip":
        members = {"img_align_celeba/": b""} | {f"img_align_celeba/{n}": jpeg(c) for n, c in reversed(colours.items())}
        write(folder / "celeba" / "img_align_celeba.zip", zipped(members))
    else:
        for name, colour in colours.items():
            write(folder / "celeba" / "img_align_celeba" / name, jpeg(colour))
    data = datasets.load("celeba", size=8, download=False)
    assert len(data) == 8 and data.feature_names == [] and "an image each" in repr(data) and data.stand_in is None
    for row, colour in enumerate(colours.values()):
        assert np.abs(data.X.picture(row).astype(int) - colour).max() <= 3
    x, y, group = data.X[2]
    assert x.shape == (3, 8, 8) and (y, group) == (data.y[2], data.sensitive_features[2])
    restored = pickle.loads(pickle.dumps(data.X))  # with the archive open
    np.testing.assert_array_equal(restored[5][0], data.X[5][0])
    loaded = list(torch.utils.data.DataLoader(data.X, batch_size=None, num_workers=2))
    assert [item[1] for item in loaded] == data.y.tolist()
    assert all(torch.equal(item[0], data.X[i][0]) for i, item in enumerate(loaded))
    both = datasets.load("celeba", size=8, sensitive=("age", "sex"), rows=3)
    assert both.X[0][2] == tuple(both.sensitive_features.iloc[0]) and list(both.sensitive_features) == ["age", "sex"]
    part = data.take(np.array([3, 1]))
    assert part.X[0][1] == data.y[3] == part.y[0]


def test_celeba_with_pictures_missing(celeba, folder):
    pytest.importorskip("torch")
    pictures = {f"img_align_celeba/{name}": jpeg((9, 9, 9)) for name in celeba.index[:6]}
    path = write(folder / "celeba" / "img_align_celeba.zip", zipped(pictures | {"img_align_celeba/.DS_Store": b"x"}))
    with pytest.warns(OptFairWarning, match="2 of 8 pictures are missing"):
        assert len(datasets.load("celeba", size=8)) == 6
    write(path, zipped({"a/b.jpg": b""}))
    with pytest.raises(DataFileError, match="none of the pictures is named in the table of attributes"):
        datasets.load("celeba", size=8)


def test_the_stand_in_of_celeba(celeba, folder):
    pytest.importorskip("torch")
    pytest.importorskip("pyarrow")
    some = {"filename": celeba.index[:3], "jpeg": [jpeg((i, i, i), (89, 109)) for i in (10, 20, 30)]}
    pd.DataFrame(some).to_parquet(folder / "celeba" / "celeba_first10k_images_89x109_jpeg.parquet")
    data = datasets.load("celeba", size=8, download=False)
    assert len(data) == 3 and data.stand_in.startswith("CelebA") and data.stand_in in data.description
    assert data.y.tolist() == CLASSES[:3] and data.X.picture(2)[0, 0].tolist() == [30, 30, 30]
    (folder / "celeba" / "list_attr_celeba.txt").unlink()
    table = (celeba == 1).rename_axis("filename").reset_index()
    table.to_parquet(folder / "celeba" / "celeba_attributes.parquet")
    assert datasets.load("celeba", size=8, download=False).y.tolist() == CLASSES[:3]
    assert datasets.load("celeba", images=False, download=False).stand_in is None


def test_the_published_checksum_counts(folder):
    write(folder / "celeba" / "list_attr_celeba.txt", celeba_text(celeba_people()))
    with pytest.raises(DataFileError, match=r"list_attr_celeba.txt: its md5 is .*published by torchvision"):
        datasets.load("celeba", images=False, download=False)


UTK = {  # name: (age, sex, race), or None where it is left out
    "1_0_0_20161219140623097.jpg.chip.jpg": ("0-17", "male", "white"),
    "17_1_1_20170109.jpg.chip.jpg": ("0-17", "female", "black"),
    "18_0_2_20170109.jpg.chip.jpg": ("18-29", "male", "asian"),
    "29_1_3_20170109 .jpg.chip.jpg": ("18-29", "female", "indian"),
    "30_0_4_20170109jpg.chip.jpg": ("30-44", "male", "other"),
    "44_1_0_20170109.jpg": ("30-44", "female", "white"),
    "45_0_0_20170109.jpg.chip.jpg": ("45-59", "male", "white"),
    "59_1_1_20170109.jpg.chip.jpg": ("45-59", "female", "black"),
    "60_0_1_20170109.jpg.chip.jpg": ("60+", "male", "black"),
    "116_1_0_20170120134921760.jpg.chip.jpg": ("60+", "female", "white"),
    "61_1_20170109142408075.jpg.chip.jpg": None,
    "39_1_20170116174525125.jpg.chip.jpg": None,
}


@pytest.mark.parametrize("where", ["tar", "folder"])
def test_utkface(folder, where):
    pytest.importorskip("torch")
    pictures = {name: jpeg((20 * i, 0, 0), (200, 200)) for i, name in enumerate(UTK)}
    if where == "folder":
        for name, content in pictures.items():
            write(folder / "utkface" / "UTKFace" / name, content)
    else:
        (folder / "utkface").mkdir()
        with tarfile.open(folder / "utkface" / "UTKFace.tar.gz", "w:gz") as archive:
            for name, content in (pictures | {"._1_0_0_2.jpg": b"Mac OS X", "README": b""}).items():
                member = tarfile.TarInfo(f"UTKFace/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    data = datasets.load("utkface", size=8, download=False)
    kept = sorted(name for name, truth in UTK.items() if truth)
    assert data.y.tolist() == [UTK[name][0] for name in kept] and data.stand_in is None
    assert data.sensitive_features.tolist() == [UTK[name][2] for name in kept]
    assert data.class_names == ["0-17", "18-29", "30-44", "45-59", "60+"]
    for row, name in enumerate(kept):
        assert abs(int(data.X.picture(row)[4, 4, 0]) - 20 * list(UTK).index(name)) <= 3
    by_sex = datasets.load("utkface", sensitive="sex", rows=4)
    assert set(by_sex.group_names) <= {"male", "female"} and by_sex.X[0][0].shape == (3, 64, 64)


# -- what is wrong with a file ------------------------------------------------------------------------------
HTML = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head>\n<body>Quota exceeded; try, again</body></html>\n"


def break_file(name, folder, how):
    """The file of a data set, damaged; -> its path."""
    if name == "enem":
        path, whole = (
            folder / "enem" / "microdados_enem_2020.zip",
            {"DADOS/MICRODADOS_ENEM_2020.csv": enem_csv(PASS * 50)},
        )
    elif name == "acs-income":
        path, whole = folder / "acs-income" / "csv_pwy.zip", {"psam_p56.csv": pums(ODD * 50)}
    elif name == "utkface":
        path, whole = folder / "utkface" / "UTKFace.tar.gz", None
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w:gz") as archive:
            for i in range(5):
                member = tarfile.TarInfo(f"UTKFace/{i}_0_0_2.jpg")
                member.size = 4000
                archive.addfile(member, io.BytesIO(np.random.default_rng(i).bytes(4000)))
        return write(path, {"html": HTML, "empty": b"", "truncated": file.getvalue()[:-9000]}[how])
    elif name == "celeba":
        text = celeba_text(celeba_people()).encode()
        damaged = {"html": HTML, "empty": b"", "truncated": text[:-700], "column": text.replace(b" Young", b" Yung")}
        damaged["values"] = text.replace(b" -1", b" 0")
        return write(folder / "celeba" / "list_attr_celeba.txt", damaged[how])
    else:
        text = compas_csv(DEFENDANTS).encode()
        damaged = {
            "html": HTML,
            "empty": b"",
            "column": text.replace(b"priors_count", b"prior"),
            "truncated": text[:150],
        }
        damaged["values"] = text.replace(b",34,", b",old,")
        return write(folder / "compas" / "compas-scores-two-years.csv", damaged[how])
    (member, content) = next(iter(whole.items()))
    content = content if isinstance(content, bytes) else content.encode()
    damaged = {
        "html": HTML,
        "empty": b"",
        "truncated": zipped(whole)[:-200],
        "bits": zipped(whole)[:200] + b"\0" * 60 + zipped(whole)[260:],
        "member": zipped({"other.csv": "x"}),
        "column": zipped({member: content.replace(b"NU_NOTA_CH", b"NU_NOTA").replace(b"PINCP", b"PINC")}),
        "page": zipped({member: HTML}),
        "header": zipped({member: content.splitlines(keepends=True)[0]}),
        "values": zipped({member: content.replace(b";A;", b";aa;").replace(b",40,", b",forty,")}),
    }
    return write(path, damaged[how])


HOW = {
    "enem": ("html", "empty", "truncated", "bits", "member", "column", "page", "header", "values"),
    "acs-income": ("html", "empty", "truncated", "bits", "member", "column", "page", "header", "values"),
    "utkface": ("html", "empty", "truncated"),
    "celeba": ("html", "empty", "truncated", "column", "values"),
    "compas": ("html", "empty", "truncated", "column", "values"),
}


@pytest.mark.parametrize(("name", "how"), [(name, how) for name, ways in HOW.items() for how in ways])
def test_a_broken_file_is_named_in_one_line(name, how, folder, monkeypatch):
    unchecked(monkeypatch, name)
    if name == "utkface":
        pytest.importorskip("torch")
    options = {"celeba": {"images": False}, "acs-income": {"states": ["WY"]}}.get(name, {})
    path = break_file(name, folder, how)
    with pytest.raises(DataFileError) as error:
        datasets.load(name, download=False, **options)
    message = str(error.value)
    assert str(path) in message or (how == "header" and str(path.parent) in message)
    assert "\n" not in message and len(message) < 600


# -- extras -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["celeba", "utkface"])
def test_pictures_without_torch(name):
    code = f"""
import sys
sys.modules["torch"] = None
from optfair import datasets
try:
    datasets.load({name!r}, download=False)
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith('needs torch: pip install "optfair[torch]"') and done.stderr == ""


@pytest.mark.parametrize("name", [name for name in NAMES if datasets.entry(name).stand_in_for])
def test_parquet_without_pyarrow(name, folder, monkeypatch):
    write(folder / datasets.entry(name).local_files[0], b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=rf'load\({name!r}\) needs pyarrow: pip install "optfair\[parquet\]"'):
        datasets.load(name)


@pytest.mark.parametrize("name", [name for name in NAMES if datasets.entry(name).stand_in_for])
def test_a_broken_parquet_file(name, folder):
    pytest.importorskip("pyarrow")
    path = write(folder / datasets.entry(name).local_files[0], HTML)
    with pytest.raises(DataFileError, match="cannot be read as a Parquet table") as error:
        datasets.load(name)
    assert str(path) in str(error.value) and "\n" not in str(error.value)
