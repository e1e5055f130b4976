"""Hold the rows that a fitted classifier is measured on, without those whose group says nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from optfair.errors import warn
from optfair.inputs.labels import UNKNOWN, object_array


class LabelledRows(NamedTuple):
    """Rows to measure on.

    X : as the models read it. label, group : (n,) codes. groups : as given, where `predict` needs them, or None.
    weight : (n,) or None. positions : where the rows stand among those given, None where these are all. cluster : (n,)
    codes of the people these are rows of, or None where every row is another person. is_labelled : if not, all labels
    are 0. n_strangers : rows that were left out, because their groups were not seen in `fit`. n_unknown : those whose
    group is unknown.
    """

    X: Any
    label: np.ndarray
    group: np.ndarray
    groups: Any
    weight: np.ndarray | None
    positions: np.ndarray | None
    cluster: np.ndarray | None = None
    is_labelled: bool = True
    n_strangers: int = 0
    n_unknown: int = 0

    @property
    def n_people(self) -> int:
        """Return the number of people."""
        return len(self.label) if self.cluster is None else len(np.unique(self.cluster))

    def take(self, values: Any) -> Any:
        """Select these rows of another column; None stays None."""
        return values if values is None or self.positions is None else object_array(list(values))[self.positions]


def rows_of_groups(group: np.ndarray) -> np.ndarray:
    """Return the positions of rows whose group was seen in `fit`; the others are counted in warnings.

    group : codes, −1 for a group that was not seen and UNKNOWN for a missing one.
    """
    rows = np.flatnonzero(group >= 0)
    n_unseen, n_unknown = int((group == -1).sum()), int((group == UNKNOWN).sum())
    if len(rows) and n_unseen:
        warn(
            f"sensitive_features: {n_unseen} of {len(group)} rows are left out, because their groups were not seen in "
            "fit and nothing is known of them."
        )
    if len(rows) and n_unknown:
        warn(
            f"sensitive_features: {n_unknown} of {len(group)} rows have a missing value and are left out of what is "
            "measured; optfair.metrics.unknown_group_bounds tells what holds whatever their groups are."
        )
    return rows
