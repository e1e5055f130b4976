"""Share fitted classifiers among the tests of `optfair.estimators`; tests only read them."""

import pytest

from optfair.utils.parallel import one_blas_thread
from tests.estimators.helpers import NEW, SEX, Y_NEW, X, Y, make_post
from tests.threads import single_thread


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Limit numerical libraries to one thread: the models are tiny, and threads would only wait."""
    with single_thread(), one_blas_thread():
        yield


@pytest.fixture(scope="session")
def blind_post():
    """Return a blind OptFairPost."""
    with single_thread():
        return make_post().fit(X, Y, sensitive_features=SEX)


@pytest.fixture(scope="session")
def aware_post():
    """Return an OptFairPost that is given the group of each row at prediction."""
    with single_thread():
        return make_post(awareness="aware").fit(X, Y, sensitive_features=SEX)


@pytest.fixture(scope="session")
def undecided_post():
    """Return an OptFairPost whose rule is randomised for most rows, because its temperature is high."""
    with single_thread():
        return make_post(sensitive_features="sex", temperature=0.3).fit(NEW[["x1", "x2", "sex"]], Y_NEW)
