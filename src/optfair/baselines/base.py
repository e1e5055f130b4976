"""What every baseline shares: people at the door, one criterion by name, blind answers.

A sub-class says in `_learn` how it learns from the `People`, and in `predict_proba` how it answers.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from optfair.base import FairClassifier, People, whole_or_nothing
from optfair.constraints import Constraint, RowSet, compile_rows
from optfair.constraints.criteria import short_name
from optfair.decisions import new_key
from optfair.errors import warn, warn_empty
from optfair.estimation.models import default_estimator, fit_model, takes_weights
from optfair.features import is_dataset
from optfair.inprocessing.learners import seeded


class Baseline(FairClassifier):
    """A method to compare with: it takes groups at `fit` and needs none to answer."""

    awareness, _or_aware = "blind", ""
    unseen = "error"
    decision = "argmax"
    criteria: ClassVar[tuple[str, ...]] = ("dp", "eop", "eo")
    why_not_others: ClassVar[str] = ""  # ends a sentence that begins with the criterion

    @whole_or_nothing
    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> Any:
        """Learn from people and their groups.

        sensitive_features : the group of each row: list, array, Series; several columns (2-d, DataFrame) make
        intersections. sample_weight : (n,), honoured by the model and by what is compared.
        """
        self._check_choices()
        self._check_arguments()
        people = self._people(X, y, sensitive_features, sample_weight, self._known_classes())
        if len(people.groups) == 1 and self.criteria:
            warn(f"sensitive_features: there is one group, {people.groups.tolist()[0]!r}; nothing is compared.")
        people = replace(people, X=self._model_features(people.X))
        seed = self._seed()
        if seed is not None:
            check_whole("random_state", seed, 0)
        self._secret = new_key(seed)
        seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self._learn(people, seed)
        self.classes_, self.groups_ = people.classes, people.groups
        return self

    def _known_classes(self) -> Any:
        """Classes of a fitted model that is only asked, or None."""
        return None

    def _check_arguments(self) -> None:
        """The method's own arguments; sub-classes check more."""
        self._criterion()

    def _learn(self, people: People, seed: int) -> None:
        raise NotImplementedError

    def _key(self) -> bytes | None:
        return self._secret

    # -- the criterion -------------------------------------------------------------------------------------
    def _criterion(self) -> str:
        """Its short name, if this method can compare by it."""
        able = f"use one of {', '.join(map(repr, self.criteria))}."
        try:
            name = short_name(self.criterion)
        except ValueError as error:
            if "predictive values divide" in str(error):  # which says why
                raise
            what = "unknown" if isinstance(self.criterion, str) else "must be one name"
            raise ValueError(f"criterion={self.criterion!r}: {what}; {able}") from None
        if name not in self.criteria:
            raise ValueError(f"criterion={self.criterion!r}: {self.why_not_others}; {able}")
        return name

    def _rows(self, people: People, tolerance: float = 1.0) -> tuple[RowSet, np.ndarray]:
        """(The rows of the criterion, the prior of the labels (A, m)); rows nobody is in are named and left out."""
        prior = label_prior(people)
        wish = Constraint(self._criterion(), tolerance)
        rows = compile_rows([wish], people.groups, people.class_index, prior)
        warn_empty(rows.dropped)
        return rows, prior


def label_prior(people: People) -> np.ndarray:
    """P(A=a, Y=i) by the labels, (A, m)."""
    shape = len(people.groups), len(people.classes)
    counts = np.bincount(people.cell, people.weight, shape[0] * shape[1]).reshape(shape)
    return np.asarray(counts / counts.sum())


def fit_plain(estimator: Any, people: People, seed: int) -> Any:
    """The estimator (None: standardised logistic regression), fitted to the class codes without any constraint."""
    if estimator is None and is_dataset(people.X):
        raise ValueError("estimator=None: cannot read a torch data set; use optfair.nn.TorchClassifier.")
    model = seeded(default_estimator(people.X) if estimator is None else estimator, seed)
    if people.weight is not None and not takes_weights(model):
        warn(f"sample_weight: {type(model).__name__} takes none, so it is fitted without.")
    return fit_model(model, people.X, people.y, people.weight)


# -- arguments ---------------------------------------------------------------------------------------------
def check_number(name: str, value: object, least: float = 0.0, most: float = np.inf, *, above: bool = False) -> None:
    """A number from ``least`` (or above it) to ``most``, which is not infinite."""
    number: Any = value if isinstance(value, Real) and not isinstance(value, bool | np.bool) else np.nan
    if not (-1e300 < number < 1e300) or number < least or (above and number == least) or number > most:
        kind, upper = ("number", f" and at most {most:g}") if np.isfinite(most) else ("finite number", "")
        raise ValueError(f"{name}={value!r}: must be a {kind} {'above' if above else 'of at least'} {least:g}{upper}.")


def check_whole(name: str, value: object, least: int = 1) -> None:
    if isinstance(value, bool | np.bool) or not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name}={value!r}: must be a whole number of at least {least}.")


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r}: must be one of {', '.join(map(repr, allowed))}.")
