"""Test that `n_jobs` is how many cores a classifier uses, alone and inside a search."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB

import optfair
from optfair import OptFairPost
from optfair.baselines import LinearPost
from optfair.utils import parallel
from optfair.utils.parallel import n_threads

# What a process does that had one thread before, or those that BLAS starts when it is loaded.
COUNT_THREADS = """
import os, threading
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
import optfair.utils.parallel as parallel
from optfair import OptFairPost, frontier, solve
parallel.BLOCK_ROWS = 256
rng = np.random.default_rng(0)
X, y, a = rng.standard_normal((3000, 20)), rng.integers(0, 2, 3000), rng.integers(0, 2, 3000)
before = len(os.listdir("/proc/self/task"))
for estimator in (LogisticRegression(), HistGradientBoostingClassifier(max_iter=3)):
    model = OptFairPost(estimator, cv=2, n_jobs={n_jobs}, random_state=0).fit(X, y, sensitive_features=a)
    model.predict(X), model.decision_function(X), model.with_tolerance(0.2), model.frontier(2)
    model.report(X, y, sensitive_features=a)
Z = model.joint_posterior(X)
solve(Z, "eo", 0.01, n_jobs={n_jobs}).predict(Z, n_jobs={n_jobs})
frontier(Z, "dp", 2, n_jobs={n_jobs})
print(len(os.listdir("/proc/self/task")) - before, threading.active_count())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_one_job_starts_no_thread_of_any_kind(n_jobs):
    """Neither Python's nor those of BLAS and OpenMP, whatever the environment would let these have."""
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, "2") | {"PYTHONPATH": str(Path(optfair.__file__).parents[1])}
    command = [sys.executable, "-c", COUNT_THREADS.format(n_jobs=n_jobs)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    started, in_python = map(int, process.stdout.split())
    assert (started == 0 and in_python == 1) if n_jobs == 1 else started > 0  # else nothing could have been noticed


@pytest.mark.parametrize("kind", [OptFairPost, LinearPost])
def test_everything_that_a_classifier_does_uses_its_cores(kind, small_blocks, monkeypatch):
    numbers, share = [], parallel._share
    monkeypatch.setattr(parallel, "_share", lambda f, b, threads: numbers.append(threads) or share(f, b, threads))
    rng = np.random.default_rng(0)
    X, y, a = rng.standard_normal((2000, 3)), rng.integers(0, 2, 2000), rng.integers(0, 2, 2000)
    model = kind(GaussianNB(), cv=2, n_jobs=3, random_state=0).fit(X, y, sensitive_features=a)
    n_passes = len(numbers)
    model.predict(X)
    assert 0 < n_passes < len(numbers) and set(numbers) == {3}
    numbers.clear()
    kind(GaussianNB(), cv=2, n_jobs=1, random_state=0).fit(X, y, sensitive_features=a).predict(X)
    assert not numbers


def test_a_search_in_processes_gives_each_its_share_of_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    rng = np.random.default_rng(0)
    n = 3 * parallel.BLOCK_ROWS
    X, y, a = rng.standard_normal((n, 2)), rng.integers(0, 2, n), rng.integers(0, 2, n)

    def scores(model, X_test, y_test):  # runs in the process of the model
        model.predict_proba(X)  # three blocks
        helpers = [thread for thread in threading.enumerate() if thread.name.startswith("optfair")]
        return {"threads": 1 + len(helpers), "cores": n_threads(None), "process": os.getpid()}

    model = OptFairPost(FrozenEstimator(GaussianNB().fit(X, y)), group_estimator=GaussianNB(), random_state=0)
    search = GridSearchCV(model, {"tolerance": [0.1, 0.2]}, scoring=scores, cv=2, n_jobs=2, refit=False)
    results = search.fit(X, y, sensitive_features=a).cv_results_
    measured = {name: [results[f"split{k}_test_{name}"] for k in range(2)] for name in ("threads", "cores", "process")}
    assert os.getpid() not in np.ravel(measured["process"])
    share = max(1, joblib.cpu_count() // 2)
    assert (np.array(measured["cores"]) == share).all()
    assert (np.array(measured["threads"]) <= share).all()
