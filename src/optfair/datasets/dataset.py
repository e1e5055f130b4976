"""What `load` returns, and what the catalogue knows of a data set before it is loaded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.features import take_rows


@dataclass(frozen=True)
class SourceFile:
    """A file as its source publishes it.

    name : below the data folder, e.g. "enem/microdados_enem_2020.zip". url : where it is downloaded from; None where
    that takes a person (a form, a licence to accept). by_hand : what to do then. megabytes : about how large it is.
    unpacked : what somebody may have unpacked out of it, a file or folder that is read in its place.
    checksum : "md5:..." or "sha256:..." published by checksum_origin; None where nobody publishes one.
    """

    name: str
    url: str | None = None
    by_hand: str = ""
    megabytes: float | None = None
    checksum: str | None = None
    checksum_origin: str = ""
    unpacked: str | None = None


@dataclass(frozen=True)
class Entry:
    """What the catalogue says of a data set.

    task, groups : in words, with their numbers. reader : "module:function" below optfair.datasets, called with a
    `Request` and the reader's own options. sensitive : the choices of ``load(name, sensitive=...)``, the usual one
    first; attributes : further ones, of which several together make intersections. terms : of use, told before a
    download. files : of the source. local_files : files of $OPTFAIR_DATA that are read where those of the source are
    not there. stand_in_for : the original, where this is a stand-in. embedded : comes with the package.
    """

    name: str
    title: str
    task: str
    groups: str
    people: str
    licence: str
    page: str
    reader: str
    sensitive: tuple[str, ...]
    citation: str = ""
    terms: str = ""
    attributes: tuple[str, ...] = ()
    files: tuple[SourceFile, ...] = ()
    local_files: tuple[str, ...] = ()
    stand_in_for: str | None = None
    embedded: bool = False


@dataclass(frozen=True, eq=False)
class Dataset:
    """n people: features X, classes y, groups sensitive_features, in the same order.

    X : DataFrame (n, d) of numbers without the sensitive attribute, ready for any model (not standardised unless the
        paper does); or, for images, an `optfair.nn.ImageDataset` that decodes a picture when it is asked for.
    y : Series (n,). sensitive_features : Series (n,), or a DataFrame whose columns make intersections.
    feature_names : the columns of X; empty for images.
    class_names, group_names : in the order of their codes; groups of several columns are tuples.
    description : where the data come from, under which licence, and what was done to them.
    stand_in : which original this takes the place of, where it is not the original.
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
        """(train, test): a random ``share`` of the people, and the others."""
        if not 0 < share < 1:
            raise ValueError(f"share={share!r}: must be between 0 and 1, e.g. 0.6.")
        order, cut = np.random.default_rng(random_state).permutation(len(self)), int(share * len(self))
        if not 0 < cut < len(self):
            raise ValueError(f"share={share!r}: leaves one part of {len(self)} people empty.")
        return self.take(order[:cut]), self.take(order[cut:])

    def take(self, rows: np.ndarray) -> Dataset:
        """These rows, in this order, numbered anew; names stay those of the whole."""
        X, y, groups = (take_rows(part, rows) for part in (self.X, self.y, self.sensitive_features))
        return replace(
            self,
            X=X.reset_index(drop=True) if isinstance(X, pd.DataFrame) else X,
            y=y.reset_index(drop=True),
            sensitive_features=groups.reset_index(drop=True),
        )
