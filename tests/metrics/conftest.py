"""Fixtures of the tests of `optfair.metrics`."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Limit numerical libraries to one thread: the matrices are tiny, and threads would only wait."""
    with threadpool_limits(1):
        yield
