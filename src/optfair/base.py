"""What every fair classifier shares: people at the door, groups from either side, answers at the end.

Sub-classes set ``classes_`` and ``groups_`` in `fit`, and have the parameters ``sensitive_features``, ``awareness``,
``missing``, ``unseen``, ``decision`` and ``random_state``, and those of the constraints: ``criterion``, ``tolerance``,
``reference``, ``outcomes`` and ``attributes``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags, check_random_state, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, assert_all_finite, check_is_fitted, validate_data

from optfair import decisions
from optfair.constraints import Constraint, as_constraints
from optfair.constraints.criteria import DEFAULT_TOLERANCE, AnyConstraint
from optfair.errors import warn
from optfair.features import as_table, drop_columns, has_columns, is_dataset, read_groups, take_rows
from optfair.labels import check_same_rows, check_weights, encode_classes, encode_groups, match_groups, object_array
from optfair.people import held_out_rows, row_bytes

CHOICES = {
    "awareness": ("blind", "aware"),
    "decision": decisions.DECISIONS,
    "missing": ("error", "group"),
    "unseen": ("error", "blind"),
}


@dataclass(frozen=True, eq=False)
class People:
    """Those a model is fitted on; whoever has weight zero is not there.

    X : as given, rows selected. a, y : (n,) codes. weight : (n,) or None. groups, classes : names.
    kept : positions among all the rows given, of which there were ``n_given``.
    """

    X: Any
    a: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    groups: pd.Index
    classes: np.ndarray
    kept: np.ndarray
    n_given: int

    def part(self, index: np.ndarray) -> People:
        """Those at ``index`` alone, as if they were all that was given; groups and classes keep their codes."""
        weight = None if self.weight is None else self.weight[index]
        there = {"X": take_rows(self.X, index), "a": self.a[index], "y": self.y[index], "weight": weight}
        return replace(self, **there, kept=np.arange(len(index)), n_given=len(index))

    @property
    def cell(self) -> np.ndarray:
        """The observed cell a·m + y of each person."""
        return self.a * len(self.classes) + self.y

    @property
    def counted(self) -> float | None:
        """How many people these are, if weights are whole numbers and so count people; None for weights of a sample."""
        if self.weight is None:
            return float(len(self.y))
        return float(self.weight.sum()) if (self.weight == np.rint(self.weight)).all() else None

    @property
    def class_index(self) -> pd.Index:
        return pd.Index(self.classes.tolist(), tupleize_cols=False)


def held_apart(people: People, share: float, seed: Any) -> tuple[np.ndarray, np.ndarray]:
    """Positions of (those to learn from, those held out), each with people of every group and class."""
    apart = held_out_rows(people.cell, share, seed)
    parts = np.flatnonzero(~apart), np.flatnonzero(apart)
    for part in parts:
        if len(np.unique(people.a[part])) < len(people.groups) or len(np.unique(people.y[part])) < len(people.classes):
            raise ValueError(
                f"held_out={share!r}: divides the people into {len(parts[0])} and {len(parts[1])}, of whom one part "
                "lacks a whole group or class; there are too few of them to hold some out."
            )
    return parts


Fit = TypeVar("Fit", bound=Callable[..., Any])


def whole_or_nothing(fit: Fit) -> Fit:
    """A fit that fails leaves the estimator as it was, with what an earlier one found."""

    @functools.wraps(fit)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.__dict__)
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            # In this order: another thread that predicts never finds anything missing.
            self.__dict__.update(before)
            for name in self.__dict__.keys() - before.keys():
                del self.__dict__[name]
            raise

    return cast(Fit, guarded)


class FairClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that takes groups at `fit`, or knows where in X they are."""

    estimator: Any
    sensitive_features: Any
    awareness: str
    decision: str
    missing: str
    unseen: str
    random_state: Any
    criterion: Any
    tolerance: Any
    reference: str
    outcomes: Any
    attributes: Any
    classes_: np.ndarray
    groups_: pd.Index
    _or_aware = ", or fit with 'aware'"  # what a user of this class can do instead

    # -- fitting -------------------------------------------------------------------------------------------
    def _check_choices(self, **more: tuple[str, ...]) -> None:
        for name, allowed in {**CHOICES, **more}.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in allowed:
                raise ValueError(f"{name}={value!r}: must be one of {', '.join(map(repr, allowed))}.")
        if self.unseen == "blind" and (self.awareness == "blind" or self.sensitive_features is not None):
            raise ValueError(
                "unseen='blind': is for awareness='aware' with groups given to fit; elsewhere no group is looked up."
            )

    def _constraints(self) -> list[AnyConstraint]:
        """What is asked for. Constraint objects say everything themselves."""
        objects = [self.criterion] if isinstance(self.criterion, AnyConstraint) else self.criterion
        if isinstance(objects, list | tuple) and all(isinstance(item, AnyConstraint) for item in objects):
            said = None if self.tolerance == DEFAULT_TOLERANCE else self.tolerance
            reference = None if self.reference == "overall" else self.reference
            return as_constraints(objects, said, reference, self.outcomes, self.attributes)
        return as_constraints(self.criterion, self.tolerance, self.reference, self.outcomes, self.attributes)

    def _seed(self) -> int | None:
        seed = self.random_state
        if seed is None or isinstance(seed, int | np.integer):
            return None if seed is None else int(seed)
        if not isinstance(seed, np.random.Generator | np.random.RandomState) and seed is not np.random:
            raise ValueError(f"random_state={seed!r}: must be None, a whole number of at least 0, or a generator.")
        if isinstance(seed, np.random.Generator):
            return int(seed.integers(2**31 - 1))
        return int(check_random_state(seed).randint(2**31 - 1))

    def _people(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any,
        sample_weight: Any,
        classes: Iterable[Hashable] | None = None,
    ) -> People:
        """Everything `fit` was given, checked. classes : those a fitted model knows, if there is one."""
        X = as_table(X)
        if not is_dataset(X):  # its items are (x, y, group), and the model looks at x
            validate_data(self, X, skip_check_array=True)
        n = self._check_size(X)
        labels = _check_labels(y, type(self).__name__)
        weight = check_weights(sample_weight, n)
        if weight is not None:
            # Weights below one (such as those that sum to one) count as many people as they speak of in effect: models
            # and calibration weigh what they see against what they expect.
            weight = weight * max(1.0, float(weight.sum() / (weight @ weight)))
        named = {"X": (X, range(n)), "y": (y, labels), "sample_weight": (sample_weight, weight)}
        # Lengths of all, and the order of the row labels of those that have any.
        listed = {k: v if isinstance(v, pd.DataFrame | pd.Series) else plain for k, (v, plain) in named.items()}
        groups_given = self._groups_of(X, sensitive_features)
        check_same_rows(**listed, sensitive_features=sensitive_features)
        a, groups = encode_groups(groups_given, n, missing=self.missing)
        if self.awareness == "blind" and sensitive_features is not None:
            _warn_if_among_features(X, sensitive_features)
        if len(groups) > max(10, n // 3):
            raise ValueError(
                f"sensitive_features: {len(groups)} groups among {n} rows; cut a continuous attribute into a few bands."
            )
        kept = np.arange(n)
        if weight is not None and not weight.all():
            kept = np.flatnonzero(weight)
            X, labels, weight = take_rows(X, kept), labels[kept], weight[kept]
            present, a = np.unique(a[kept], return_inverse=True)
            groups = groups[present]
        codes, index = encode_classes(labels, classes, name="y")
        if len(index) < 2:
            raise ValueError(
                f"y: has one class, {index.tolist()[0]!r}; at least two classes are needed to choose from."
            )
        names = object_array(index.tolist())
        if labels.dtype.kind != "O":
            # Wide enough for classes that a fitted model knows and y does not have.
            wide: dict[str, Any] = {} if classes is None else {"U": "U", "i": np.int64, "u": np.int64}
            names = names.astype(wide.get(labels.dtype.kind, labels.dtype))
        return People(X, a, codes, weight, groups, names, kept, n)

    def _check_size(self, X: Any) -> int:
        """The number of rows; neither rows nor columns may be none."""
        n, d = _num_samples(X), getattr(self, "n_features_in_", 1)
        if n == 0:
            raise ValueError("X: has 0 sample(s); give at least one row for each of two classes.")
        if d == 0:
            raise ValueError(f"X: has 0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required.")
        return n

    def _groups_of(self, X: Any, sensitive_features: Any) -> Any:
        """The groups, from the argument or from X."""
        if self.sensitive_features is None:
            if sensitive_features is None:
                raise ValueError(
                    "sensitive_features: missing; give the group of every row, or its column(s) in the constructor."
                )
            if isinstance(sensitive_features, str):
                raise ValueError(
                    f"sensitive_features={sensitive_features!r}: give the group of every row; columns of X are named "
                    "in the constructor."
                )
            return sensitive_features
        if sensitive_features is not None:
            raise ValueError("sensitive_features: given here and in the constructor; give it once.")
        return read_groups(self.sensitive_features, X)

    def _model_features(self, X: Any) -> Any:
        """X as the models see it: without the sensitive columns when blind."""
        return drop_columns(X, self.sensitive_features) if self.awareness == "blind" else X

    # -- prediction ----------------------------------------------------------------------------------------
    def _new_people(self, X: Any, sensitive_features: Any) -> tuple[Any, np.ndarray | None]:
        """(X as the models see it, group codes or None when blind) of people to be answered."""
        check_is_fitted(self, "classes_")
        X = as_table(X)
        if hasattr(self, "n_features_in_") and getattr(X, "ndim", 2) == 1:
            raise ValueError("X: has one dimension. Reshape your data: X.reshape(1, -1) if it is one person.")
        complete = self._is_complete(X)
        if is_dataset(X):
            complete = True
        elif self.awareness == "aware" or complete:
            validate_data(self, X, reset=False, skip_check_array=True)
        else:
            self._check_other_columns(X)
        if isinstance(X, pd.DataFrame) and isinstance(sensitive_features, pd.DataFrame | pd.Series):
            check_same_rows(X=X, sensitive_features=sensitive_features)
        group = None
        if self.awareness == "aware":
            values = self._groups_of(X, sensitive_features)
            group = match_groups(values, self.groups_, _num_samples(X), missing=self.missing, unseen=self.unseen)
        elif sensitive_features is not None:
            raise ValueError(f"sensitive_features: a blind rule does not use it; leave it out{self._or_aware}.")
        return self._model_features(X) if complete else X, group

    def _check_other_columns(self, X: Any) -> None:
        """A frame without its sensitive columns has all the others, in order."""
        source = self.sensitive_features if isinstance(self.sensitive_features, list) else [self.sensitive_features]
        expected = [name for name in getattr(self, "feature_names_in_", ()) if name not in source]
        given = list(getattr(X, "columns", expected))
        if expected and given != expected and all(isinstance(name, str) for name in source):
            raise ValueError(f"X: has the columns {given!r}; expected those of fit, in order: {expected!r}.")

    def _is_complete(self, X: Any) -> bool:
        """Whether X has its sensitive columns, if any: a blind rule does without them."""
        source = self.sensitive_features
        return source is None or has_columns(X, source, getattr(self, "n_features_in_", None))

    def _judged(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> tuple[Any, np.ndarray, np.ndarray, Any]:
        """(X, class codes, group codes, the groups if `predict` asks for them) of labelled people to be measured on."""
        X = as_table(X)
        n = _num_samples(X)
        group = match_groups(self._groups_of(X, sensitive_features), self.groups_, n, missing=self.missing)
        label, _ = encode_classes(y, self.classes_.tolist(), name="y")
        X_rows, y_rows = (v if isinstance(v, pd.DataFrame | pd.Series) else w for v, w in ((X, range(n)), (y, label)))
        check_same_rows(X=X_rows, y=y_rows, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return X, label, group, sensitive_features if self._asks_for_groups() else None

    def _title(self, constraints: Sequence[AnyConstraint]) -> str:
        """One line that says what was asked for, of whom."""
        names = ", ".join(
            f"{wish.criterion} within {wish.tolerance} of {wish.reference}"
            if isinstance(wish, Constraint)
            else type(wish).__name__
            for wish in constraints
        )
        sizes = f"{len(self.groups_)} groups, {len(self.classes_)} classes"
        return f"{type(self).__name__}, {names}, {self.awareness}: {sizes}"

    def _asks_for_groups(self) -> bool:
        """Whether `predict` needs ``sensitive_features=``."""
        return self.awareness == "aware" and self.sensitive_features is None

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        raise NotImplementedError

    def _key(self) -> bytes | None:
        """The secret of hashed decisions."""
        raise NotImplementedError

    def predict(
        self, X: Any, *, sensitive_features: Any = None, keys: Any = None, random_state: Any = None
    ) -> np.ndarray:
        """One class per row.

        With ``decision="hashed"`` the same person always gets the same answer: a person is ``keys[i]`` (an id: best),
        or else the row of X without its sensitive columns. With "sampled" it is drawn with ``random_state`` (or that
        of the constructor), with "argmax" it is the likeliest class.
        """
        check_is_fitted(self, "classes_")
        decisions.check_decision(self.decision, keys, random_state)
        X = as_table(X)
        h = self.predict_proba(X, sensitive_features=sensitive_features)
        keys = decisions.check_keys(keys, len(h))
        person = drop_columns(X, self.sensitive_features) if self._is_complete(X) else X
        if random_state is None and self.decision == "sampled":
            random_state = self._seed()
        chosen = decisions.decide(
            h, self.decision, lambda index: row_bytes(take_rows(person, index)), keys, random_state, self._key()
        )
        return np.asarray(self.classes_[chosen])

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> float:
        """Accuracy of `predict`."""
        # Routed to a blind rule, groups are of no use to it, and no mistake either.
        predicted = self.predict(X, sensitive_features=sensitive_features if self._asks_for_groups() else None)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    # -- scikit-learn --------------------------------------------------------------------------------------
    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.estimator is None:
            tags.input_tags.sparse = True
        elif hasattr(self.estimator, "__sklearn_tags__") and not isinstance(self.estimator, type):
            inner = get_tags(self.estimator).input_tags
            tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        return tags


def _warn_if_among_features(X: Any, groups: Any) -> None:
    """A blind rule whose X holds the groups is not blind."""
    if not isinstance(X, pd.DataFrame):
        return
    if isinstance(groups, pd.DataFrame):
        given = groups
    elif np.ndim(groups) == 2:
        given = pd.DataFrame(np.asarray(groups))
    else:
        given = pd.DataFrame({getattr(groups, "name", None): np.asarray(groups)})
    given = given[[name for name in given.columns if given[name].nunique(dropna=False) > 1]]  # one group is no secret
    same = [
        column
        for column in X.columns
        if any(
            (isinstance(name, str) and column == name) or np.array_equal(X[column].to_numpy(), given[name].to_numpy())
            for name in given.columns
        )
    ]
    if same:
        warn(
            f"sensitive_features: X holds them too, as {same[0]!r}, so the rule is not blind; leave the column out, or "
            "name it in the constructor."
        )


def _check_labels(y: Any, caller: str) -> np.ndarray:
    if y is None:
        raise ValueError(f"{caller} requires y to be passed, but the target y is None; give one label per row.")
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "O" and pd.isna(labels).any():
        raise ValueError(
            f"y: {int(pd.isna(labels).sum())} of {len(labels)} rows are missing; drop them or fill them in."
        )
    if labels.dtype.kind in "fc":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels
