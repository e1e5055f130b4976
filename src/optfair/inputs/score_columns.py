"""Read the probabilities of a model from the columns of a table, where it was asked about these people already."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optfair.inputs.frames import as_frame


@dataclass(frozen=True, eq=False)
class ScoreColumns:
    """A model whose probabilities stand in columns of X: the estimator of `OptFairPost` for a model that is elsewhere.

    All columns of X, these too, tell what the groups are.

    Parameters
    ----------
    columns : sequence of column names
        One column of probabilities for each class.
    classes : sequence of class labels
        What the columns are of, sorted.

    Examples
    --------
    >>> import pandas as pd
    >>> from optfair import ScoreColumns
    >>> table = pd.DataFrame({"p_no": [0.25, 1.0], "p_yes": [0.75, 0.0]})
    >>> ScoreColumns(["p_no", "p_yes"], ["no", "yes"])(table)
    array([[0.25, 0.75],
           [1.  , 0.  ]])
    """

    columns: Sequence[Hashable]
    classes: Sequence[Any]

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.classes):
            raise ValueError(f"columns: there are {len(self.columns)} for {len(self.classes)} classes.")
        if list(self.classes) != sorted(self.classes):
            raise ValueError(f"classes={list(self.classes)!r}: must be sorted, with the columns in the same order.")

    @property
    def classes_(self) -> np.ndarray:
        """The classes."""
        return np.asarray(self.classes)

    def __call__(self, X: Any) -> np.ndarray:
        """Return the probabilities, (n, m)."""
        return np.asarray(as_frame(X)[list(self.columns)].to_numpy(dtype=np.float64))
