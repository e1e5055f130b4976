"""Load a rule from its file, and refuse what is not sound."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from optfair.errors import RuleFileError
from optfair.inputs.names import decode_index, decode_name
from optfair.rule import file, keys
from optfair.rule.certificate import Certificate, Status
from optfair.rule.determinism import Determinism
from optfair.rule.promise import PROMISE_NUMBERS, Promise
from optfair.rule.rule import FairRule
from optfair.rule.terms_file import terms_from_content

PROMISE_TYPES: dict[str, Any] = {
    "kept": bool,
    "statement": str,
    "method": str,
    "decision": str,
    "binding": str,
    "tolerance": float | int | None,
}
Record = TypeVar("Record", Certificate, Determinism)


def load_rule(path: str | os.PathLike[str], key: bytes | str | None = None) -> FairRule:
    """Read a rule written by `FairRule.save`; nothing in the file is executed.

    Parameters
    ----------
    path : str or path
        The file.
    key : bytes or str, optional
        ``FairRule.key``, or the text of a key file; read from ``path`` + ".key" by default.

    Returns
    -------
    FairRule
        The rule; its ``key`` is None where there is no key file.

    Raises
    ------
    RuleFileError
        If the file is truncated, altered, or of another version, or the key is not that of the rule.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from optfair import load_rule, solve
    >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     solve(Z, "dp", 0.01, random_state=0).save(os.path.join(folder, "rule.json"))
    ...     rule = load_rule(os.path.join(folder, "rule.json"))
    >>> rule.shape
    (2, 3)
    """
    path = Path(path)
    content = file.read_document(path)
    try:
        rule, fingerprint = rule_from_content(content), content["key"]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise RuleFileError(f"{path.name}: a part of the rule is missing or malformed ({error}).") from None
    return replace(rule, key=keys.find_key(path, fingerprint, key))


def rule_from_content(content: dict[str, Any]) -> FairRule:
    """Return the rule whose content this is, without its key; raise ValueError where it is not sound."""
    weights = np.array(content["weights"], dtype=np.float64)
    groups, classes = decode_index(content["groups"]), decode_index(content["classes"])
    temperatures = np.array(content["temperatures"], dtype=np.float64)
    constant = np.array(content["constant"], dtype=np.float64)
    A, m = len(groups), len(classes)
    if weights.shape != (A, m, m) or temperatures.shape != (A, m) or constant.shape != (m,):
        raise ValueError("array shapes do not fit the names")
    if not (np.isfinite(weights).all() and np.isfinite(temperatures).all() and np.isfinite(constant).all()):
        raise ValueError("a number is not finite")
    share = float(content["share"])
    if not (0 <= share <= 1 and (temperatures >= 0).all() and (constant >= 0).all() and abs(constant.sum() - 1) < 1e-6):
        raise ValueError("a number is out of its range")
    if temperatures.any() and not temperatures.all():
        raise ValueError("some temperatures are zero and others are not")
    certificate = _record(Certificate, content["certificate"])
    multipliers = file.decode_table(content["multipliers"])
    return FairRule(
        weights=weights,
        temperatures=temperatures,
        share=share,
        constant=constant,
        groups=groups,
        classes=classes,
        multipliers=multipliers,
        certificate=replace(certificate, status=Status[str(certificate.status)]),
        determinism=_record(Determinism, content["determinism"]),
        promise=None if content["promise"] is None else _promise(content["promise"]),
        terms=terms_from_content(content["terms"], weights, len(multipliers)),
    )


def _promise(content: dict[str, Any]) -> Promise:
    """Return a promise from its content."""
    table = file.decode_table(content["table"], PROMISE_NUMBERS)
    if set(content) != {field.name for field in fields(Promise)} - {"model"}:
        raise ValueError("the promise has other fields than expected")
    facts = {name: decode_name(value) for name, value in content.items() if name != "table"}
    for name, value in facts.items():
        kinds = PROMISE_TYPES.get(name, float | int)
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise ValueError(f"the {name} of the promise is {type(value).__name__}")
    if not (0 < facts["confidence"] < 1 and 0 <= facts["share"] <= 1 and facts["n_people"] >= 0):
        raise ValueError("a number of the promise is out of its range")
    return Promise(**facts, table=table)


def _record(kind: type[Record], content: dict[str, Any]) -> Record:
    """Return a certificate or determinism from its content."""
    if set(content) != {field.name for field in fields(kind)}:
        raise ValueError(f"the {kind.__name__.lower()} has other fields than expected")
    return kind(**{name: decode_name(value) for name, value in content.items()})
