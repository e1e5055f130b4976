"""Tables and options for the tests of the command line."""

import numpy as np
import pandas as pd

CLASSES = ["high", "low", "mid"]
SCORES = [f"p_{name}" for name in CLASSES]
N_TRAIN = 240
FEATURES = ["x1", "x2", "flag", "code"]
AUDIT = ["--label", "truth", "--group", "race"]  # of `make_predictions`
UNFAIR = ["--label", "y", "--prediction", "p", "--group", "g"]  # of `make_unfair`
FIT = ["--label", "y", "--group", "sex", "--tolerance", "0.1"]  # of `make_train`
FIT_WORDS = ["--label", "y", "--group", "g"]  # of `make_words`


def make_predictions(n=1500, bias=0.3, seed=0):
    """Return labels, predictions and scores; group B gets "high" more often than others."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "race": rng.choice(["A", "B", "C"], n, p=[0.55, 0.35, 0.1]),
            "sex": rng.choice(["F", "M"], n),
            "truth": rng.choice(CLASSES, n),
        }
    )
    unbiased = np.where(rng.random(n) < 0.6, table["truth"], rng.choice(CLASSES, n))
    table["answer"] = np.where((rng.random(n) < bias) & (table["race"] == "B"), "high", unbiased)
    scores = rng.dirichlet([1.0, 1.0, 1.0], n)
    return table.assign(**{name: scores[:, k] for k, name in enumerate(SCORES)}, w=rng.integers(1, 4, n))


def make_unfair(n=400):
    """Return columns g, y, p in which 1 is predicted far more often for group b: an audit exits with 1."""
    rng = np.random.default_rng(0)
    g = rng.choice(["a", "b"], n)
    y = rng.integers(0, 2, n)
    return pd.DataFrame({"g": g, "y": y, "p": (rng.random(n) < np.where(g == "b", 0.9, 0.2)) * 1})


def make_train(n=N_TRAIN, seed=0):
    """Return numbers with holes, texts that may look like numbers or be missing, truth values and two attributes."""
    rng = np.random.default_rng(seed)
    sex, x = rng.integers(0, 2, n), rng.standard_normal((n, 2))
    x[:, 0] += sex
    return pd.DataFrame(
        {
            "x1": x[:, 0].round(6),
            "x2": np.where(rng.random(n) < 0.1, np.nan, x[:, 1].round(6)),
            "flag": rng.random(n) < 0.5,
            "code": rng.choice(np.array(["007", "01A", "x y", None], dtype=object), n),
            "sex": np.array(["f", "m"])[sex],
            "race": rng.choice(["p", "q"], n),
            "y": np.array(["hi", "lo", "mid"])[np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), [0, 1])],
        }
    )


def make_words(n=200, seed=0):
    """Return a table in which the word "None" decides the class: reading it as missing changes the predictions."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["None", "Some"], n)
    y = np.where(rng.random(n) < 0.9, np.where(kind == "None", "no", "yes"), rng.choice(["no", "yes"], n))
    code = rng.integers(5, 9, n)
    return pd.DataFrame({"kind": kind, "code": code, "x": rng.normal(size=n), "g": rng.choice(["a", "b"], n), "y": y})


def read_codes(path):
    """Read a table of `make_train` as a user would, with codes as texts."""
    return pd.read_csv(path, dtype={"code": str})
