"""Fixtures that the tests of experiments/ share."""

import pytest

from experiments.catalogue import read_data, read_methods
from tests.experiments.lines import finished_plan


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    """Make a machine that has only the data of the package."""
    for name in ("OPTFAIR_DATA", "XDG_CACHE_HOME"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture(scope="session")
def data_plans():
    return read_data()


@pytest.fixture(scope="session")
def methods():
    return read_methods()


@pytest.fixture(scope="session")
def adult_plan():
    """Return a plan with lines of the frontiers on Adult, all values of the knobs, five seeds; not to be changed."""
    return finished_plan(("frontiers",), ("adult",), smoke=False)
