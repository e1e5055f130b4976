"""Hold features, classes and groups of the same rows together: what `optfair.datasets.load` returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.inputs.containers import take_rows
from optfair.utils.seeds import as_generator


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features, classes and groups of n people, in the same order.

    Parameters
    ----------
    name : str
        The name of the data set.
    X : DataFrame of shape (n, d) or optfair.nn.ImageDataset
        Features without the sensitive attribute. A table has finite numbers only, which are not standardised unless
        the paper does so. An image data set decodes a picture when it is read.
    y : Series of shape (n,)
        The class of each row.
    sensitive_features : Series of shape (n,) or DataFrame of shape (n, k)
        The group of each row. With several columns the groups are their intersections.
    feature_names : list of str
        The columns of X; empty for images.
    class_names : list
        The classes, in the order of their codes.
    group_names : list
        The groups, in the order of their codes. Groups of several columns are tuples.
    description : str
        Origin, licence, preparation and counts, as paragraphs of text.
    stand_in : str, optional
        The original that this data set stands in for; None where it is the original.

    Examples
    --------
    >>> from optfair.datasets import load
    >>> load("adult", rows=500)
    <Dataset adult: 500 people, 106 features, 2 classes, 2 groups>
    """

    name: str
    X: Any
    y: pd.Series
    sensitive_features: pd.Series | pd.DataFrame
    feature_names: list[str]
    class_names: list[Any]
    group_names: list[Any]
    description: str
    stand_in: str | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        stand_in = f"; a stand-in for {self.stand_in}" if self.stand_in else ""
        features = f"{len(self.feature_names)} features" if self.feature_names else "an image each"
        return (
            f"<Dataset {self.name}: {len(self):,} people, {features}, "
            f"{len(self.class_names)} classes, {len(self.group_names)} groups{stand_in}>"
        )

    def split(self, share: float = 0.6, *, random_state: Any = 0) -> tuple[Dataset, Dataset]:
        """Return a random share of the rows and the remaining rows.

        Parameters
        ----------
        share : float, default 0.6
            The share of the rows in the first part, between 0 and 1.
        random_state : None, int or numpy.random.Generator, default 0
            The seed of the permutation.

        Returns
        -------
        train : Dataset
            The first ``int(share * n)`` rows of a random permutation.
        test : Dataset
            All other rows.

        Raises
        ------
        ValueError
            If share is not between 0 and 1, or if one of the parts would be empty.

        Examples
        --------
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(100, random_state=0)
        >>> train, test = data.split(0.6, random_state=0)
        >>> len(train), len(test)
        (60, 40)
        """
        if not 0 < share < 1:
            raise ValueError(f"share={share!r}: must be between 0 and 1, e.g. 0.6.")
        order, cut = as_generator(random_state).permutation(len(self)), int(share * len(self))
        if not 0 < cut < len(self):
            raise ValueError(f"share={share!r}: leaves one part of {len(self)} people empty.")
        return self.take(order[:cut]), self.take(order[cut:])

    def take(self, rows: np.ndarray) -> Dataset:
        """Return the given rows in the given order, with a new index from 0.

        Names of features, classes and groups stay those of the whole data set.

        Parameters
        ----------
        rows : array of int of shape (k,) or array of bool of shape (n,)
            Positions, which may repeat, or a mask.

        Returns
        -------
        Dataset
            The rows, of the same class as this data set.

        Examples
        --------
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(100, random_state=0)
        >>> pair = data.take([5, 2])
        >>> len(pair), bool(pair.y[0] == data.y[5])
        (2, True)
        """
        X, y, groups = (take_rows(part, rows) for part in (self.X, self.y, self.sensitive_features))
        return replace(
            self,
            X=X.reset_index(drop=True) if isinstance(X, pd.DataFrame) else X,
            y=y.reset_index(drop=True),
            sensitive_features=groups.reset_index(drop=True),
        )
