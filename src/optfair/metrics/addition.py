"""Add counts of different people, and write them as text.

With N = Σ n_people and every row of the same weight, N J and N² S are sums over people, so that

    J = (N₁ J₁ + N₂ J₂) / (N₁ + N₂),   S = (N₁² S₁ + N₂² S₂) / (N₁ + N₂)².

For labels N J are whole numbers, and J and S are those of all people counted at once, bit by bit.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import brief_names, brief_repr
from optfair.inputs.names import decode_index, encode_index
from optfair.metrics.counts import ConfusionCounts

FORMAT, VERSION = "optfair counts", 1
MAX_CHARACTERS = 200_000_000  # of a document: ten million numbers
MAX_CELLS = 10_000_000  # of a tensor: 80 MB
MAX_PEOPLE = 2**53  # beyond, a float does not count them one by one
SUM_SLACK = 1e-9  # how far sums of shares may be from what they must be, by rounding


# -- sums --------------------------------------------------------------------------------------------------
def add_counts(first: ConfusionCounts, second: ConfusionCounts) -> ConfusionCounts:
    """Return the counts of the people of both; raise ValueError where they are not about the same."""
    for counts in (first, second):
        if not counts.equal_weights:
            raise ValueError(
                "counts: weighted rows, and people with several rows, cannot be added, because only shares of their "
                "weight are kept; count all rows together."
            )
    if first.labelled != second.labelled:
        raise ValueError("counts: only one of the two has true classes; count both with y_true, or both without.")
    groups = common_names(first.groups, second.groups, "groups")
    classes = common_names(first.classes, second.classes, "classes")
    sums = [_sums(counts, groups, classes) for counts in (first, second)]
    if sums[0][1].ndim != sums[1][1].ndim:  # labels and probabilities
        sums = [(x, _full(s) if s.ndim == 3 else s, n) for x, s, n in sums]
    total, squares, people = (a + b for a, b in zip(*sums, strict=True))
    return _from_sums(total, squares, people, groups, classes, labelled=first.labelled)


def common_names(first: pd.Index, second: pd.Index, argument: str) -> pd.Index:
    """Return those names of the two that hold the other ones too, in their order."""
    if list(first.names) != list(second.names) and first.nlevels + second.nlevels > 2:
        raise ValueError(
            f"{argument}: are of [{brief_names(first.names)}] and of [{brief_names(second.names)}]; count both with "
            "the same attributes, in one order."
        )
    strangers = [name for name in second if name not in set(first)]
    if not strangers:
        return first
    absent = [name for name in first if name not in set(second)]
    if not absent:
        return second
    raise ValueError(
        f"{argument}: {brief_repr(absent[0])} is only in the first counts and {brief_repr(strangers[0])} only in the "
        f"second; name all of them when counting, by {argument}=."
    )


def _sums(counts: ConfusionCounts, groups: pd.Index, classes: pd.Index) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return N J, N² S and n_people, with these names."""
    N = float(counts.n_people.sum())
    total, squares = counts.tensor * N, counts.second_moment * N**2
    if counts.hard:
        total, squares = np.rint(total), np.rint(squares)
    a, i = _positions(counts.groups, groups), _positions(counts.classes, classes)
    A, m = len(groups), len(classes)
    people = np.zeros((A, m), dtype=counts.n_people.dtype)
    people[np.ix_(a, i)] = counts.n_people
    return _placed(total, a, i, A, m), _placed(squares, a, i, A, m), people


def _positions(names: pd.Index, among: pd.Index) -> np.ndarray:
    place = {name: position for position, name in enumerate(among)}
    return np.array([place[name] for name in names], dtype=np.intp)


def _placed(values: np.ndarray, a: np.ndarray, i: np.ndarray, A: int, m: int) -> np.ndarray:
    larger = np.zeros((A, *[m] * (values.ndim - 1)))
    larger[np.ix_(a, *[i] * (values.ndim - 1))] = values
    return larger


def _full(squares: np.ndarray) -> np.ndarray:
    return np.asarray(squares[..., None] * np.eye(squares.shape[-1]))


def _from_sums(
    total: np.ndarray, squares: np.ndarray, people: np.ndarray, groups: pd.Index, classes: pd.Index, *, labelled: bool
) -> ConfusionCounts:
    N = float(people.sum())
    return ConfusionCounts(
        tensor=total / N,
        groups=groups,
        classes=classes,
        n_people=people,
        hard=squares.ndim == 3,
        second_moment=squares / N**2,
        labelled=labelled,
    )


# -- text --------------------------------------------------------------------------------------------------
def counts_document(counts: ConfusionCounts) -> str:
    """Return counts as JSON: whole numbers for labels, shares and their second moments otherwise."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "groups": encode_index(counts.groups),
        "classes": encode_index(counts.classes),
        "labelled": counts.labelled,
        "people": counts.n_people.tolist(),
    }
    if counts.hard:
        content["counts"] = np.rint(counts.tensor * float(counts.n_people.sum())).astype(int).tolist()
    else:
        content |= {"shares": counts.tensor.tolist(), "moments": counts.second_moment.tolist()}
        content["equal_weights"] = counts.equal_weights
    return json.dumps(content, allow_nan=False)


def read_counts(text: str) -> ConfusionCounts:
    """Return what `counts_document` was given; raise ValueError where the text is not sound."""
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        raise ValueError(f"text: must be a JSON document of at most {MAX_CHARACTERS:,} characters.")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"text: not a complete JSON document ({error}).") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError("text: not counts written by to_json.")
    if content.get("version") != VERSION or isinstance(content["version"], bool):
        raise ValueError(f"text: has version {content.get('version')!r}, but this release reads version {VERSION}.")
    try:
        return _from_content(content)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"text: a part of the counts is missing or malformed ({error}).") from None


def _from_content(content: dict[str, Any]) -> ConfusionCounts:
    groups, classes = decode_index(content["groups"]), decode_index(content["classes"])
    A, m = len(groups), len(classes)
    if A * m * m > MAX_CELLS or not A * m:
        raise ValueError("too many groups and classes, or none")
    people = read_numbers(content["people"], (A, m), whole=True).astype(np.int64)
    labelled = check_flag(content["labelled"])
    if not people.any():
        raise ValueError("nobody is counted")
    if "counts" in content:
        total = read_numbers(content["counts"], (A, m, m), whole=True)
        if not np.array_equal(total.sum(-1), people):
            raise ValueError("the counts do not add up to the people")
        return _from_sums(total, total, people, groups, classes, labelled=labelled)
    tensor, equal_weights = read_numbers(content["shares"], (A, m, m)), check_flag(content["equal_weights"])
    shape = (A, m, m) if np.ndim(content["moments"]) == 3 else (A, m, m, m)
    moments = read_numbers(content["moments"], shape)
    if abs(tensor.sum() - 1) > SUM_SLACK or moments.max() > 1:
        raise ValueError("the shares do not add up to one")
    if equal_weights and (np.abs(tensor.sum(-1) - people / people.sum()) > SUM_SLACK).any():
        raise ValueError("the shares are not those of the people")
    return ConfusionCounts(tensor, groups, classes, people, False, moments, equal_weights, labelled)


def read_numbers(values: Any, shape: tuple[int, ...], *, whole: bool = False) -> np.ndarray:
    """Return numbers of a document as floats: of this shape, finite, at least 0, and whole numbers if so asked."""
    array = np.array(values)
    if array.shape != shape or array.dtype.kind not in "iuf":
        raise ValueError(f"expected numbers of shape {shape}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all() or array.min(initial=0) < 0 or array.max(initial=0) > MAX_PEOPLE:
        raise ValueError("a number is negative, too large or not finite")
    if whole and (array != np.rint(array)).any():
        raise ValueError("a number of people is not whole")
    return array


def check_flag(value: Any) -> bool:
    """Return true or false of a document."""
    if not isinstance(value, bool):
        raise ValueError(f"{brief_repr(value)} is neither true nor false")
    return value
