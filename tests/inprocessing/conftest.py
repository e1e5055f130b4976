"""Share settings and fitted models among the tests of this folder."""

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sklearn.linear_model import LogisticRegression

from optfair import OptFairPost
from tests.inprocessing import checkpoint_helpers
from tests.inprocessing.helpers import SEX, X, Y, fit, quick
from tests.threads import single_thread


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Limit numerical libraries to one thread: the models are tiny, and threads would only wait."""
    with single_thread():
        yield


@pytest.fixture(scope="session")
def model():
    """Return a blind model, all of its twelve rounds mixed; they disagree on many rows. Only to be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(quick(rounds=12, mixture="all", step=1.0, max_multiplier=5.0))


@pytest.fixture(scope="session")
def post():
    """Return a fitted post-processing for demographic parity. Only to be read."""
    return OptFairPost(LogisticRegression(), cv=2, tolerance=0.02, random_state=0).fit(X, Y, sensitive_features=SEX)


@pytest.fixture(scope="session")
def eo_rule():
    """Return the rule of a post-processing for equalized odds. Only to be read."""
    return OptFairPost(cv=2, criterion="eo", tolerance=0.01, random_state=0).fit(X, Y, sensitive_features=SEX).rule_


@pytest.fixture(scope="session")
def checkpoint_content():
    """Return the file of a run of three rounds, as bytes."""
    pytest.importorskip("skops", reason="checkpoints of scikit-learn's models need skops")
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "run.checkpoint"
        checkpoint_helpers.fit(checkpoint_helpers.with_checkpoint(path, rounds=3))
        return path.read_bytes()


@pytest.fixture
def checkpoint_file(checkpoint_content, tmp_path):
    """Return the path of a file with the same content."""
    path = tmp_path / "run.checkpoint"
    path.write_bytes(checkpoint_content)
    return path
