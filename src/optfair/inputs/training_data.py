"""Hold the rows a model is fitted on: X as it was given, groups and classes as codes, weights."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.inputs.containers import take_rows


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Rows of positive weight, with the codes of their groups and classes.

    X : as given, rows selected. a, y : (n,) codes of group, −1 where it is unknown, and class. weight : (n,) or None.
    groups, classes : names.
    positions : where these rows stand among all ``n_given`` rows that were handed in. given_clusters : (n_given,) codes
    of the people these are rows of, or None where every row is another person.
    cell : (n,) the observed cell a·m + y, with a = A where the group is unknown. counts : (A, m) the weighted number of
    rows of known group in each cell. prior : (A, m) their shares. n_people : the number of all rows where weights are
    whole numbers and count people; None for a survey.
    """

    X: Any
    a: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    groups: pd.Index
    classes: np.ndarray
    positions: np.ndarray
    n_given: int
    given_clusters: np.ndarray | None = None
    cell: np.ndarray = field(init=False)
    counts: np.ndarray = field(init=False)
    prior: np.ndarray = field(init=False)
    n_people: float | None = field(init=False)
    class_index: pd.Index = field(init=False)

    def __post_init__(self) -> None:
        A, m = len(self.groups), len(self.classes)
        cell = np.where(self.is_known, self.a, A) * m + self.y
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        counts_people = bool((weight == np.rint(weight)).all())
        facts = {
            "cell": cell,
            "counts": np.bincount(cell, self.weight, A * m)[: A * m].reshape(A, m),
            "prior": np.bincount(cell, weight / weight[self.is_known].sum(), A * m)[: A * m].reshape(A, m),
            "n_people": float(weight.sum()) if counts_people else None,
            "class_index": pd.Index(self.classes.tolist(), tupleize_cols=False),
        }
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @property
    def is_known(self) -> np.ndarray:
        """Return whose group is known, (n,)."""
        return np.asarray(self.a >= 0)

    @property
    def n_unknown(self) -> int:
        """Return the number of rows whose group is unknown."""
        return int((self.a < 0).sum())

    @property
    def cluster(self) -> np.ndarray | None:
        """Return the person of each row, (n,), or None."""
        return None if self.given_clusters is None else self.given_clusters[self.positions]

    def take(self, index: np.ndarray) -> TrainingData:
        """Select rows, as if they were all that was given; groups and classes keep their codes.

        index : positions (k,), repetitions allowed, or a mask (n,).
        """
        a = self.a[index]
        return replace(
            self,
            X=take_rows(self.X, index),
            a=a,
            y=self.y[index],
            weight=None if self.weight is None else self.weight[index],
            positions=np.arange(len(a)),
            n_given=len(a),
            given_clusters=None if self.cluster is None else self.cluster[index],
        )
