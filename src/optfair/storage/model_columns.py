"""Make Z of the features in files, by a model that is asked about a batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optfair.storage.columns import Arrays, weight_column
from optfair.storage.parts import PartError
from optfair.storage.tables import batch_frame


@dataclass(frozen=True, eq=False)
class ModelColumns:
    """What a model makes of the columns of a file; see `RowColumns`.

    posterior : returns z of a data frame of k rows, (k, A, m). features : columns that it reads. weight : column of the
    weights, or None. groups, classes : names. dtype : of Z. mark : tells the model from others.
    """

    posterior: Callable[[pd.DataFrame], np.ndarray]
    features: tuple[str, ...]
    weight: str | None
    groups: pd.Index
    classes: pd.Index
    dtype: np.dtype
    mark: str
    offset: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        return list(dict.fromkeys([*self.features, *([] if self.weight is None else [self.weight])]))

    @property
    def n_cells(self) -> int:
        """The number p = A·m of cells."""
        return len(self.groups) * len(self.classes)

    def arrays(self, batch: Any, name: str) -> Arrays:
        """Return Z and weights of a record batch; see `RowColumns`."""
        try:
            Z = self.posterior(batch_frame(batch.select(list(self.features))))
        except ValueError as error:
            raise PartError(f"{name}: {error}") from None
        rows = np.ascontiguousarray(Z.reshape(len(Z), self.n_cells), dtype=self.dtype)
        return rows, weight_column(batch, self.weight, name), None
