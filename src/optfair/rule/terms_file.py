"""Write the terms of a rule's scores as JSON, and read them again; nothing is believed that does not add up."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from optfair.rule.score_terms import ScoreTerms

FIELDS = {"utility", "multipliers", "combination", "rate_weights", "hits", "user_rows"}
ADDS_UP = 1e-9  # of the largest weight or 1: how far the sum of the terms may be from the weights


def terms_content(terms: ScoreTerms | None) -> dict[str, Any] | None:
    """Return terms as what JSON can hold; the accuracy is no utility, None."""
    if terms is None:
        return None
    return {
        "utility": terms.utility.tolist() if terms.has_costs else None,
        "multipliers": terms.multipliers.tolist(),
        "combination": _matrix_content(terms.combination),
        "rate_weights": terms.rate_weights.tolist(),
        "hits": _matrix_content(terms.hits),
        "user_rows": _matrix_content(terms.user_rows),
    }


def _matrix_content(matrix: sparse.csr_array) -> dict[str, list[Any]]:
    """Return the entries of a matrix by rows; values that are all ones are left out."""
    entries = sparse.coo_array(matrix, copy=True)
    entries.sum_duplicates()  # which sorts them, so that a rule that was loaded is written as it was before
    values = [] if (entries.data == 1).all() else entries.data.tolist()
    return {"row": entries.row.tolist(), "column": entries.col.tolist(), "value": values}


def terms_from_content(content: Any, weights: np.ndarray, n_rows: int) -> ScoreTerms | None:
    """Return the terms whose content this is; raise ValueError where they are not those of the weights.

    weights : W, (A, m, m). n_rows : K, the constraint rows of the rule.
    """
    if content is None:
        return None
    if set(content) != FIELDS:
        raise ValueError("the terms have other fields than expected")
    A, m, _ = weights.shape
    rate_weights, multipliers = _numbers(content["rate_weights"]), _numbers(content["multipliers"])
    R = len(rate_weights)
    utility = np.tile(np.eye(m), (A, 1)) if content["utility"] is None else _numbers(content["utility"])
    if multipliers.shape != (n_rows,) or rate_weights.ndim != 1 or utility.shape != (A * m, m):
        raise ValueError("array shapes of the terms do not fit the rule")
    terms = ScoreTerms(
        utility,
        multipliers,
        _matrix(content["combination"], (n_rows, R)),
        rate_weights,
        _matrix(content["hits"], (R, weights.size)),
        _matrix(content["user_rows"], (n_rows, weights.size)),
    )
    with np.errstate(all="ignore"):
        distance = np.abs(terms.weights() - weights.reshape(utility.shape)).max(initial=0.0)
    if not distance <= ADDS_UP * max(1.0, float(np.abs(weights).max(initial=0.0))):
        raise ValueError("the terms of the scores do not add up to the weights")
    return terms


def _numbers(content: Any) -> np.ndarray:
    values = np.array(content, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("a number of the terms is not finite")
    return values


def _matrix(content: dict[str, list[Any]], shape: tuple[int, int]) -> sparse.csr_array:
    """Return the matrix of this shape that `_matrix_content` was given."""
    if set(content) != {"row", "column", "value"}:
        raise ValueError("a matrix of the terms has other fields than expected")
    places = content["row"], content["column"]
    for index, size in zip(places, shape, strict=True):
        if not all(type(place) is int and 0 <= place < size for place in index):
            raise ValueError("an index of the terms is outside of its matrix")
    values = _numbers(content["value"] or [1.0] * len(places[0]))
    if not len(places[0]) == len(places[1]) == len(values):
        raise ValueError("a matrix of the terms has columns of different lengths")
    row, column = (np.array(index, dtype=np.int64) for index in places)
    return sparse.csr_array(sparse.coo_array((values, (row, column)), shape))
