"""Test on people not fitted on whether a fair classifier keeps its tolerance in their population."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.estimators.base import FairClassifier
from optfair.estimators.labelled_rows import LabelledRows
from optfair.inputs.labels import encode_classes
from optfair.metrics.counts import ConfusionCounts, count_codes
from optfair.rule.promise import Promise, held_out_promise
from optfair.utils.checks import check_number

DEFAULT_CONFIDENCE = 0.95


class PromisingClassifier(FairClassifier):
    """A `FairClassifier` whose tolerance can be tested for the population of new people."""

    def promise(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        cluster: Any = None,
        keys: Any = None,
        confidence: float | None = None,
        family: bool = False,
    ) -> Promise:
        """Say whether the tolerance is kept in the population of these people, who must not be among those fitted on.

        Each row is tested by itself, by one-sided limits of its rates; however many there are, a tolerance that is
        exceeded is promised with probability 1 − ``confidence`` at most. One look at one classifier: whoever tries
        several on the same people and takes the best needs ``family=True``, or to divide 1 − ``confidence`` by their
        number.

        Parameters
        ----------
        X : array-like or data frame of n rows
            Features of people not fitted on.
        y : array-like of shape (n,), optional
            Their true classes; demographic parity, its ratio and minimum selection rates need none.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Their groups, unless these are in X.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights of the rows.
        cluster : array-like of shape (n,), optional
            The person of each row, where some have several.
        keys : sequence of n keys, optional
            Who each person is, as in `predict`, where hashed decisions are made with keys.
        confidence : float, optional
            Probability of the promise; that of the constructor, or 0.95, by default.
        family : bool, default False
            Whether to choose among rules that are tightened more and more: from the strictest on, for as long as they
            keep the tolerance. The classifier of the last one is ``promise.model``. Only for `OptFairPost` with the
            posteriors of the people fitted on.

        Returns
        -------
        Promise
            Whether it is kept, the bound of the largest gap, and a table of all rows.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(6000, random_state=0)
        >>> train, test = data.split(0.5, random_state=0)
        >>> model = OptFairPost(tolerance=0.1, random_state=0)
        >>> model = model.fit(train.X, train.y, sensitive_features=train.sensitive_features)
        >>> model.promise(test.X, sensitive_features=test.sensitive_features).method
        'held out'
        """
        self._check_fitted()
        if confidence is None:
            confidence = getattr(self, "confidence", None) or DEFAULT_CONFIDENCE
        check_number("confidence", confidence, "[0.5, 1)", ", e.g. 0.95")
        options = {"needs_labels": False, "needs_groups": True}
        rows = self._check_labelled(X, y, sensitive_features, sample_weight, cluster, **options)
        level = float(confidence)

        def promise(model: PromisingClassifier) -> Promise:
            counts = replace(model._count_decisions(rows, rows.take(keys)), labelled=y is not None)
            return held_out_promise(counts, self.constraints_, level, self.decision)

        if not family:
            return promise(self)
        last = None
        A, m = len(self.groups_), len(self.classes_)
        n_people = np.bincount(rows.group * m + rows.label, minlength=A * m).reshape(A, m)
        for model in self._family(n_people if y is not None else n_people.sum(axis=1, keepdims=True)):
            candidate = replace(promise(model), model=model)
            if not candidate.kept:
                return candidate if last is None else last
            last = candidate
        assert last is not None
        return last

    def _count_decisions(self, rows: LabelledRows, keys: Any) -> ConfusionCounts:
        """Count what the classifier decides for labelled rows; where that is drawn anew, by probabilities.

        A hashed decision is a fixed function of the row or key, and people of equal rows get the same.
        """
        classes = pd.Index(self.classes_.tolist(), tupleize_cols=False)
        if self.decision == "sampled":
            h = self.predict_proba(rows.X, sensitive_features=rows.groups)
            prediction = h / h.sum(axis=1, keepdims=True)
        else:
            answers = self.predict(rows.X, sensitive_features=rows.groups, keys=keys)
            prediction, _ = encode_classes(answers, self.classes_.tolist())
        return count_codes(rows.group, rows.label, prediction, rows.weight, self.groups_, classes, rows.cluster)

    def _family(self, n_people: np.ndarray) -> Iterator[PromisingClassifier]:
        """Yield classifiers of rules that are tightened less and less, for new people of these numbers.

        n_people : (A, m) by group and class, or (A, 1) where classes are unknown.
        """
        raise ValueError("family=True: is for OptFairPost, whose rule is solved again; here, leave it out.")
