"""``optfair predict``: the answers of a saved model to the people in a table."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from optfair.cli.encoding import Schema, as_texts, features, note_unseen, schema_of
from optfair.cli.main import DONE
from optfair.cli.paths import CSV, PARQUET
from optfair.cli.tables import (
    Format,
    InputError,
    check_table_name,
    columns_of,
    pick,
    read_table,
    shown,
    write_table,
)
from optfair.errors import ModelFileError, need_extra
from optfair.model_file import load_model, untrusted_types

ANSWER, PROBABILITY = "prediction", "p_"


def run(arguments: Namespace) -> int:
    """Load, read, answer, write."""
    need_extra("skops.io", "optfair predict")
    check_table_name(arguments.output)
    model = _load(arguments.model, arguments.trust)
    form = Format.of(arguments)
    names = columns_of(arguments.file, form)
    new = [ANSWER]
    if arguments.probabilities:
        new += [f"{PROBABILITY}{name}" for name in model.classes_.tolist()]
    taken = [] if arguments.only else [name for name in new if name in names]
    if taken:
        raise InputError(
            f"{arguments.file}: has a column {taken[0]!r} already; rename it, or write the answers alone by --only."
        )

    groups, keys = _groups(model, arguments, names), pick(arguments.key, names, "--key")
    schema, needed = schema_of(model), _needed(model, names)
    absent = [name for name in needed if name not in names]
    if absent:
        raise InputError(
            f"{arguments.file}: has no column {shown(absent)}, which the model reads; it has {shown(names)}."
        )
    words = _text_groups(model, groups)
    texts = [*(schema.texts if schema is not None else []), *words, *keys]
    other = [name for name in groups if name not in words]
    table = read_table(
        arguments.file, list(dict.fromkeys([*needed, *groups, *keys])), texts=texts, names=other, form=form
    )
    answers = _answers(model, table, schema, needed, groups, keys, new)
    if not arguments.only:  # the other columns as they are written
        given = read_table(arguments.file, verbatim=True, form=form)
        answers = pd.concat([given, answers], axis=1)
    write_table(answers, arguments.output, form)
    counts = answers[ANSWER].value_counts()
    shares = shown([f"{name}: {count / len(answers):.1%}" for name, count in counts.items()], 10)
    print(f"Wrote {arguments.output}: {len(answers)} people, column {ANSWER!r} ({shares})")
    return DONE


def _answers(
    model: Any,
    table: pd.DataFrame,
    schema: Schema | None,
    needed: list[str],
    groups: list[str],
    keys: list[str],
    names: list[str],
) -> pd.DataFrame:
    """The new columns."""
    X: Any = table[needed] if schema is None else features(table, schema)
    if schema is not None:
        note_unseen(model, X)
    if not hasattr(model, "feature_names_in_"):
        X = X.to_numpy()
    asked: dict[str, Any] = {}
    if groups:
        asked["sensitive_features"] = table[groups].set_axis(_group_names(model), axis=1)
    answers = {ANSWER: model.predict(X, **asked, keys=_persons(table[keys]) if keys else None)}
    if len(names) > 1:
        h = model.predict_proba(X, **asked)
        answers |= {name: h[:, k] for k, name in enumerate(names[1:])}
    return pd.DataFrame(answers, index=table.index)


def _persons(table: pd.DataFrame) -> list[Any]:
    """Keys as texts, so that a person is the same whatever the kind of file."""
    for name in table.columns:
        if n := int(table[name].isna().sum()):
            raise InputError(f"--key {name}: is missing in {n} of {len(table)} rows; every person needs one.")
    columns = [as_texts(table[name]).tolist() for name in table.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _needed(model: Any, names: list[str]) -> list[str]:
    """The columns that the model reads; those of groups that it was told of only if they are there."""
    if not hasattr(model, "feature_names_in_"):
        return names
    source = np.ravel(np.array(model.sensitive_features, dtype=object)).tolist() if model.awareness == "blind" else []
    return [name for name in model.feature_names_in_.tolist() if name in names or name not in source]


def _group_names(model: Any) -> list[Any]:
    return list(model.groups_.names)


def _groups(model: Any, arguments: Namespace, names: list[str]) -> list[str]:
    """The columns of the groups, where the model asks for them."""
    if not model._asks_for_groups():
        if arguments.group:
            why = "is blind: it does not look at groups" if model.awareness == "blind" else "finds the groups by itself"
            raise InputError(f"--group {arguments.group[0]}: the model {why}; leave the option out.")
        return []
    known = _group_names(model)
    if not arguments.group:
        if all(name in names for name in known):
            return [str(name) for name in known]
        raise InputError(
            f"{arguments.file}: the model is aware of groups ({shown(known)}), and there are no such columns; say "
            f"which by --group."
        )
    groups = pick(arguments.group, names, "--group")
    if len(groups) != len(known):
        raise InputError(
            f"--group {','.join(groups)}: the model was fitted with {len(known)} ({shown(known)}); give as many, in "
            "this order."
        )
    if set(groups) == set(known):
        return [str(name) for name in known]
    return groups


def _text_groups(model: Any, groups: list[str]) -> list[str]:
    """Columns whose groups are texts, also where these look like numbers."""
    levels = [model.groups_.get_level_values(k) for k in range(len(groups))]
    return [name for name, level in zip(groups, levels, strict=True) if all(isinstance(v, str) for v in level)]


def _load(path: str, trusted: Iterable[str]) -> Any:
    try:
        model = load_model(path, trusted=trusted)
    except ModelFileError as error:
        if "not trusted" not in str(error):
            swapped = " Are MODEL and FILE swapped?" if path.lower().endswith((*CSV, *PARQUET)) else ""
            raise InputError(f"{error}{swapped}") from None
        unknown = [name for name in untrusted_types(path) if name not in trusted]
        options = " ".join(f"--trust {name}" for name in unknown)
        raise InputError(
            f"{path}: holds types that optfair does not vouch for: {shown(unknown)}. If you know where the file comes "
            f"from, say {options}."
        ) from None
    if model.decision == "hashed" and model._key() is None:
        raise InputError(
            f"{path}.key: is not there. It was written together with the model and decides which answer undecided "
            "people get; put it beside the model again, or fit anew."
        )
    return model
