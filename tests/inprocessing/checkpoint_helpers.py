"""Runs with a checkpoint, and what the tests do to its file."""

import io
import os
import sqlite3
from contextlib import closing

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

from optfair import OptFairIn
from tests.inprocessing.helpers import FEW_ROUNDS, OVERFITS, SEX, XA, Y

GROUP = SEX.to_numpy(str)
HARMLESS = (FEW_ROUNDS, OVERFITS, "ignore:Stochastic Optimizer", "ignore:max_multiplier")
ROUNDS, LONG = 7, 24
COLUMNS = {"start": "run", "plain": "run", "numbers": "rounds", "model": "rounds"}  # of which table


def with_checkpoint(path, estimator=None, **options):
    """Return a model that adds its rounds to a file."""
    base = LogisticRegression() if estimator is None else estimator
    settings = {"rounds": ROUNDS, "random_state": 0, "step": 0.4, "max_multiplier": 4.0}
    if isinstance(options.get("criterion", "dp"), str):
        settings["tolerance"] = 0.02
    return OptFairIn(base, checkpoint=path, **settings | options)


def fit(model, **more):
    return model.fit(XA, Y, sensitive_features=GROUP, **more)


def long_run(engine, path):
    """Return a model of many rounds, of either engine."""
    if engine == "torch":
        from optfair.nn import TorchClassifier

        network = TorchClassifier("mlp", hidden=(8,), dropout=0.3, epochs=3, batch_size=32, random_state=3)
        return with_checkpoint(path, network, rounds=LONG, start="zero")
    return with_checkpoint(path, MLPClassifier((6,), max_iter=10), rounds=LONG, output="deterministic")


# -- files -------------------------------------------------------------------------------------------------
def count_rounds(path):
    """Return how many rounds are in the file."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute("SELECT count(*) FROM rounds").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def execute(path, *statement):
    """Change the file by a statement of SQL."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(*statement)


def cut(path, rounds):
    """Make the file as it was after so many rounds (of learners whose state is their last model)."""
    execute(path, "DELETE FROM rounds WHERE round_index >= ?", (rounds,))


def arrays(**content):
    """Return arrays as the bytes of an .npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, **content)
    return buffer.getvalue()


# -- classes that are found by their names -----------------------------------------------------------------
class MaliciousObject:
    """A command is run when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


class OwnTree(DecisionTreeClassifier):
    """A classifier that skops does not know."""


class Interruption(Exception):
    """Stands for whatever ends a run."""


class InterruptedRegression(LogisticRegression):
    """Fails at its sixth fit."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        InterruptedRegression.fits += 1
        if InterruptedRegression.fits == 6:
            raise Interruption
        return super().fit(X, y, sample_weight)


def second_column(X):
    return X[:, 1:].astype(float)
