"""A classifier that waits, fails or warns when a test wants it. Needs the extra ``serve``."""

import json
import threading
import warnings
from contextlib import contextmanager
from functools import cache

from sklearn.linear_model import LogisticRegression

from optfair import OptFairPost
from tests.serving.helpers import FAST, array_case, wait_for
from tests.serving.wire import connect, request

FINE = [0.5, 1, 2]
CRASH, REFUSE, WARN = [666001.25, 1, 2], [667002.25, 1, 2], [668003.25, 1, 2]
GATE, ENTERED = threading.Event(), threading.Event()
GATE.set()
SECONDS = 20  # that a test may hold the model


class Moody(LogisticRegression):
    """Logistic regression that does not bear three people; its messages quote everybody who is asked about."""

    def predict_proba(self, X):
        ENTERED.set()
        assert GATE.wait(SECONDS)
        first = X[:, 0].tolist()
        if CRASH[0] in first:
            raise RuntimeError(f"cannot compute with {X.tolist()}")
        if REFUSE[0] in first:
            raise ValueError(f"cannot\nread {first}")
        if WARN[0] in first:
            warnings.warn(f"looks wrong: {X.tolist()}", stacklevel=1)
        return super().predict_proba(X)


@cache
def moody():
    """Return a model with such a classifier, which reads lists of three numbers."""
    return array_case(OptFairPost(Moody(), **FAST)).model


@contextmanager
def held():
    """Hold every call of the model, until the end or until the gate is set; ENTERED is set once there is one."""
    moody()
    GATE.clear()
    ENTERED.clear()
    try:
        yield
    finally:
        GATE.set()


def ask_while_held(service, documents, path="/predict"):
    """Ask about each document on a connection of its own, the first of which the model has; return the connections."""
    connections = []
    for k, document in enumerate(documents):
        connections.append(connect(service))
        connections[-1].sendall(request(path, json.dumps(document).encode()))
        if k == 0:
            assert ENTERED.wait(SECONDS)
        else:
            wait_for(lambda n=k: service.service.worker.n_waiting() == n)
    return connections
