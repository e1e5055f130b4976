"""Services in a thread of this process, requests to them, and models of every kind. Needs the extra ``serve``."""

import asyncio
import http.client
import json
import signal
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from optfair import OptFairIn, OptFairPost, TableEncoder
from optfair.serving.server import Server, bind
from optfair.serving.service import Service
from optfair.serving.settings import ServiceSettings
from tests.estimators.writings import make_table, typed
from tests.threads import single_thread

HOST, JSON = "127.0.0.1", {"Content-Type": "application/json"}
N = 300
PEOPLE = 24  # who are asked about


# -- services ------------------------------------------------------------------------------------------------
@dataclass
class Running:
    """A service that runs in a thread."""

    server: Server
    port: int
    thread: threading.Thread | None = None

    def wait(self):
        """Wait until it has ended."""
        self.thread.join(20)
        assert not self.thread.is_alive()

    @property
    def service(self):
        return self.server.service

    def ask(self, path, content=None, headers=JSON, method=None):
        """Return (status, content) of a request; content is a document, or bytes."""
        status, _, body = self.fetch(path, content, headers, method)
        return status, json.loads(body)

    def fetch(self, path, content=None, headers=JSON, method=None):
        """Return (status, headers, body) of a request on a connection of its own."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        try:
            body = content if content is None or isinstance(content, bytes) else json.dumps(content).encode()
            connection.request(method or ("GET" if body is None else "POST"), path, body, headers)
            response = connection.getresponse()
            return response.status, dict(response.headers), response.read()
        finally:
            connection.close()

    def answers(self, people):
        """Return the answers for people, each written in full."""
        status, content = self.ask("/predict", {"people": people})
        assert status == 200, content
        return [entry["answer"] for entry in content["answers"]]

    def error(self, document, path="/predict", status=422):
        """Return the error of a request that is refused: one line."""
        got, content = self.ask(path, document)
        assert (got, list(content)) == (status, ["error"]) and "\n" not in content["error"], content
        return content["error"]

    def metric(self, name):
        """Return a number of /metrics by its name and labels, as they are written there; 0 where it is not."""
        _, _, body = self.fetch("/metrics")
        lines = [line for line in body.decode().splitlines() if line.startswith(f"{name} ")]
        return float(lines[0].split()[-1]) if lines else 0.0


def wait_for(condition, seconds=10):
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


@contextmanager
def serving(model, **settings):
    """Run a service in a thread, on a port that is free, and stop it by what a signal calls."""
    options = ServiceSettings(**{"port": 0, "grace": 0.2} | settings)
    with bind(options.host, 0) as sock:
        server = Server(Service(model, options), options)
        service = Running(server, sock.getsockname()[1])
        service.thread = threading.Thread(target=lambda: asyncio.run(server.serve([sock])))
        service.thread.start()
        try:
            wait_for(lambda: server.started or not service.thread.is_alive())
            yield service
        finally:
            if not server.should_exit:
                server.handle_exit(signal.SIGTERM, None)
            service.wait()


# -- people --------------------------------------------------------------------------------------------------
def records(table):
    """Return the rows of a table as JSON has them; missing values as null."""
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in table.astype(object).to_dict("records")
    ]


def in_full(features, keys=None, groups=None):
    """Return people as a request has them, written in full."""
    people = [{"features": row} for row in features]
    for k, person in enumerate(people):
        person |= {} if keys is None else {"key": keys[k]}
        person |= {} if groups is None else {"group": groups[k]}
    return people


# -- models --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model, people for requests, and the arguments of `predict` for all of them."""

    model: object
    features: list
    X: object
    groups: list | None = None
    arguments: dict | None = None

    def expected(self, keys=None):
        """Return what `predict` says of all of them."""
        return self.model.predict(self.X, **(self.arguments or {}), keys=keys).tolist()


# A warm rule: many people are undecided, so that keys and draws are put to the test.
FAST = {"cv": 2, "tolerance": 0.05, "temperature": 0.05, "random_state": 0}
OTHER = make_table(PEOPLE, seed=5)  # whom the models were not fitted on


def table_case(model, told=None, **columns):
    """Fit a model to a table with texts and gaps. told : groups that it is told; columns : further ones.

    All of these are pairs: of the people fitted on, and of the others.
    """
    table, group, y = make_table(N)
    frame = typed(table).assign(**{name: fitted for name, (fitted, _) in columns.items()})
    others = typed(OTHER[0]).assign(**{name: new for name, (_, new) in columns.items()})
    groups = {} if model.sensitive_features is not None else {"sensitive_features": told[0] if told else group}
    with single_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on columns that are not used
        model.fit(frame, y, **groups)
    if told is None:
        return Case(model, records(others), others)
    values = told[1].to_dict("records") if isinstance(told[1], pd.DataFrame) else told[1].tolist()
    return Case(model, records(others), others, values, {"sensitive_features": told[1]})


def two_attributes():
    """Return sex and race of (fitted, others)."""
    rng = np.random.default_rng(3)

    def draw(n):
        columns = {"sex": rng.choice(["f", "m"], n), "race": rng.integers(0, 2, n)}
        return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})

    return draw(N), draw(PEOPLE)


def array_case(model, text=False):
    """Fit a model to an array of numbers, or of objects with a column of texts."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, N)
    X = rng.normal(size=(N + PEOPLE, 3)).round(4)
    X[:N, 0] += group
    y = np.digitize(X[:N, 0] + 0.5 * rng.standard_normal(N), [0, 1])
    if text:
        X = X.astype(object)
        X[:, 1] = rng.choice(["u", "v", "w"], N + PEOPLE)
    with single_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on few rounds
        model.fit(X[:N], y, sensitive_features=group)
    return Case(model, X[N:].tolist(), X[N:])


def sparse_case():
    case = array_case(OptFairPost(**FAST))
    rng = np.random.default_rng(1)
    X = sparse.random(N, 3, 0.5, format="csr", random_state=0)
    with single_thread():
        model = OptFairPost(**FAST).fit(X, rng.integers(0, 3, N), sensitive_features=rng.integers(0, 2, N))
    return Case(model, case.features, sparse.csr_matrix(np.array(case.features)))


def texts_case():
    """Fit a model to one text per row."""
    rng = np.random.default_rng(0)
    words = np.array(["red", "green", "blue", "black"])
    texts = [" ".join(rng.choice(words, 4)) for _ in range(N + PEOPLE)]
    y = np.array(["no", "yes"])[[int(text.count("red") + rng.integers(0, 2) > 1) for text in texts]]
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression())
    with single_thread():
        model = OptFairPost(pipeline, **FAST).fit(texts[:N], y[:N], sensitive_features=rng.integers(0, 2, N))
    return Case(model, [[text] for text in texts[N:]], texts[N:])


def mixed_encoder():
    """Return a pipeline for arrays with texts in the second column."""
    encoder = ColumnTransformer([("text", OneHotEncoder(handle_unknown="ignore"), [1])], remainder="passthrough")
    return make_pipeline(encoder, LogisticRegression())


def array_case_with_group():
    """Fit a blind model to an array whose last column is the group."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(N + PEOPLE, 2)).round(4), rng.integers(0, 2, N + PEOPLE)])
    y = np.digitize(X[:N, 0] + 0.5 * X[:N, 2], [0, 1])
    with single_thread():
        model = OptFairPost(sensitive_features=2, **FAST).fit(X[:N], y)
    return Case(model, X[N:].tolist(), X[N:])


AREA = make_table(N)[1], OTHER[1]  # the group, of the people fitted on and of the others
ZIP = np.arange(N) % 7 + 100, np.arange(PEOPLE) % 7 + 100
CASES = {
    "blind": lambda: table_case(OptFairPost(**FAST)),
    "blind, hmac": lambda: table_case(OptFairPost(hashing="hmac-sha256", **FAST)),
    "blind, argmax": lambda: table_case(OptFairPost(decision="argmax", **FAST)),
    "blind, group in the table": lambda: table_case(OptFairPost(sensitive_features="area", **FAST), area=AREA),
    "aware, told": lambda: table_case(OptFairPost(awareness="aware", **FAST), told=AREA),
    "aware, two attributes": lambda: table_case(OptFairPost(awareness="aware", **FAST), told=two_attributes()),
    "aware, group in the table": lambda: table_case(
        OptFairPost(awareness="aware", sensitive_features="area", **FAST), area=AREA
    ),
    "numbers that are codes": lambda: table_case(
        OptFairPost(make_pipeline(TableEncoder(texts=["zip"]), LogisticRegression(max_iter=500)), **FAST), zip=ZIP
    ),
    "dates": lambda: table_case(
        OptFairPost(**FAST),
        day=(pd.Timestamp("2020-01-01") + pd.to_timedelta(ZIP[0], "D"), ["2020-02-03"] * PEOPLE),
    ),
    "trees on a table": lambda: table_case(
        OptFairPost(make_pipeline(TableEncoder(), HistGradientBoostingClassifier(max_iter=5)), **FAST)
    ),
    "in-processing": lambda: table_case(OptFairIn(rounds=3, tolerance=0.1, random_state=0)),
    "in-processing, array": lambda: array_case(OptFairIn(rounds=3, tolerance=0.1, random_state=0)),
    "array": lambda: array_case(OptFairPost(**FAST)),
    "array with texts": lambda: array_case(OptFairPost(mixed_encoder(), **FAST), text=True),
    "array, group in it": array_case_with_group,
    "sparse": sparse_case,
    "texts": texts_case,
}


@cache
def case(name):
    """Return a model and people for it, fitted once."""
    return CASES[name]()
