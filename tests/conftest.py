"""Settings and fixtures that all the tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Before anything imports matplotlib: tests have no display.
os.environ.setdefault("MPLBACKEND", "Agg")

# In CI the examples are the same on every run, so that a failure is never a matter of luck.
settings.register_profile("optfair", deadline=None)
settings.register_profile("optfair-ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("optfair-ci" if os.environ.get("CI") else "optfair")


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 256 rows, so that small data have several."""
    monkeypatch.setattr("optfair.utils.parallel.BLOCK_ROWS", 256)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the data, named by $OPTFAIR_DATA."""
    value = os.environ.get("OPTFAIR_DATA")
    if not value:
        pytest.skip("set OPTFAIR_DATA to the folder with the data")
    path = Path(value)
    if not path.is_dir():
        pytest.fail(f"OPTFAIR_DATA={value!r}: must be an existing folder")
    return path
