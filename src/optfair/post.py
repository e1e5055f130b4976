"""`OptFairPost`: any classifier made fair to many groups, for many classes, without being opened.

z(x) = P(A, Y | X=x), out of fold  →  calibrated with labels  →  λ by the convex dual  →  h(x) = softmax(z(x) W(λ) / τ)
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from optfair.base import whole_or_nothing
from optfair.constraints import Constraint
from optfair.constraints.criteria import DEFAULT_TOLERANCE, AnyConstraint
from optfair.determinism import Determinism
from optfair.dual.certificate import Certificate
from optfair.errors import warn
from optfair.estimation.calibration import calibrate, calibrated
from optfair.estimation.models import JointModel, placed, with_seeds
from optfair.estimation.recipe import is_fitted_model, learn_posteriors
from optfair.labelled import solve_with_labels
from optfair.labels import encode_classes, match_groups
from optfair.options import Options
from optfair.path import Frontier, tolerance_path, widest, with_tolerance
from optfair.posterior import check_posterior
from optfair.record import RecordedClassifier
from optfair.report import Report, make_report
from optfair.rule import FairRule, flat
from optfair.rule_file import rule_content, rule_from
from optfair.task import Task

CALIBRATIONS = ("none", "posterior", "labels", "both")
# What constraint objects say themselves.
UNSAID: dict[str, Any] = {"tolerance": DEFAULT_TOLERANCE, "reference": "overall", "outcomes": None, "attributes": None}
SINGLE_PRECISION_NUMBERS = 20_000_000  # beyond this many entries Z is kept in float32


@dataclass(frozen=True, eq=False)
class _Kept:
    """Out-of-fold posteriors and observed cells a·m + y of the people fitted on: personal data, never written out.

    plain : (n,) the class that the model itself would have answered, out of fold. people : their number, or
    None where weights are those of a sample.
    """

    task: Task
    cell: np.ndarray
    plain: np.ndarray
    people: float | None


class OptFairPost(RecordedClassifier):
    """The most accurate rule on top of a classifier whose disparity is within tolerance, with a certificate.

    Parameters
    ----------
    estimator : a classifier with predict_proba (None: standardised multinomial logistic regression), cloned and fitted;
        or a fitted one as ``FrozenEstimator(model)`` or with ``cv="prefit"``, or a function X -> probabilities: these
        are only ever asked.
    sensitive_features : None (give groups to ``fit``); or column name(s) or position(s) of X, or a function of X. Named
        columns are left out of the features when blind.
    criterion, tolerance, reference, outcomes, attributes, costs, temperature, gap : see `optfair.solve`.
    awareness : "blind" (no group at prediction), or "aware".
    posterior : how P(A, Y | X) is learned: "joint" (one model of the pair), "factored" (P(Y|X) · P(A|X,Y): a model of Y
        and one of A in each class; cheaper as soon as there are several of both), "auto" (factored for a fitted model).
    group_estimator : of P(A | X, Y=i); None: ``estimator`` again, or logistic regression beside a fitted model.
    cv : folds of the out-of-fold posteriors: a number (rows are dealt out by content), a splitter, a list, or "prefit".
    calibration : what labels are used for, beyond the models: "posterior" (z is calibrated), "labels" (bounds are moved
        until they hold for the labels, as far as these are more than noise), "both" (default), "none".
    decision : "hashed", "argmax" or "sampled"; see `predict`.
    missing : a missing group is an "error", or a "group" of its own. unseen : when aware, a group not seen in ``fit``
        is an "error", or is answered "blind", from z(x) without the group.
    keep_posteriors : keep the out-of-fold z in memory for `with_tolerance`, `with_criterion`, `frontier` and `report`.
    n_jobs : processes that share the model fits. random_state : seed, also of the models' parts that have
        none; makes the key of hashed decisions guessable.

    Attributes
    ----------
    rule_ : FairRule. certificate_, multipliers_, determinism_ : of the rule. classes_, groups_ : names.
    posterior_model_ : X -> z. calibration_ : its scaling(s). n_base_fits_, seconds_ : what fitting took.
    """

    _record, _personal = "rule_", ("_kept",)
    _record_content, _record_from = staticmethod(rule_content), staticmethod(rule_from)

    def __init__(
        self,
        estimator: Any = None,
        *,
        sensitive_features: Any = None,
        criterion: Any = "demographic_parity",
        tolerance: Any = DEFAULT_TOLERANCE,
        reference: str = "overall",
        outcomes: Sequence[Hashable] | None = None,
        attributes: str | Sequence[Hashable] | None = None,
        costs: Any = None,
        temperature: Any = "auto",
        gap: float = 1e-3,
        awareness: str = "blind",
        posterior: str = "auto",
        group_estimator: Any = None,
        cv: Any = 5,
        calibration: str = "both",
        decision: str = "hashed",
        missing: str = "error",
        unseen: str = "error",
        keep_posteriors: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.sensitive_features = sensitive_features
        self.criterion = criterion
        self.tolerance = tolerance
        self.reference = reference
        self.outcomes = outcomes
        self.attributes = attributes
        self.costs = costs
        self.temperature = temperature
        self.gap = gap
        self.awareness = awareness
        self.posterior = posterior
        self.group_estimator = group_estimator
        self.cv = cv
        self.calibration = calibration
        self.decision = decision
        self.missing = missing
        self.unseen = unseen
        self.keep_posteriors = keep_posteriors
        self.n_jobs = n_jobs
        self.random_state = random_state

    # -- fitting -------------------------------------------------------------------------------------------
    @whole_or_nothing
    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> OptFairPost:
        """Learn z(x) out of fold, calibrate it, and solve for the rule.

        sensitive_features : the group of each row: list, array, Series; several columns (2-d, DataFrame) make
        intersections. Rows are matched by position. sample_weight : honoured by models, calibration and constraints; a
        whole number counts people; divide the weights of a survey by their mean.
        """
        constraints, options = self._constraints(), self._options()
        self._check_choices(calibration=CALIBRATIONS)
        fixed = is_fitted_model(self.estimator, self.cv)
        people = self._people(
            X, y, sensitive_features, sample_weight, getattr(self.estimator, "classes_", None) if fixed else None
        )
        if len(people.groups) == 1:
            message = f"sensitive_features: there is one group, {people.groups.tolist()[0]!r}; nothing is compared."
            warn(message)

        clock = time.perf_counter()
        aware = self.awareness == "aware"
        people = replace(people, X=self._model_features(people.X))
        holds_group = aware and self.sensitive_features is not None
        models, seed = (self.estimator, self.group_estimator), self._seed()
        if seed is not None:
            models = tuple(model if fixed and k == 0 else with_seeds(model, seed) for k, model in enumerate(models))
        how = *models, self.posterior, self.cv
        left_out = None if aware else self.sensitive_features
        learned = learn_posteriors(*how, people, self.n_jobs, holds_group=holds_group, left_out=left_out)
        seconds = {"models": time.perf_counter() - clock}

        clock = time.perf_counter()
        Z = placed(learned.Z, people.a) if aware else learned.Z
        plain = Z.sum(axis=1).argmax(axis=1)
        scalings = None
        if self.calibration in ("posterior", "both"):
            scalings, Z = calibrate(
                Z, people.a, people.y, people.weight, learned.splits, aware=aware, seed=options.seed
            )
        seconds["calibration"] = time.perf_counter() - clock

        clock = time.perf_counter()
        Z = Z.astype(np.float32) if Z.size > SINGLE_PRECISION_NUMBERS else Z
        measure = check_posterior(Z, people.groups, people.class_index, people.weight)
        kept = _Kept(Task.prepare(measure, constraints, self.costs, options), people.cell, plain, people.counted)
        self.rule_ = self._solve(kept, constraints, options)
        # Only now: a fit that fails leaves the model of an earlier one whole.
        seconds["solve"] = time.perf_counter() - clock
        self.posterior_model_, self.calibration_, self.seconds_ = learned.model, scalings, seconds
        self.n_base_fits_ = learned.n_fits
        self.classes_, self.groups_ = people.classes, people.groups
        self._kept = kept if self.keep_posteriors else None
        return self

    def _solve(
        self, kept: _Kept, constraints: Sequence[AnyConstraint], options: Options, start: FairRule | None = None
    ) -> FairRule:
        if self.calibration in ("labels", "both"):
            return solve_with_labels(kept.task, options, constraints, kept.cell, start, kept.people)
        return kept.task.solve(options, constraints, start)

    def _options(self) -> Options:
        return Options(temperature=self.temperature, gap=self.gap, random_state=self._seed())

    # -- prediction ----------------------------------------------------------------------------------------
    def joint_posterior(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """z(x) of new people, calibrated, (n, n_groups, n_classes): what the rule is applied to."""
        return self._posteriors_of(X, sensitive_features)[1]

    def _posteriors_of(self, X: Any, sensitive_features: Any) -> tuple[np.ndarray, np.ndarray]:
        """z as the models give it, and calibrated."""
        X, group = self._new_people(X, sensitive_features)
        Z = self.posterior_model_(X)
        if group is not None:
            Z = placed(Z, group)
        return Z, Z if self.calibration_ is None else calibrated(self.calibration_, Z, group)

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """h(x), (n, n_classes) in the order of ``classes_``: with which probability each class is the answer."""
        Z = self.joint_posterior(X, sensitive_features=sensitive_features)
        return self.rule_.predict_proba(Z)

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """β(x) = z(x) W(λ), (n, n_classes); for two classes their difference, (n,)."""
        Z = self.joint_posterior(X, sensitive_features=sensitive_features)
        scores = Z.reshape(len(Z), -1) @ flat(self.rule_.weights)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def _key(self) -> bytes | None:
        return self.rule_.key

    # -- what was found ------------------------------------------------------------------------------------
    @property
    def certificate_(self) -> Certificate:
        check_is_fitted(self, "rule_")
        return self.rule_.certificate

    @property
    def multipliers_(self) -> pd.DataFrame:
        check_is_fitted(self, "rule_")
        return self.rule_.multipliers

    @property
    def determinism_(self) -> Determinism:
        check_is_fitted(self, "rule_")
        return self.rule_.determinism

    def report(
        self,
        X: Any = None,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        keys: Any = None,
    ) -> Report:
        """What was asked for and reached, and at what price; `print` it.

        Without data: of the people fitted on, out of fold. With labelled data: the plain model, the rule and its
        decisions on them (with ``keys`` as in `predict`), every violation with its interval and noise floor.
        """
        check_is_fitted(self, "rule_")
        constraints, m = self._constraints(), len(self.classes_)
        what = self._title(constraints)
        if X is None:
            fitted: dict[str, Any] = {"seconds": self.seconds_, "n_base_fits": self.n_base_fits_}
            kept: _Kept | None = getattr(self, "_kept", None)
            if kept is None:
                return make_report(what, self.rule_, constraints, {}, **fitted)
            measure = kept.task.posterior
            answers = {self._plain_name(): np.eye(m)[kept.plain], "fair rule": self.rule_.predict_proba(measure.Z)}
            group, label = np.divmod(kept.cell, m)
            title = f"{what}; {measure.n} people fitted on, out of fold"
            return make_report(title, self.rule_, constraints, answers, label, group, measure.weight, **fitted)
        X, label, group, asked = self._judged(X, y, sensitive_features, sample_weight)
        raw, Z = self._posteriors_of(X, asked)
        decided, _ = encode_classes(self.predict(X, sensitive_features=asked, keys=keys), self.classes_.tolist())
        answers = {
            self._plain_name(): np.eye(m)[raw.sum(axis=1).argmax(axis=1)],
            f"decisions ({self.decision})": np.eye(m)[decided],
            "fair rule": self.rule_.predict_proba(Z),
        }
        return make_report(
            f"{what}; {len(label)} people given", self.rule_, constraints, answers, label, group, sample_weight
        )

    def _plain_name(self) -> str:
        """What answers without constraints: the model of Y itself, or the likeliest class by the model of the pair."""
        return "unconstrained, joint" if isinstance(self.posterior_model_, JointModel) else "plain model"

    # -- other rules from the same posteriors --------------------------------------------------------------
    def with_tolerance(self, tolerance: Any) -> OptFairPost:
        """The same models with another tolerance: only the rule is solved again."""
        constraints = self._constraints()
        if isinstance(self.criterion, str):
            return self._solved_again(tolerance=tolerance)
        if not any(isinstance(wish, Constraint) for wish in constraints):
            raise ValueError("tolerance: none of the constraints has one; use with_criterion.")
        moved = with_tolerance(constraints, tolerance)
        return self._solved_again(criterion=moved, **UNSAID)

    def with_criterion(self, criterion: Any, tolerance: Any = None) -> OptFairPost:
        """The same models with another criterion (and tolerance, if given): only the rule is solved again."""
        given = tolerance is not None
        tolerance = tolerance if given else self.tolerance
        if not isinstance(criterion, str):  # objects say everything themselves
            items = [criterion] if isinstance(criterion, AnyConstraint) else list(criterion)
            if all(isinstance(item, AnyConstraint) for item in items):
                if given:
                    raise ValueError("tolerance: already said by the constraint objects; leave it out here.")
                return self._solved_again(criterion=criterion, **UNSAID)
        return self._solved_again(criterion=criterion, tolerance=tolerance)

    def _posteriors(self) -> _Kept:
        check_is_fitted(self, "rule_")
        kept: _Kept | None = getattr(self, "_kept", None)
        if kept is None:
            raise ValueError(
                "the out-of-fold posteriors are not there (keep_posteriors=False, or a copy or a file of the model, "
                "which never hold them); fit again."
            )
        return kept

    def _solved_again(self, **changed: Any) -> OptFairPost:
        kept = self._posteriors()
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        for name, value in changed.items():
            setattr(other, name, value)
        constraints, options = other._constraints(), other._options()
        clock = time.perf_counter()
        other._kept = replace(kept, task=kept.task.with_constraints(constraints))
        rule = other._solve(other._kept, constraints, options, self.rule_)
        # The same key: whoever is undecided under both rules is answered from the same number.
        other.rule_ = replace(rule, key=self.rule_.key)
        other.seconds_ = {"models": 0.0, "calibration": 0.0, "solve": time.perf_counter() - clock}
        other.n_base_fits_ = 0
        return other

    def frontier(self, tolerances: int | Sequence[float] = 20, *, test: tuple[Any, ...] | None = None) -> Frontier:
        """Accuracy against violation for many tolerances, from the same posteriors; see `optfair.frontier`.

        test : (X_test, y_test, groups_test) or (..., weights): labelled people on whom every rule is measured too.
        Without it violations are those on z(x); where labels have moved the bounds they may exceed the tolerance.
        """
        kept, constraints = self._posteriors(), self._constraints()
        if test is not None:
            if not isinstance(test, tuple | list) or len(test) not in (3, 4):
                raise ValueError(
                    "test: must be (X_test, y_test, groups_test) or (X_test, y_test, groups_test, weights)."
                )
            X, y, groups, *rest = test
            Z = self.joint_posterior(X, sensitive_features=groups if self._asks_for_groups() else None)
            codes = match_groups(groups, self.groups_, len(Z), missing=self.missing)
            test = (Z, y, self.groups_[codes], *rest)
        options = self._options()

        def solve(task: Task, wishes: Sequence[AnyConstraint], start: FairRule | None) -> FairRule:
            return replace(self._solve(replace(kept, task=task), wishes, options, start), key=self.rule_.key)

        task = kept.task.with_constraints(widest(constraints))
        return tolerance_path(task, constraints, tolerances, options, test, solve)

    # -- scikit-learn --------------------------------------------------------------------------------------
    def __sklearn_clone__(self) -> OptFairPost:
        """A fitted model, or a function, stays the one it is, inside GridSearchCV too."""
        given = self.get_params(deep=False)
        prefit = isinstance(self.cv, str) or is_fitted_model(self.estimator, self.cv)
        return type(self)(**{k: v if prefit and k == "estimator" else clone(v, safe=False) for k, v in given.items()})
