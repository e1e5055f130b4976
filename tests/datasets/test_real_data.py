"""The data in $OPTFAIR_DATA: their documented counts, and Adult as it comes with the package."""

import lzma
from collections import Counter
from importlib import resources

import numpy as np
import pandas as pd
import pytest

from optfair import datasets

pytestmark = pytest.mark.data

PICTURES = ("celeba", "utkface")


def load(name, **options):
    """Load a data set; skip where an extra or the file is missing."""
    if not datasets.entry(name).embedded:
        pytest.importorskip("pyarrow")
    if name in PICTURES:
        pytest.importorskip("torch")
    if datasets.catalogue()["where"][name] not in ("$OPTFAIR_DATA", "in the package"):
        pytest.skip(f"{name} is not in OPTFAIR_DATA")
    return datasets.load(name, download=False, **options)


def group_counts(data):
    return dict(Counter(data.sensitive_features))


@pytest.mark.parametrize("name", datasets.names())
def test_every_choice_loads(data_dir, name):
    entry = datasets.entry(name)
    for sensitive in entry.sensitive:
        data = load(name, sensitive=sensitive, rows=5000)
        assert len(data) == 5000 == len(data.X) and bool(data.stand_in) == bool(entry.stand_in_for or name in PICTURES)
        assert data.stand_in is None or f"A stand-in for {data.stand_in}." in " ".join(data.description.split())
        if name not in PICTURES:
            assert isinstance(data.X.index, pd.RangeIndex) and np.isfinite(data.X.to_numpy()).all()
            columns = {column.partition("=")[0].lower() for column in data.X}
            for word in sensitive.removesuffix("-pooled").split("-"):
                assert columns.isdisjoint({word, {"sex": "tp_sexo", "race": "rac1p"}[word]})


@pytest.mark.parametrize("name", ["adult.data", "adult.test"])
def test_adult_is_the_published_file(data_dir, name):
    packed = resources.files("optfair.datasets").joinpath("embedded", f"{name}.xz").read_bytes()
    assert lzma.decompress(packed) == (data_dir / "adult" / name).read_bytes()


def test_enem_2019(data_dir):
    """23,783 people pass the filters; those of the lowest score are left out."""
    data = load("enem-2019", sensitive="race")
    raw = pd.read_parquet(data_dir / "enem2019_ac_rr" / "enem2019_ac_rr.parquet")
    eligible = raw[(raw.filter(like="TP_PRESENCA") == 1).all(axis=1) & (raw["IN_TREINEIRO"] == 0)]
    eligible = eligible[(eligible["TP_COR_RACA"] > 0) & (eligible["TP_ST_CONCLUSAO"] == 1)]
    races = {1: "white", 2: "black", 3: "brown", 4: "yellow", 5: "indigenous"}
    counts = {"brown": 16_766, "white": 3_432, "black": 2_544, "yellow": 661, "indigenous": 380}
    assert eligible["TP_COR_RACA"].map(races).value_counts().to_dict() == counts
    above = eligible[eligible["NU_NOTA_CH"] > eligible["NU_NOTA_CH"].min()]
    assert data.sensitive_features.tolist() == above["TP_COR_RACA"].map(races).tolist() and len(data) == 23_763
    fifths = pd.qcut(eligible["NU_NOTA_CH"], 5).cat.codes[above.index] + 1
    assert [int(name[0]) for name in data.y] == fifths.tolist()
    pooled = load("enem-2019")
    assert group_counts(pooled)["yellow+indigenous"] == sum(
        group_counts(data)[race] for race in ("yellow", "indigenous")
    )


# RAC1P of 1,121,894 people, codes 1..9: white, black, AIAN, Asian + NHOPI, other + two or more.
RACES = {"white": 912_372, "black": 102_115, "AIAN": 11_708, "asian+NHOPI": 46_349, "other+mix": 49_350}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["acs-education", "acs-income-binary"])
def test_acs_of_46_states(data_dir, name):
    data = load(name)
    assert len(data) == 1_121_894 and group_counts(data) == RACES and set(data.X.dtypes.astype(str)) == {"float32"}


def test_acs_government(data_dir):
    data = load("acs-government")
    counts = {"white": 156_835, "black": 23_483, "asian+NHOPI": 9_859 + 445, "other+mix": 4_954 + 5_416, "AIAN": 3_317}
    assert len(data) == 204_309 and group_counts(data) == counts
    salary = pd.read_parquet(data_dir / "acs2018_gov_census" / "gov_census.parquet", columns=["salary"])["salary"]
    ranges = salary.groupby(data.y).agg(["min", "max"])
    assert (ranges["max"].to_numpy()[:-1] < ranges["min"].to_numpy()[1:]).all()
    # Edge q is the smallest salary that at least a share q has or is below.
    for q, edge in zip((0.2, 0.4, 0.6, 0.8), ranges["min"][1:], strict=True):
        assert (salary <= edge).mean() >= q > (salary < edge).mean()


def test_celeba(data_dir):
    data = load("celeba", size=16)
    assert len(data) == 10_000 and len(data.class_names) == 4 and data.X[9_999][0].shape == (3, 16, 16)
    table = datasets.load("celeba", images=False, download=False)
    assert len(table) == 202_599 and table.X.shape[1] == 37 and table.stand_in is None
    np.testing.assert_array_equal(table.y[:10_000], data.y)  # the first pictures, in order
    np.testing.assert_array_equal(table.sensitive_features[:10_000], data.sensitive_features)


def test_utkface(data_dir):
    data = load("utkface", size=16)
    counts = {"white": 10_078, "black": 4_525, "asian": 3_434, "indian": 3_975, "other": 1_692}
    assert len(data) == 23_704 and group_counts(data) == counts
    table = pd.read_parquet(data_dir / "utkface" / "utkface_64x64_jpeg.parquet", columns=["filename", "age"])
    ages = table.sort_values("filename", ignore_index=True)["age"].groupby(data.y).agg(["min", "max"])
    assert ages["min"].tolist() == [1, 18, 30, 45, 60] and ages["max"].tolist()[:4] == [17, 29, 44, 59]


def test_compas(data_dir):
    data = load("compas")
    assert len(data) == 6_172 and data.stand_in is None  # as in ProPublica's own analysis
    counts = {"African-American": 3_175, "Caucasian": 2_103, "Hispanic": 509, "other": 343 + 31 + 11}
    assert group_counts(data) == counts
    assert set(load("compas", label="two_year_recid").y) == {"no", "yes"}
