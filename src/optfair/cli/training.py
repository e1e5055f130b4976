"""What `fit` and `frontier` share: people from tables, and a model by its name."""

from __future__ import annotations

import importlib
import inspect
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from optfair.cli.audit import outcomes_of
from optfair.cli.encoding import Schema, features, find_schema, make_encoder
from optfair.cli.tables import Format, InputError, columns_of, pick, read_table, shown
from optfair.constraints import as_constraints
from optfair.errors import need_extra, warn

MOST_CLASSES, MANY_CLASSES = 100, 30
HINT = "empty cells and NA, NaN, None, null are read as missing"


@dataclass(frozen=True, eq=False)
class People:
    """X : the features, converted. y : (n,) classes. groups : a column per attribute. weight : (n,) or None."""

    X: pd.DataFrame
    y: pd.Series
    groups: pd.DataFrame
    weight: pd.Series | None

    def part(self, index: np.ndarray) -> People:
        weight = None if self.weight is None else self.weight.iloc[index]
        return People(self.X.iloc[index], self.y.iloc[index], self.groups.iloc[index], weight)

    @property
    def given(self) -> dict[str, Any]:
        """As arguments of `fit` and `report`."""
        return {"X": self.X, "y": self.y, "sensitive_features": self.groups, "sample_weight": self.weight}


@dataclass(frozen=True, eq=False)
class Training:
    """Those to fit on, those to judge on (or None), and which columns are read."""

    people: People
    test: People | None
    schema: Schema


def check_training(arguments: Namespace) -> None:
    """What can be said to be wrong before anything is read."""
    as_constraints(arguments.criterion or ["dp"], arguments.tolerance, arguments.reference, arguments.outcome)
    make_classifier(arguments.estimator, arguments.seed)
    if arguments.test_size is not None and not 0 < arguments.test_size < 1:
        raise InputError(f"--test-size {arguments.test_size:g}: must be a share between 0 and 1, such as 0.3.")
    if not 0 <= arguments.seed < 2**32:
        raise InputError(f"--seed {arguments.seed}: must be a whole number from 0 to 2^32 - 1.")


def read_training(arguments: Namespace) -> Training:
    """The tables, checked."""
    form = Format.of(arguments)
    names = columns_of(arguments.file, form)
    label = pick([arguments.label], names, "--label")[0]
    groups = pick(arguments.group, names, "--group")
    weight = pick([arguments.weight] if arguments.weight else [], names, "--weight")
    for name in {label, *weight} & set(groups) | {label} & set(weight):
        raise InputError(f"column {name!r}: is asked for twice; --label, --group and --weight must differ.")
    others = {label, *groups, *weight, *pick(arguments.drop, names, "--drop")}
    categories = pick(arguments.category, names, "--category")
    candidates = [name for name in names if name not in others]
    wanted = list(dict.fromkeys([*candidates, label, *groups, *weight]))
    table = read_table(arguments.file, wanted, texts=categories, names=[label, *groups], form=form)
    _check_label(table[label], arguments.file)
    schema = find_schema(table[candidates], categories)
    columns = label, groups, weight
    people = _people(table, schema, columns, arguments, arguments.file)
    test = None
    if arguments.test is not None:
        said = [name for name in (label, *groups) if pd.api.types.infer_dtype(table[name], skipna=True) == "string"]
        asked = [*schema.columns, label, *groups, *weight]
        names = [name for name in (label, *groups) if name not in said]
        more = read_table(arguments.test, asked, texts=[*schema.texts, *said], names=names, form=form)
        test = _people(more, schema, columns, arguments, arguments.test)
    elif arguments.test_size is not None:
        order = np.random.default_rng(arguments.seed).permutation(len(table))
        cut = min(max(round(arguments.test_size * len(table)), 1), len(table) - 1)
        people, test = people.part(np.sort(order[cut:])), people.part(np.sort(order[:cut]))
    _check_names(people, test, columns)
    return Training(people, test, schema)


def _people(
    table: pd.DataFrame, schema: Schema, columns: tuple[str, list[str], list[str]], arguments: Namespace, file: str
) -> People:
    label, groups, weight = columns
    for option, name in [("--label", label), *(("--weight", name) for name in weight)]:
        if n := int(table[name].isna().sum()):
            raise InputError(
                f"{file}: {option} {name} is missing in {n} of {len(table)} rows ({HINT}); fill them in or drop them."
            )
    for name in groups:
        if (n := int(table[name].isna().sum())) and arguments.missing == "error":
            raise InputError(
                f"{file}: --group {name} is missing in {n} of {len(table)} rows ({HINT}); fill them in, drop them, or "
                "make them a group by --missing group."
            )
    weights = _weights(table[weight[0]], file) if weight else None
    return People(features(table, schema), classes_of(table[label]), table[groups], weights)


def classes_of(column: pd.Series) -> pd.Series:
    """Labels as they are, but no categories, and 1.0 as 1."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if pd.api.types.is_bool_dtype(column.dtype):
        return column.astype(bool)
    whole = pd.api.types.is_numeric_dtype(column.dtype) and not (column % 1).any()
    return column.astype(np.int64) if whole else column


def _check_label(column: pd.Series, file: str) -> None:
    there = column[column.notna()]
    n, different = len(there), int(there.nunique())
    broken = pd.api.types.is_float_dtype(there.dtype) and bool((there != np.floor(there)).any())
    if broken or different > MOST_CLASSES or different > max(2, n / 2):
        raise InputError(
            f"{file}: --label {column.name} looks like a number to predict, not a class ({different} different values "
            f"in {n} rows); cut it into a few classes."
        )
    if different > MANY_CLASSES and pd.api.types.is_numeric_dtype(there.dtype):
        warn(f"--label {column.name}: {different} different numbers are {different} classes; is it an amount to cut?")
    if different < 2:
        raise InputError(f"{file}: --label {column.name} has {different} class; at least two are needed.")


def _weights(column: pd.Series, file: str) -> pd.Series:
    where = f"{file}: --weight {column.name}"
    if not pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        raise InputError(f"{where} holds {column.iloc[0]!r}, not a number.")
    weights = column.astype(np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise InputError(f"{where}: weights must be finite, at least 0 and not all 0 (the least is {weights.min():g}).")
    if (weights != np.floor(weights)).any():
        return weights / weights.mean()  # of a sample: one person each on average
    warn(
        f"--weight {column.name}: whole numbers, taken as numbers of people ({weights.sum():.0f} in all); if they are "
        "weights of a survey, divide them by their mean first."
    )
    return weights


def _check_names(people: People, test: People | None, columns: tuple[str, list[str], list[str]]) -> None:
    """Two classes and two groups to fit on, and no other in the test."""
    label, groups, _ = columns
    ways = [("--label", label, _values(people.y), None if test is None else _values(test.y))]
    ways.append(("--group", ",".join(groups), _values(people.groups), None if test is None else _values(test.groups)))
    for option, name, known, asked in ways:
        if len(known) < 2:
            raise InputError(
                f"{option} {name} has only {shown(sorted(known, key=str))} among those fitted on; two are needed."
            )
        new = sorted((asked or set()) - known, key=str)
        if new:
            raise InputError(
                f"{option} {name}: {shown(new)} is among the people to judge on but not among those to fit on; merge "
                "it with another, leave it out, or take another --seed."
            )


def _values(column: pd.Series | pd.DataFrame) -> set[Any]:
    """The distinct values, or combinations."""
    if isinstance(column, pd.Series):
        return set(column.unique())
    named = column.astype(object).where(column.notna(), "(missing)").drop_duplicates()
    return {row[0] if len(row) == 1 else row for row in named.itertuples(index=False, name=None)}


def wishes(arguments: Namespace, people: People) -> dict[str, Any]:
    """What every fair classifier is told."""
    names = list(dict.fromkeys(arguments.criterion or ["demographic_parity"]))
    return {
        "criterion": names[0] if len(names) == 1 else names,
        "tolerance": arguments.tolerance,
        "reference": arguments.reference,
        "outcomes": outcomes_of(arguments.outcome, sorted(people.y.unique().tolist())),
        "attributes": arguments.attributes if people.groups.shape[1] > 1 else None,
        "awareness": "aware" if arguments.aware else "blind",
        "missing": arguments.missing,
        "random_state": arguments.seed,
    }


def make_estimator(name: str, schema: Schema, seed: int, *, more: bool = False) -> Pipeline:
    """Encoder → scaler → the classifier that ``name`` stands for. more : X will have columns beyond the schema."""
    model = make_classifier(name, seed)
    scaler = [] if name in ("boosting", "forest") else [("scaler", StandardScaler())]
    return Pipeline([("encoder", make_encoder(schema, more=more)), *scaler, ("classifier", model)])


def make_classifier(name: str, seed: int) -> Any:
    if name == "logistic":
        return LogisticRegression(max_iter=5000, random_state=seed)
    if name == "boosting":
        return HistGradientBoostingClassifier(random_state=seed)
    if name == "forest":
        return RandomForestClassifier(min_samples_leaf=5, random_state=seed)
    if name == "mlp":
        need_extra("torch", "--estimator mlp")
        return importlib.import_module("optfair.nn").TorchClassifier("mlp", random_state=seed)
    return _named_class(name, seed)


def _named_class(name: str, seed: int) -> Any:
    module, _, attribute = name.rpartition(".")
    if not module or not all(part.isidentifier() for part in name.split(".")):
        raise InputError(
            f"--estimator {name}: is not known; use logistic, boosting, forest, mlp, or a class with its module, such "
            "as sklearn.naive_bayes.GaussianNB."
        )
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        raise InputError(f"--estimator {name}: {error}; is it installed, or its folder on PYTHONPATH?") from None
    if not isinstance(found, type):
        raise InputError(f"--estimator {name}: there is no such class in {module}.")
    try:
        seeded = {"random_state": seed} if "random_state" in inspect.signature(found).parameters else {}
        model = found(**seeded)
    except (TypeError, ValueError) as error:
        raise InputError(f"--estimator {name}: cannot be made without arguments ({error}).") from None
    if not hasattr(model, "fit") or not hasattr(model, "predict_proba"):
        raise InputError(f"--estimator {name}: must have fit and predict_proba (with its default settings).")
    return model


def posterior_kind(name: str, people: People) -> str:
    """Boosting grows a tree per output and round: with many pairs (group, class) two kinds of models are cheaper."""
    A, m = len(_values(people.groups)), people.y.nunique()
    return "factored" if name == "boosting" and A * m > 2 * (A + m) else "auto"
