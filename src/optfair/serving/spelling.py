"""Find the feature that a name looks like, as `predict` does with the keys of a record, at a bounded cost.

    2 Σ_c min(n_c(a), n_c(b)) / (|a| + |b|)  ≥  ratio(a, b),    n_c(a) the number of times that a has the letter c

so that most pairs of names need no comparison letter by letter, which takes time like |a| · |b| and more.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

import numpy as np

from optfair.serving.settings import COMPARED_LENGTH, COMPARED_PAIRS

SIMILAR = 0.85  # as `predict` compares the keys of a record with the names that it has not
BUCKETS = 64  # letters are counted by their number modulo this: more letters seem to agree, never fewer


class CostlyComparisonError(ValueError):
    """Names that would take longer to compare than a request may take."""


class NameIndex:
    """The names that a name may be meant for, with their letters counted. names : as they are written."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        self.texts = [name.casefold() for name in self.names]
        self._counts = np.array([letter_counts(text) for text in self.texts], dtype=np.int32).reshape(-1, BUCKETS)
        self._lengths = np.array([len(text) for text in self.texts], dtype=np.int64)

    def candidates(self, text: str) -> list[int]:
        """Return the positions of the names that may be similar to a text in lower case."""
        if len(text) > COMPARED_LENGTH:
            return [place for place, other in enumerate(self.texts) if other == text]
        n_common = np.minimum(self._counts, letter_counts(text)).sum(axis=1)
        is_near = 2 * n_common >= SIMILAR * (self._lengths + len(text))
        is_near &= self._lengths <= COMPARED_LENGTH
        return [int(place) for place in np.flatnonzero(is_near)]


class NameComparisons:
    """The comparisons of one request: each is made once, and all together are bounded."""

    def __init__(self) -> None:
        self._candidates: dict[str, list[int]] = {}
        self._ratios: dict[tuple[str, str], float] = {}
        self._n_pairs = 0

    def likest(self, name: str, index: NameIndex, present: Collection[str]) -> str | None:
        """Return the name that one looks like most, other than those present; None where it looks like none."""
        text = name.casefold()
        if name not in self._candidates:
            self._candidates[name] = index.candidates(text)
        places = [place for place in self._candidates[name] if index.names[place] not in present]
        ratios = [(self._ratio(text, index.texts[place]), index.names[place]) for place in places]
        best, similar = max(ratios, default=(0.0, ""))
        return similar if best >= SIMILAR else None

    def _ratio(self, text: str, other: str) -> float:
        if text == other:
            return 1.0
        if (text, other) not in self._ratios:
            self._n_pairs += len(text) * len(other)
            if self._n_pairs > COMPARED_PAIRS:
                raise CostlyComparisonError
            self._ratios[text, other] = difflib.SequenceMatcher(a=other, b=text).ratio()
        return self._ratios[text, other]


def letter_counts(text: str) -> np.ndarray:
    """Return how often a text has each letter, (BUCKETS,)."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return np.bincount(codes % BUCKETS, minlength=BUCKETS)
