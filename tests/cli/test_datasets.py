"""``optfair datasets``: the list, a description, a data set as a table."""

import importlib.util
from urllib.error import HTTPError
from urllib.request import Request

import pandas as pd
import pytest

from optfair.datasets.download import _Redirects

# Writing Adult as CSV takes 2 s of CPU, as Parquet 0.2 s.
ENDING = "parquet" if importlib.util.find_spec("pyarrow") else "csv"
READ = {"parquet": pd.read_parquet, "csv": pd.read_csv}[ENDING]


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    """Hide the data folder and the cache of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("OPTFAIR_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def test_data_sets_are_listed_and_described(run, no_data, tmp_path):
    code, out, err = run("datasets")
    assert (code, err) == (0, "")
    for name in ("adult-occupation", "enem", "celeba", "in the package", "to download", "$OPTFAIR_DATA: not set"):
        assert name in out
    code, out, _ = run("datasets", "enem")
    assert code == 0 and str(tmp_path / "optfair" / "enem") in out and "https://download.inep.gov.br" in out


def test_a_data_set_as_a_table(run, tmp_path):
    path = tmp_path / f"work.{ENDING}"
    code, out, _ = run("datasets", "adult-occupation", "-o", path)
    assert code == 0 and "46,033 people; label 'occupation', groups 'sex', 'race'" in out
    table = READ(path)
    assert len(table) == 46_033 and {"occupation", "sex", "race", "age"} <= set(table.columns)


def test_a_data_set_in_two_parts(run, refuse, tmp_path):
    train, test = (tmp_path / f"{name}.{ENDING}" for name in ("train", "test"))
    assert run("datasets", "adult", "-o", train, "--test", test)[0] == 0
    n_train, n_test = len(READ(train)), len(READ(test))
    assert n_train + n_test == 48_842 and abs(n_test / 48_842 - 0.3) < 1e-3
    assert "--test: needs -o OUT" in refuse("datasets", "adult", "--test", test)


def test_a_data_set_of_the_package_is_not_downloaded(run):
    code, out, _ = run("datasets", "adult", "--download")
    assert code == 0 and "nothing to download; it is in the package" in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["iris"], "there is no such data set; there are adult"),
        (["--download"], "NAME: missing"),
        (["enem-2019", "-o", "enem.csv"], "set OPTFAIR_DATA"),
    ],
)
def test_data_sets_that_cannot_be_loaded(refuse, no_data, tmp_path, argv, message):
    assert message in refuse("datasets", *argv)
    assert list(tmp_path.iterdir()) == []


def test_downloads_do_not_leave_https():
    request = Request("https://example.org/x.zip")
    with pytest.raises(HTTPError, match="not secure"):
        _Redirects().redirect_request(request, None, 302, "Found", {}, "http://example.org/x.zip")
    assert _Redirects().redirect_request(request, None, 302, "Found", {}, "https://example.com/x.zip") is not None
