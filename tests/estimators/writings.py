"""One person written in every way a user could write them, and models that are asked about them."""

import importlib.util
import json

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from optfair import OptFairIn, OptFairPost

NAMES = ["age", "kids", "flag", "city", "code", "word"]
TEXTS = ["city", "code", "word"]
HAS_POLARS = importlib.util.find_spec("polars") is not None
HAS_PYARROW = importlib.util.find_spec("pyarrow") is not None


def make_table(n, seed=0, gaps=0.15):
    """Return n people with gaps in every column, as Python objects with None; their groups, and their labels."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    age = (rng.normal(40, 10, n) + 4 * group).round(2)
    kids, flag = rng.integers(0, 5, n), rng.random(n) < 0.3 + 0.2 * group
    columns = {
        "age": age.tolist(),
        "kids": kids.tolist(),
        "flag": flag.tolist(),
        "city": rng.choice(["Rome", "Oslo", "Bonn"], n).tolist(),
        "code": rng.choice(["7", "12", "40"], n).tolist(),  # texts that look like numbers
        "word": rng.choice(["None", "null", "yes"], n).tolist(),  # texts that look like missing ones
    }
    score = (age - 44) / 10 + flag + 0.5 * (np.array(columns["city"]) == "Rome") + 0.7 * rng.standard_normal(n)
    table = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    table = table.mask(rng.random(table.shape) < gaps, None)
    return table, np.array(["g", "h", "i"])[group], np.array(["lo", "mid", "hi"])[np.digitize(score, [0, 1.2])]


def typed(table):
    """Return people as pandas reads them from a file: float64, objects where truth values are missing, texts."""
    columns = {"age": table["age"].astype(float), "kids": table["kids"].astype(float), "flag": table["flag"]}
    return pd.DataFrame({**columns, **{name: table[name] for name in TEXTS}})


def with_missing(value):
    """Return a way of writing: objects, with this value where one is missing."""

    def write(table):
        return pd.DataFrame({name: object_series(table[name], value) for name in table})

    return write


def object_series(column, value):
    """Return objects with ``value`` where one is missing."""
    return pd.Series([value if cell is None else cell for cell in column], index=column.index, dtype=object)


def to_nullable(table):
    """Return columns of the types Int64, Float64, boolean and string."""
    types = {"age": "Float64", "kids": "Int64", "flag": "boolean", **dict.fromkeys(TEXTS, "string")}
    return pd.DataFrame({name: pd.array(table[name].tolist(), dtype=types[name]) for name in table}, index=table.index)


def to_categories(table):
    """Return texts and truth values as categories of this table alone."""
    return typed(table).assign(**{name: pd.Categorical(table[name]) for name in ("flag", *TEXTS)})


def to_arrow_types(table):
    """Return pandas columns that arrow holds."""
    import pyarrow as pa

    types = {"age": pa.float64(), "kids": pa.int16(), "flag": pa.bool_(), **dict.fromkeys(TEXTS, pa.string())}
    columns = {name: pd.array(table[name].tolist(), dtype=pd.ArrowDtype(types[name])) for name in table}
    return pd.DataFrame(columns, index=table.index)


def to_arrow(table):
    """Return a table of pyarrow."""
    import pyarrow as pa

    types = {"age": pa.float32(), "kids": pa.int64(), "flag": pa.bool_(), **dict.fromkeys(TEXTS, pa.string())}
    types["age"] = pa.float64()
    return pa.table({name: pa.array(table[name].tolist(), type=types[name]) for name in table})


def to_polars(table):
    """Return a frame of polars."""
    import polars as pl

    types = {"age": pl.Float64, "kids": pl.Int32, "flag": pl.Boolean, **dict.fromkeys(TEXTS, pl.String)}
    return pl.DataFrame({name: pl.Series(name, table[name].tolist(), dtype=types[name]) for name in table})


def to_polars_nan(table):
    """Return a frame of polars with NaN among its numbers, and categories."""
    import polars as pl

    frame = to_polars(table)
    return frame.with_columns(pl.col("age").fill_null(float("nan")), pl.col("city").cast(pl.Categorical))


def to_records(table):
    """Return a list of dicts with None."""
    return [dict(zip(table, row, strict=True)) for row in table.itertuples(index=False, name=None)]


def to_sparse_records(table):
    """Return a list of dicts without the keys of missing values (but one, so that no dict is empty)."""
    return [{k: v for k, v in record.items() if v is not None} or {"age": None} for record in to_records(table)]


def to_empty_texts(table):
    """Return texts that are empty where they are missing, as forms and many databases have them."""
    return typed(table).assign(**{name: object_series(table[name], "") for name in TEXTS})


def to_empty_records(table):
    """Return records whose texts are empty where they are missing."""
    return [
        {name: "" if cell is None and name in TEXTS else cell for name, cell in record.items()}
        for record in to_records(table)
    ]


def to_polars_empty(table):
    """Return a frame of polars whose texts are empty where they are missing."""
    import polars as pl

    return to_polars(table).with_columns(pl.col(TEXTS).fill_null(""))


def to_json(table):
    """Return records as they come from a web service."""
    return json.loads(json.dumps(to_records(table)))


def to_numbers(table):
    """Return codes and truth values as numbers, as a file of numbers has them."""
    flag = [None if cell is None else float(cell) for cell in table["flag"]]
    code = [None if cell is None else int(cell) for cell in table["code"]]
    return typed(table).assign(flag=pd.Series(flag, table.index, float), code=pd.Series(code, table.index, float))


def to_extended(table):
    """Return columns in another order, with further ones among them."""
    frame = typed(table)[NAMES[::-1]]
    frame.insert(2, "note", "text")
    return frame.assign(prediction=1.5)


def to_texts(table):
    """Return everything as texts, as a file read without types has it (truth values as 0 and 1)."""
    texts = [
        [None if cell is None else str(cell + 0 if name == "flag" else cell) for cell in table[name]] for name in table
    ]
    return pd.DataFrame(dict(zip(table, texts, strict=True)), index=table.index, dtype=object)


WAYS = {
    "typed": typed,
    "None": with_missing(None),
    "NaN": with_missing(np.nan),
    "NA": with_missing(pd.NA),
    "NaT": with_missing(pd.NaT),
    "float32 nan": with_missing(np.float32("nan")),
    "nullable": to_nullable,
    "categories": to_categories,
    "records": to_records,
    "absent keys": to_sparse_records,
    "empty texts": to_empty_texts,
    "empty strings": lambda table: to_empty_texts(table).astype(dict.fromkeys(TEXTS, "string")),
    "empty records": to_empty_records,
    "json": to_json,
    "numbers": to_numbers,
    "further columns": to_extended,
    "texts": to_texts,
    "tuples of records": lambda table: tuple(to_records(table)),
}
if HAS_POLARS:
    WAYS |= {"polars": to_polars, "polars nan": to_polars_nan, "polars empty": to_polars_empty}
if HAS_PYARROW:
    WAYS |= {"arrow types": to_arrow_types, "arrow": to_arrow}


# -- models ---------------------------------------------------------------------------------------------------
def own_pipeline(classifier=None):
    """Return a pipeline of the user's own, in the usual way."""
    encoder = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "kids", "flag"]),
            ("texts", OneHotEncoder(handle_unknown="ignore"), TEXTS),
        ]
    )
    return make_pipeline(encoder, LogisticRegression(max_iter=1000) if classifier is None else classifier)


def python_models(n=400):
    """Return fitted models, by name; each was fitted on people written in a way of its own."""
    table, groups, y = make_table(n)
    options = {"tolerance": 0.02, "random_state": 0}

    def post(estimator, write, **more):
        return OptFairPost(estimator, cv=2, **options, **more).fit(write(table), y, sensitive_features=groups)

    def some_empty(table):  # every other missing text is empty
        empty = to_empty_texts(table)
        return empty.mask(table.isna() & (np.arange(len(table)) % 2 == 0)[:, None], other=np.nan)

    def flags(X):
        return X.assign(flag=X["flag"].astype(float))

    boosting = HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=6, early_stopping=False, random_state=0)
    models = {
        "default": post(None, typed),
        "default, objects": post(None, with_missing(pd.NA)),
        "default, nullable": post(None, to_nullable),
        "default, empty texts": post(None, to_empty_texts),
        "default, some empty": post(None, some_empty),
        "own, empty texts": post(own_pipeline(), lambda t: flags(to_empty_texts(t))),
        "own, some empty": post(own_pipeline(), lambda t: flags(some_empty(t))),
        "own, None": post(own_pipeline(), lambda t: flags(typed(t))),
        "own, NaN": post(own_pipeline(), lambda t: flags(with_missing(np.nan)(t))),
        "own, categories": post(
            boosting, lambda t: to_categories(t).assign(flag=t["flag"].astype(float)), posterior="factored"
        ),
    }
    if HAS_POLARS:
        models["default, polars"] = post(None, to_polars)
        models["default, polars empty"] = post(None, to_polars_empty)
        models["own, polars"] = post(own_pipeline(), to_polars)
    trained = OptFairIn(rounds=4, start="zero", held_out=0.25, **{**options, "tolerance": 0.3})
    models["in-processing"] = trained.fit(typed(table), y, sensitive_features=groups)
    return models
