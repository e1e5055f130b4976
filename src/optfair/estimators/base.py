"""Share what every fair classifier does: check rows at the door, find the groups, turn probabilities into predictions.

Sub-classes set ``classes_`` and ``groups_`` in `fit`, and have the parameters ``sensitive_features``, ``awareness``,
``missing``, ``unseen``, ``decision`` and ``random_state``, and those of the constraints: ``criterion``, ``tolerance``,
``reference``, ``outcomes`` and ``attributes``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from optfair.constraints import AnyConstraint, as_constraints
from optfair.constraints.criteria import labelled_criterion
from optfair.estimators.cautions import (
    warn_about_groups,
    warn_about_ids,
    warn_about_placeholders,
    warn_if_among_features,
    warn_if_fitted,
)
from optfair.estimators.folders import score_folder
from optfair.estimators.labelled_rows import LabelledRows, rows_of_groups
from optfair.estimators.new_rows import check_other_columns, conform_rows, is_complete
from optfair.inputs.alignment import check_row_labels, check_same_rows
from optfair.inputs.clusters import encode_clusters
from optfair.inputs.containers import (
    drop_columns,
    is_dataset,
    read_dataset_labels,
    read_groups,
    take_rows,
)
from optfair.inputs.feature_schema import Feature, describe_features, feature_frame
from optfair.inputs.features import check_numbers, check_table
from optfair.inputs.frames import is_record
from optfair.inputs.identity import row_bytes
from optfair.inputs.labels import (
    MISSING_CHOICES,
    UNKNOWN,
    check_weights,
    encode_classes,
    match_groups,
)
from optfair.inputs.reading import read_training_data
from optfair.inputs.table_form import TableForm, read_training_table
from optfair.inputs.training_data import TrainingData
from optfair.inputs.values import exact_column
from optfair.posteriors.out_of_fold import is_fitted_model
from optfair.reporting.wording import request_text
from optfair.rule import decisions
from optfair.storage.scoring import ScoredFiles
from optfair.utils.checks import check_choice, check_n_jobs
from optfair.utils.display import with_progress
from optfair.utils.seeds import as_seed

CHOICES = {
    "awareness": ("blind", "aware"),
    "decision": decisions.DECISIONS,
    "hashing": decisions.HASHES,
    "missing": MISSING_CHOICES,
    "unseen": ("error", "blind"),
}
Model = TypeVar("Model")


class FairClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that takes groups at `fit`, or reads them from X."""

    estimator: Any
    sensitive_features: Any
    awareness: str
    decision: str
    missing: str
    unseen: str
    random_state: Any
    progress: bool = False  # of classes that do not have it
    hashing: str = "blake2b"  # of classes that do not have it
    criterion: Any
    tolerance: Any
    reference: str | None
    outcomes: Any
    attributes: Any
    classes_: np.ndarray
    groups_: pd.Index
    constraints_: list[AnyConstraint]
    _form: TableForm
    _features: tuple[Feature, ...] = ()  # of the columns of X, as they were when the model was fitted
    _compares_groups = True
    _default_model = "logistic regression"  # what estimator=None stands for
    _or_aware = ", or fit with awareness='aware'"  # what a user of this class can do instead
    _missing_step = ""  # what else than an error or a group a missing group can be
    _prefit_advice = ""  # how a fitted model stays as it is, of classes that are given one by mistake

    # -- fitting -------------------------------------------------------------------------------------------
    def _constraints(self) -> list[AnyConstraint]:
        """Return what is asked for; constraint objects say everything themselves."""
        return as_constraints(self.criterion, self.tolerance, self.reference, self.outcomes, self.attributes)

    def _check_choices(self, **choices: tuple[str, ...]) -> None:
        for name, words in {**CHOICES, **choices}.items():
            check_choice(name, getattr(self, name), words)
        check_n_jobs(getattr(self, "n_jobs", None))
        if self.unseen == "blind" and (self.awareness == "blind" or self.sensitive_features is not None):
            raise ValueError(
                "unseen='blind': is for awareness='aware' with groups given to fit; elsewhere no group is looked up."
            )

    def _training_data(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any,
        sample_weight: Any,
        classes: Iterable[Hashable] | None = None,
        cluster: Any = None,
    ) -> TrainingData:
        """Return everything `fit` was given, checked, with X as the models see it.

        classes : those a fitted model knows, if there is one. cluster : the person of each row, or None.
        """
        if type(X).__name__ == "DataLoader":
            raise ValueError("X: is a DataLoader; give the data set it reads, X.dataset.")
        check_table(X)
        table = read_training_table(X)
        form = TableForm.of(table, is_closed=self._keeps_estimator())
        features = table if self.awareness == "aware" else drop_columns(table, self.sensitive_features)
        if is_dataset(table):  # its items are (x, y, group), and the model looks at x
            y, sensitive_features = self._dataset_labels(table, y, sensitive_features)
        else:
            validate_data(self, table, skip_check_array=True)
        n, caller = self._check_size(table), type(self).__name__
        groups = functools.partial(self._groups_of, table, sensitive_features)
        columns = y, groups, sensitive_features, sample_weight
        self._form, self._features = form, describe_features(table)
        options = {"missing": self.missing, "step": self._missing_step, "classes": classes, "cluster": cluster}
        return read_training_data(features, *columns, n, caller, **options)

    def _warn_about_data(
        self, X: Any, data: TrainingData, sensitive_features: Any, constraints: Sequence[AnyConstraint] = ()
    ) -> None:
        """Warn about groups, features and an estimator that are allowed and rarely meant.

        constraints : those from which a user can leave small groups out.
        """
        if self._compares_groups:
            warn_about_groups(data, constraints)
        warn_about_placeholders(data.groups)
        if self.awareness == "blind" and isinstance(X, pd.DataFrame) and sensitive_features is not None:
            warn_if_among_features(X, sensitive_features)
        if not self._keeps_estimator():
            warn_about_ids(data.X, self.estimator)
            if self._prefit_advice:
                warn_if_fitted(self.estimator, self._prefit_advice)

    def _keeps_estimator(self) -> bool:
        """Tell whether the estimator is only asked for probabilities, never fitted."""
        return False

    def _dataset_labels(self, dataset: Any, y: Any, groups: Any) -> tuple[Any, Any]:
        """Return labels and groups, from the items of a torch data set where they are not given."""
        needs_groups = groups is None and self.sensitive_features is None
        if y is not None and not needs_groups:
            return y, groups
        labels, item_groups = read_dataset_labels(dataset)
        return labels if y is None else y, item_groups if needs_groups else groups

    def _check_size(self, X: Any) -> int:
        """Return the number of rows; neither rows nor columns may be none."""
        n, d = _num_samples(X), getattr(self, "n_features_in_", 1)
        if n == 0:
            raise ValueError("X: has 0 sample(s); give at least one row for each of two classes.")
        if d == 0:
            raise ValueError(f"X: has 0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required.")
        return n

    def _groups_of(self, X: Any, sensitive_features: Any) -> Any:
        """Return the groups, from the argument or from X."""
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

    @property
    def features_(self) -> pd.DataFrame:
        """The columns of X: name, kind, low and high (of nine in ten), has_gaps, levels that ten rows share."""
        self._check_fitted()
        return feature_frame(self._features)

    # -- prediction ----------------------------------------------------------------------------------------
    def _check_fitted(self) -> None:
        # scikit-learn asks the estimator for its tags first: a tenth of a millisecond.
        if not hasattr(self, "classes_"):
            check_is_fitted(self, "classes_")

    def _check_new_rows(self, X: Any, sensitive_features: Any) -> tuple[Any, np.ndarray | None]:
        """Return (X as the models see it, group codes or None when blind) of rows to be predicted."""
        self._check_fitted()
        check_table(X)
        if (X.shape[0] if getattr(X, "shape", ()) else len(X)) == 0 and not is_record(X):
            raise ValueError("X: has no rows; give at least one.")
        X = conform_rows(self, X)
        if hasattr(self, "n_features_in_") and getattr(X, "ndim", 2) == 1:
            step = "give it as X.to_frame().T" if isinstance(X, pd.Series) else "X.reshape(1, -1)"
            raise ValueError(f"X: has one dimension. Reshape your data: {step} if it is one person.")
        complete = is_complete(self, X)
        if is_dataset(X):
            complete = True
        elif self.awareness == "aware" or complete:
            validate_data(self, X, reset=False, skip_check_array=True)
        else:
            check_other_columns(self, X)
        check_row_labels(X=X, sensitive_features=sensitive_features)
        group = None
        if self.awareness == "aware":
            values = self._groups_of(X, sensitive_features)
            group = match_groups(values, self.groups_, _num_samples(X), missing=self.missing, unseen=self.unseen)
        elif sensitive_features is not None:
            raise ValueError(f"sensitive_features: a blind rule does not use it; leave it out{self._or_aware}.")
        if complete and self.awareness == "blind":
            X = drop_columns(X, self.sensitive_features)
        if self.estimator is None:
            check_numbers(X, "estimator", self._default_model)
        return X, group

    def _check_labelled(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any,
        sample_weight: Any,
        cluster: Any = None,
        *,
        needs_labels: bool = True,
        needs_groups: bool = False,
    ) -> LabelledRows:
        """Return labelled rows to measure on; those of a group that is unknown, or was not seen in `fit`, are left out.

        A warning counts them. cluster : the person of each row, or None. needs_labels : if not, y may be None, and all
        codes are then 0. needs_groups : refuse unknown groups.
        """
        X = conform_rows(self, X)
        if is_dataset(X):
            y, sensitive_features = self._dataset_labels(X, y, sensitive_features)
        n = _num_samples(X)
        check_row_labels(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight, cluster=cluster)
        values, people = self._groups_of(X, sensitive_features), encode_clusters(cluster, n)
        group = match_groups(values, self.groups_, n, missing=self.missing, unseen="blind")
        label = np.zeros(n, dtype=int)
        if y is not None or needs_labels:
            label, _ = encode_classes(y, self.classes_.tolist(), name="y")
        check_same_rows(X=range(n), y=label, sensitive_features=sensitive_features, sample_weight=sample_weight)
        weight = check_weights(sample_weight, n)
        groups = sensitive_features if self._asks_for_groups() else None
        n_unknown = int((group == UNKNOWN).sum())
        if needs_groups and n_unknown:
            raise ValueError(
                f"sensitive_features: {n_unknown} of {n} rows have a missing value, and nothing is promised by the "
                "others alone; give all groups, or see optfair.metrics.unknown_group_bounds."
            )
        rows = rows_of_groups(group)
        if len(rows) == 0:
            match_groups(values, self.groups_, n, missing=self.missing)  # says which group, and which there are
        if len(rows) < n:
            X, label, group = take_rows(X, rows), label[rows], group[rows]
            weight = None if weight is None else weight[rows]
            groups = None if groups is None else take_rows(groups, rows)
            people = None if people is None else people[rows]
        is_labelled, positions = y is not None or needs_labels, rows if len(rows) < n else None
        numbers = n - len(rows) - n_unknown, n_unknown
        return LabelledRows(X, label, group, groups, weight, positions, people, is_labelled, *numbers)

    def _check_reported(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any, cluster: Any
    ) -> LabelledRows:
        """Return rows to report on; what speaks of true classes needs them."""
        has_labels = y is not None or is_dataset(X)
        name = None if has_labels else labelled_criterion(self.constraints_)
        if name is not None:
            raise ValueError(f"y: missing; {name!r} speaks of true classes.")
        return self._check_labelled(X, y, sensitive_features, sample_weight, cluster, needs_labels=has_labels)

    def _title(self, constraints: Sequence[AnyConstraint]) -> str:
        """Return one line that says what was asked for, of whom."""
        names = request_text(constraints)
        sizes = f"{len(self.groups_)} groups, {len(self.classes_)} classes"
        return f"{type(self).__name__}, {names}, {self.awareness}: {sizes}"

    def _asks_for_groups(self) -> bool:
        """Tell whether `predict` needs ``sensitive_features=``."""
        return self.awareness == "aware" and self.sensitive_features is None

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return the probability of each class as the prediction, (n, n_classes)."""
        raise NotImplementedError

    def _key(self) -> bytes | None:
        """Return the secret of hashed decisions."""
        raise NotImplementedError

    def predict(
        self, X: Any, *, sensitive_features: Any = None, keys: Any = None, random_state: Any = None
    ) -> np.ndarray:
        """Predict one class per row.

        Parameters
        ----------
        X : array-like, data frame of n rows, list of n dicts, or one dict
            Features. Columns are found by name where the model knows them; further ones are left out, an absent key
            is missing, and how a missing value is written makes no difference.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row; only for an aware classifier whose groups are not in X.
        keys : sequence of n keys, optional
            Who each person is, for ``decision="hashed"``: the same person always gets the same class. An id is best;
            the row of X without its sensitive columns by default.
        random_state : int or Generator, optional
            Seed of ``decision="sampled"``; that of the constructor by default.

        Returns
        -------
        ndarray of shape (n,)
            Class labels.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> model.predict(data.X, keys=range(400)).shape
        (400,)
        """
        self._check_fitted()
        decisions.check_decision(self.decision, keys, random_state, self.hashing)
        check_table(X)
        X = conform_rows(self, X)
        check_row_labels(X=X, keys=keys)
        h = self.predict_proba(X, sensitive_features=sensitive_features)
        return np.asarray(self.classes_[self._decide(h, X, keys, random_state)])

    def _decide(self, h: np.ndarray, X: Any, keys: Any = None, random_state: Any = None) -> np.ndarray:
        """Return the codes of the answers to probabilities, (n,), of rows that are in the form of those fitted on."""
        keys = decisions.check_keys(keys, len(h))
        if random_state is None and self.decision == "sampled":
            random_state = as_seed(self.random_state)
        drawing = keys, random_state, self._key(), self.hashing
        return decisions.decide(h, self.decision, self._identities(X), *drawing)

    @with_progress
    def score_parts(
        self,
        source: Any,
        out: Any,
        *,
        sensitive_features: str | Sequence[str] | None = None,
        keys: str | Sequence[str] | None = None,
        probabilities: bool = False,
        only: bool = False,
        client: Any = None,
    ) -> ScoredFiles:
        """Predict for the people in a folder of Parquet files, and write each file with its answers into another one.

        A file is whole or absent. A second call, after an interruption or when files were added, leaves those alone
        that were made by the same model from the same file, and makes the others. With ``decision="sampled"`` every
        file is drawn anew, whatever the seed.

        Parameters
        ----------
        source : str or path
            Folder of Parquet files; columns are found by name.
        out : str or path
            Folder to write to, made if need be.
        sensitive_features : str or sequence of str, optional
            Columns of the groups; only for an aware classifier whose groups are not in X.
        keys : str or sequence of str, optional
            Columns that say who each person is; see `predict`.
        probabilities : bool, default False
            Whether to write ``predict_proba`` too, a column for each class.
        only : bool, default False
            Whether to leave out the columns that were there.
        client : dask.distributed.Client, executor, or object with an ordered ``map``, optional
            Cluster whose machines share both folders.

        Returns
        -------
        ScoredFiles
            Which files were written and kept, rows and seconds.

        Examples
        --------
        >>> from optfair import OptFairPost, load_model
        >>> model = load_model("model.skops")  # doctest: +SKIP
        >>> model.score_parts("people/", out="answers/", keys="id")  # doctest: +SKIP
        """
        roles = {"sensitive_features": sensitive_features, "keys": keys}
        return score_folder(self, source, out, roles, probabilities=probabilities, only=only, client=client)

    def _identities(self, X: Any) -> Callable[[np.ndarray], Iterable[bytes]]:
        """Return the function that gives the bytes which identify the rows of X at an index, by their content."""
        features = drop_columns(X, self.sensitive_features) if is_complete(self, X) else X
        return lambda index: row_bytes(take_rows(features, index))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> float:
        """Return the accuracy of `predict`.

        Parameters
        ----------
        X : array-like or data frame of n rows
            Features.
        y : array-like of shape (n,)
            True classes.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights of the rows.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row; a blind classifier does not use it.

        Returns
        -------
        float
            Share of correct predictions.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> 0.5 < model.score(data.X, data.y) < 1
        True
        """
        check_row_labels(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        # Groups that are routed to a blind rule are of no use to it, and no mistake either.
        prediction = self.predict(X, sensitive_features=sensitive_features if self._asks_for_groups() else None)
        return float(accuracy_score(exact_column(y), prediction, sample_weight=sample_weight))

    # -- notebooks -----------------------------------------------------------------------------------------
    def _summary_html(self) -> str:
        """Return what was fitted, as HTML, or "" before that."""
        return ""

    def _repr_html_inner(self) -> str:
        return f"{super()._repr_html_inner()}{self._summary_html()}"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] += self._summary_html()
        return bundle

    # -- scikit-learn --------------------------------------------------------------------------------------
    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what the base estimator can read."""
        tags = super().__sklearn_tags__()
        if self.estimator is None:
            tags.input_tags.sparse = True
        elif hasattr(self.estimator, "__sklearn_tags__") and not isinstance(self.estimator, type):
            inner = get_tags(self.estimator).input_tags
            tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        return tags


def clone_keeping_prefit(model: Model) -> Model:
    """Return an unfitted clone; a base estimator that is only asked (see `is_fitted_model`) stays the same object.

    model : a classifier with the parameters ``estimator`` and ``cv``. This is its ``__sklearn_clone__``: searches then
    do not clone a fitted model into an unfitted one.
    """
    classifier: Any = model
    prefit = isinstance(classifier.cv, str) or is_fitted_model(classifier.estimator, classifier.cv)
    parameters = {
        name: value if prefit and name == "estimator" else clone(value, safe=False)
        for name, value in classifier.get_params(deep=False).items()
    }
    return type(model)(**parameters)
