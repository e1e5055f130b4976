"""Write a path of tolerances as JSON without keys, and read it again; what its rules share is written once.

{"common": {names, rows, terms}, "rules": [{weights, λ, certificate, ...}, ...], "table": {...}, ...}
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints.rows import TABLE_COLUMNS
from optfair.inputs.names import decode_name, encode_name
from optfair.rule.file import rule_content
from optfair.rule.frontier import Frontier
from optfair.rule.loading import rule_from_content
from optfair.rule.rule import FairRule

COMMON = ("groups", "classes")  # of the content of a rule
NUMBERS = ("tolerance", "accuracy", "value", "violation", "upper_bound", "gap", "excess", "price", "temperature",
           "seconds")  # fmt: skip
COLUMNS = (*NUMBERS, "pareto")  # of the table of a path without test data
FIELDS = {"common", "rules", "table", "constant", "unconstrained", "has_costs"}


def path_content(path: Frontier) -> dict[str, Any]:
    """Return a path as what JSON can hold. path : without test data."""
    contents = [rule_content(replace(rule, key=None, promise=None)) for rule in path.rules]
    first = contents[0]
    common = {name: first[name] for name in COMMON}
    common["rows"] = {name: first["multipliers"][name] for name in TABLE_COLUMNS}
    terms = first["terms"]
    common["terms"] = None if terms is None else {name: terms[name] for name in terms if name != "multipliers"}
    for content in contents:
        for name in (*COMMON, "key", "promise"):
            del content[name]
        content["multipliers"] = {k: v for k, v in content["multipliers"].items() if k not in TABLE_COLUMNS}
        content["terms"] = None if content["terms"] is None else content["terms"]["multipliers"]
    return {
        "common": common,
        "rules": contents,
        "table": {name: [encode_name(value) for value in path.table[name].tolist()] for name in COLUMNS},
        "constant": list(path.constant["train"]),
        "unconstrained": list(path.unconstrained["train"]),
        "has_costs": path.has_costs,
    }


def path_from_content(content: Any, rule: FairRule) -> Frontier:
    """Return the path whose content this is; raise ValueError where it is not sound, or not for the same people.

    rule : the one in use, whose names the path must have; its key is that of all.
    """
    if set(content) != FIELDS or not isinstance(content["has_costs"], bool):
        raise ValueError("the path has other fields than expected")
    if not content["rules"]:
        raise ValueError("the path has no rules")
    common = content["common"]
    rules = tuple(replace(_rule(common, part), key=rule.key) for part in content["rules"])
    if not (rules[0].groups.equals(rule.groups) and rules[0].classes.equals(rule.classes)):
        raise ValueError("the path is for other groups or classes than the rule")
    points = {name: {"train": _point(content[name])} for name in ("constant", "unconstrained")}
    return Frontier(_table(content["table"], len(rules)), rules, **points, has_costs=content["has_costs"])


def _rule(common: dict[str, Any], part: dict[str, Any]) -> FairRule:
    """Return a rule of the path from what is its own and what all share."""
    whole = {**part, **{name: common[name] for name in COMMON}, "key": None, "promise": None}
    whole["multipliers"] = {**{name: common["rows"][name] for name in TABLE_COLUMNS}, **part["multipliers"]}
    has_terms = part["terms"] is not None and common["terms"] is not None
    whole["terms"] = {**common["terms"], "multipliers": part["terms"]} if has_terms else None
    return rule_from_content(whole)


def _table(content: dict[str, list[Any]], n: int) -> pd.DataFrame:
    if tuple(content) != COLUMNS or any(len(values) != n for values in content.values()):
        raise ValueError("the table of the path has other columns or lines than expected")
    columns = {name: [decode_name(value) for value in values] for name, values in content.items()}
    numbers = np.array([columns[name] for name in NUMBERS], dtype=np.float64)
    if not np.isfinite(numbers).all() or not all(isinstance(value, bool) for value in columns["pareto"]):
        raise ValueError("a number of the path is not finite, or pareto is not a truth value")
    tolerances = numbers[0]
    if not ((tolerances >= 0) & (tolerances <= 1)).all() or not (np.diff(tolerances) < 0).all():
        raise ValueError("the tolerances of the path are not descending numbers in [0, 1]")
    return pd.DataFrame(dict(zip(NUMBERS, numbers, strict=True)) | {"pareto": np.array(columns["pareto"], dtype=bool)})


def _point(content: Any) -> tuple[float, float]:
    """Return (violation, value)."""
    violation, value = (float(number) for number in content)
    if not np.isfinite([violation, value]).all():
        raise ValueError("a point of the path is not finite")
    return violation, value
