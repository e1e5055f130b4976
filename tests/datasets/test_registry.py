"""The catalogue and `load`: entries are complete, locations are right, wrong arguments are named."""

import importlib
import inspect
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from optfair import OptFairWarning, datasets
from optfair.datasets import entries
from optfair.errors import DataFileError
from tests.datasets.files import CELEBA_FOLDER, CELEBA_TXT, COMPAS_CSV, ENEM_CSV, UTK_TAR, check_table, write

NAMES = datasets.names()


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


def test_the_catalogue_says_where(data_folder, cache):
    table = datasets.catalogue()
    assert list(table.index) == NAMES == list(entries.ENTRIES)
    where = table["where"]
    assert where["adult"] == where["adult-occupation"] == "in the package"
    assert where["acs-income"] == where["celeba"] == where["compas"] == "to download"
    assert where["utkface"] == where["enem-2019"] == "by hand"
    write(data_folder / "enem2019_ac_rr" / "enem2019_ac_rr.parquet", b"")
    write(data_folder / UTK_TAR, b"")
    write(cache / COMPAS_CSV, b"")
    where = datasets.catalogue()["where"]
    assert where["enem-2019"] == where["utkface"] == "$OPTFAIR_DATA" and where["compas"] == "cache"
    write(data_folder / CELEBA_TXT, b"")
    (data_folder / CELEBA_FOLDER).mkdir()
    write(cache / ENEM_CSV, b"")
    where = datasets.catalogue()["where"]
    assert where["celeba"] == "$OPTFAIR_DATA" and where["enem"] == "cache"


def test_the_files_of_acs_are_those_of_the_states():
    """50 states and Puerto Rico, without the District of Columbia, each with its FIPS code."""
    assert len(entries.STATES) == 51 == len(set(entries.STATES.values()))
    assert "DC" not in entries.STATES and entries.STATES["PR"] == "72" and entries.STATES["WY"] == "56"
    assert entries.STATES["AK"] == "02" and entries.STATES["RI"] == "44"  # 03, 07, 14, 43 and 52 do not exist
    names = [file.name for file in datasets.entry("acs-income").files]
    assert names[0] == "acs-income/csv_pal.zip" and names[-1] == "acs-income/csv_ppr.zip" and len(names) == 51


def test_importing_is_light():
    code = "import sys, optfair.datasets as d; d.__all__; print('pandas' in sys.modules, d.load.__name__, d.names()[0])"
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "load", "adult"]
    with pytest.raises(AttributeError, match="has no attribute 'lod'"):
        datasets.lod  # noqa: B018
    assert set(datasets.__all__) <= set(dir(datasets))


def test_the_function_stays_the_function():
    """No module takes the place of a public name once it is imported."""
    datasets.load("adult", rows=10)
    assert all(callable(getattr(datasets, name)) for name in datasets.__all__)


def test_a_sample_and_its_rows(adult):
    whole, sample = adult(), datasets.load("adult", rows=500, random_state=3)
    rows = np.sort(np.random.default_rng(3).choice(len(whole), 500, replace=False))
    expected = check_table(whole.take(rows))
    pd.testing.assert_frame_equal(sample.X, expected.X)
    pd.testing.assert_series_equal(sample.y, expected.y)
    pd.testing.assert_series_equal(sample.sensitive_features, expected.sensitive_features)
    assert len(datasets.load("adult", rows=10**6)) == len(whole)
    assert repr(sample) == "<Dataset adult: 500 people, 106 features, 2 classes, 2 groups>"
    assert datasets.load("adult", rows=50, random_state=np.random.default_rng(1)).X.shape == (50, 106)


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
        ({"rows": 0}, "rows=0: must be an integer >= 1, or None for all."),
        ({"rows": True}, "rows=True: must be"),
        ({"random_state": "x"}, "random_state='x': must be None, an integer >= 0, or a NumPy generator."),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        datasets.load(**{"name": "adult"} | options)


@pytest.mark.parametrize("name", [name for name in NAMES if not datasets.entry(name).embedded])
def test_a_missing_file(name, data_folder):
    """Without the network and the file: one error that says which file, and what to do."""
    if name in ("celeba", "utkface"):
        pytest.importorskip("torch")
    entry = datasets.entry(name)
    file = entry.files[0].name if entry.files else entry.local_files[0]
    with pytest.raises(DataFileError, match=r"not found in \$OPTFAIR_DATA") as error:
        datasets.load(name, download=False)
    assert file in str(error.value) and "\n" not in str(error.value)


def test_terms_are_shown_before_a_download(data_folder, monkeypatch):
    requests = []
    monkeypatch.setattr("optfair.datasets.store.obtain", lambda file, download: requests.append(file) or 1 / 0)
    terms = pytest.warns(OptFairWarning, match="CelebA may be used for non-commercial research only")
    with terms, pytest.raises(ZeroDivisionError):
        datasets.load("celeba", images=False)
    assert [file.name for file in requests] == [CELEBA_TXT]


# -- extras -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["celeba", "utkface"])
def test_pictures_without_torch(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'needs torch: pip install "optfair\[torch\]"$'):
        datasets.load(name, download=False)


@pytest.mark.parametrize("name", [name for name in NAMES if datasets.entry(name).stand_in_for])
def test_parquet_without_pyarrow(name, data_folder, monkeypatch):
    write(data_folder / datasets.entry(name).local_files[0], b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=rf'load\({name!r}\) needs pyarrow: pip install "optfair\[parquet\]"'):
        datasets.load(name)
