"""Fixtures of the tests of the baselines."""

import pytest

from tests.threads import single_thread


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with single_thread():
        yield
