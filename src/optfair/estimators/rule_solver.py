"""Solve for rules on posteriors that are kept: the first one, other tolerances, other criteria, a frontier."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from optfair.constraints import AnyConstraint, Constraint
from optfair.constraints.criteria import labelled_criterion
from optfair.constraints.naming import attribute_names
from optfair.dual.posterior import Posterior, make_posterior
from optfair.errors import warn, warn_empty
from optfair.estimators.labelled_rows import rows_of_groups
from optfair.estimators.saving import SavableClassifier
from optfair.inputs.alignment import check_row_labels
from optfair.inputs.containers import take_rows
from optfair.inputs.labels import match_groups
from optfair.metrics.counts import ConfusionCounts
from optfair.posteriors.out_of_fold import is_fitted_model
from optfair.reporting.answers import LostClass, answer_shares, lost_classes, warn_lost
from optfair.rule.certificate import Certificate
from optfair.rule.determinism import Determinism
from optfair.rule.driver import Solution, solve_problem
from optfair.rule.frontier import Frontier
from optfair.rule.options import Options
from optfair.rule.path_file import path_content, path_from_content
from optfair.rule.problem import FairProblem
from optfair.rule.promise import Promise, place_text
from optfair.rule.promising import promise_rule, tightened_family
from optfair.rule.rule import FairRule
from optfair.rule.tightening import FittedRows
from optfair.rule.tolerance_path import (
    FrontierScorer,
    check_test_tuple,
    loosest_constraints,
    readable_tolerances,
    tolerance_path,
    with_tolerance,
)
from optfair.utils.display import with_progress
from optfair.utils.parallel import uses_cores
from optfair.utils.seeds import as_seed

FEW_PEOPLE = 100  # behind a rate: with fewer, the limit theorem behind a promise is hardly tried
# Constraint objects say these themselves.
UNSAID: dict[str, Any] = {"tolerance": None, "reference": None, "outcomes": None, "attributes": None}
PATH_LENGTH = 20  # tolerances of a path that nobody has chosen


@dataclass(frozen=True, eq=False)
class FittedPosteriors:
    """What is kept of the rows fitted on: personal data, never written out.

    problem : of the people fitted on. labelled : their posteriors, out of fold, and observed cells; of a sample of them
    where they are in files. people : whose rows they are, where a promise was asked
    for, or None. solution : of the present constraints.
    plain : what the model itself would have predicted, out of fold, counted. recalibrated : the same for the calibrated
    posteriors, without constraints; None where these leave P(Y | X) as it is. Both are of people of known group;
    free_answers : both of everybody, as one group. cluster : codes of the people these are rows of, or None where every
    row is another person.
    """

    problem: FairProblem
    labelled: Posterior
    people: FittedRows | None
    solution: Solution
    plain: ConfusionCounts
    recalibrated: ConfusionCounts | None
    free_answers: tuple[ConfusionCounts, ConfusionCounts]
    cluster: np.ndarray | None = None


class RuleSolver(SavableClassifier):
    """A classifier whose rule is solved on posteriors; those of the rows fitted on may be kept in ``_fitted``."""

    temperature: Any
    gap: float
    calibration: str
    cv: Any
    costs: Any
    confidence: float | None
    unpromised: str
    keep_posteriors: bool
    rule_: FairRule
    seconds_: dict[str, float]
    n_base_fits_: int
    path_: Frontier | None
    _fitted: FittedPosteriors | None

    def joint_posterior(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return z(x) of new rows, (n, n_groups, n_classes)."""
        raise NotImplementedError

    # -- how rules are solved ------------------------------------------------------------------------------
    def _solve(self, problem: FairProblem, start: Solution | None = None) -> Solution:
        """Solve a problem. start : the solution of a similar one."""
        return solve_problem(problem, start)

    def _promise(
        self, problem: FairProblem, solution: Solution, people: FittedRows | None
    ) -> tuple[Solution, FairProblem, list[AnyConstraint]]:
        """Return the rule itself, or with a confidence one that is promised to new people, and what it is for.

        That may be looser than what was asked for.
        """
        if self.confidence is None:
            return solution, problem, list(problem.rows.constraints)
        if people is None:
            raise ValueError(
                f"confidence={self.confidence!r}: was not set when the model was fitted; fit again with it."
            )
        options = float(self.confidence), self.decision, self.unpromised
        promised, problem = promise_rule(problem, solution, people, *options)
        promise = promised.rule.promise
        if promise is not None and promise.table["people"].min() < FEW_PEOPLE:
            fewest = int(np.argmin(promise.table["people"].to_numpy(dtype=float)))
            place = place_text(promise.table, fewest, attribute_names(promised.rule.groups))
            warn(
                f"confidence={self.confidence!r}: the promise for {place} rests on "
                f"{promise.table['people'].iat[fewest]:.0f} people; below {FEW_PEOPLE}, the approximation behind it "
                "has hardly been tried: treat it as an indication."
            )
        return promised, problem, list(problem.rows.constraints)

    def _check_promise(self) -> None:
        """Check what is to be promised to new people, if anything."""

    def _calibration(self) -> str:
        """Return what is calibrated: "auto" keeps the probabilities of a model that is already fitted."""
        if self.calibration != "auto":
            return self.calibration
        return "groups" if is_fitted_model(self.estimator, self.cv) else "posterior"

    def _options(self) -> Options:
        """Return how to solve."""
        return Options(temperature=self.temperature, gap=self.gap, random_state=as_seed(self.random_state))

    # -- what was found ------------------------------------------------------------------------------------
    @property
    def certificate_(self) -> Certificate:
        """How close to the best rule this one is, on z(x)."""
        check_is_fitted(self, "rule_")
        return self.rule_.certificate

    @property
    def promise_(self) -> Promise | None:
        """What is promised to new people; None without a confidence, and of another way to decide than it was for."""
        check_is_fitted(self, "rule_")
        promise = self.rule_.promise
        if promise is None or self.decision == promise.decision:
            return promise
        # Hashed decisions have the noise of sampled ones, and more.
        return promise if (promise.decision, self.decision) == ("hashed", "sampled") else None

    @property
    def multipliers_(self) -> pd.DataFrame:
        """One line per constraint row: names, multiplier, price, value and bounds."""
        check_is_fitted(self, "rule_")
        return self.rule_.multipliers

    @property
    def determinism_(self) -> Determinism:
        """What predicting the likeliest class for everybody would change."""
        check_is_fitted(self, "rule_")
        return self.rule_.determinism

    def _summary_html(self) -> str:
        return self.rule_._repr_html_() if hasattr(self, "rule_") else ""

    # -- other rules from the same posteriors --------------------------------------------------------------
    def with_tolerance(self, tolerance: Any) -> Self:
        """Return the same models with another tolerance; only the rule is solved again.

        Parameters
        ----------
        tolerance : float or mapping from group to float
            The new tolerance of every criterion.

        Returns
        -------
        OptFairPost
            Another fitted classifier.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> model.with_tolerance(0.05).tolerance
        0.05
        """
        constraints = self._constraints()
        if isinstance(self.criterion, str):
            other = self._solve_again(tolerance=tolerance)
        elif not any(isinstance(constraint, Constraint) for constraint in constraints):
            raise ValueError("tolerance: none of the constraints has one; use with_criterion.")
        else:
            other = self._solve_again(criterion=with_tolerance(constraints, tolerance), **UNSAID)
        if not isinstance(tolerance, Mapping):  # which leaves the groups free that it does not name
            other.path_ = self.path_
        return other

    def with_criterion(self, criterion: Any, tolerance: Any = None) -> Self:
        """Return the same models with another criterion; only the rule is solved again.

        Parameters
        ----------
        criterion : str, Constraint, Ratio, MinimumRate, Rows, list of these, or mapping
            The new criterion; a mapping is from names to tolerances.
        tolerance : float or mapping from group to float, optional
            The new tolerance; the present one by default.

        Returns
        -------
        OptFairPost
            Another fitted classifier.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> model.with_criterion("eo", 0.1).criterion
        'eo'
        """
        if isinstance(criterion, Mapping):  # says its tolerances itself
            return self._solve_again(criterion=criterion, tolerance=tolerance)
        if not isinstance(criterion, str):  # objects say everything themselves
            items = [criterion] if isinstance(criterion, AnyConstraint) else list(criterion)
            if all(isinstance(item, AnyConstraint) for item in items):
                return self._solve_again(criterion=criterion, **{**UNSAID, "tolerance": tolerance})
        return self._solve_again(criterion=criterion, tolerance=self.tolerance if tolerance is None else tolerance)

    def _family(self, n_people: np.ndarray) -> Iterator[Self]:
        """Yield classifiers whose rules are tightened less and less; see `PromisingClassifier`."""
        fitted = self._posteriors()
        parts = fitted.problem, fitted.solution, fitted.people or FittedRows(), self.decision
        for solution in tightened_family(*parts, n_people):
            yield self._with_solution(solution, fitted.problem)

    def _with_solution(self, solution: Solution, problem: FairProblem) -> Self:
        """Return a copy with another rule of the same posteriors and the same key.

        The same key: whoever is undecided under both rules gets a class from the same number.
        """
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._fitted = replace(self._posteriors(), problem=problem, solution=solution)
        other.rule_ = replace(solution.rule, key=self.rule_.key)
        return other

    @uses_cores
    @with_progress
    def with_people(self, X: Any, *, sensitive_features: Any = None) -> Self:
        """Return the same models with a rule for the people who come now; nothing is fitted again.

        After a shift of who comes, z(x) of recent people, who need no labels, gives the multipliers under which *they*
        are within tolerance. That rests on P(A | X), which a change of who comes leaves as it is, and is for
        demographic parity, its ratio and rates of selection only: for the other criteria the shares of the true classes
        would rest on the models alone, without a label to correct them.

        Parameters
        ----------
        X : array-like or data frame of n rows
            Features of recent people.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row; only for an aware classifier whose groups are not in X.

        Returns
        -------
        OptFairPost
            Another fitted classifier, with the same key of hashed decisions. It holds no labelled posteriors: its
            `with_tolerance`, `with_criterion` and `frontier` need `fit`.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> recent = make_fair_classification(300, random_state=1).X
        >>> model.with_people(recent).certificate_.violation <= 0.01
        True
        """
        check_is_fitted(self, "rule_")
        name = labelled_criterion(self.constraints_)
        if name is not None:
            raise ValueError(
                f"criterion: {name!r} speaks of true classes, whose shares among people without labels would rest on "
                "the models alone; fit again with labels of recent people (only 'dp' and selection need none)."
            )
        if getattr(self, "fold_models_", ()):
            raise ValueError("ensemble: the rules of several models are not solved again; fit with ensemble=False.")
        if self.rule_.promise is not None:
            warn("with_people: without labels nothing can be promised; promise_ of the new rule is None.")
        clock = time.perf_counter()
        Z = self.joint_posterior(X, sensitive_features=sensitive_features)
        posterior = make_posterior(Z, self.rule_.groups, self.rule_.classes)
        problem = FairProblem.prepare(posterior, self.constraints_, self.costs, self._options())
        warn_empty(problem.rows.dropped)
        solution = self._solve(problem, Solution(self.rule_))
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.rule_, other._fitted, other.path_ = replace(solution.rule, key=self.rule_.key), None, None
        other.seconds_ = {"models": 0.0, "calibration": 0.0, "solve": time.perf_counter() - clock}
        other.n_base_fits_ = 0
        return other

    def _posteriors(self) -> FittedPosteriors:
        check_is_fitted(self, "rule_")
        fitted: FittedPosteriors | None = getattr(self, "_fitted", None)
        if fitted is None:
            raise ValueError(
                "the out-of-fold posteriors are not available (keep_posteriors=False, or with_people, or a copy or a "
                "file of the model, which never hold them); fit again."
            )
        return fitted

    @uses_cores
    @with_progress
    def _solve_again(self, **parameters: Any) -> Self:
        """Return a copy with other parameters, solved again from the present solution."""
        fitted = self._posteriors()
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        for name, value in parameters.items():
            setattr(other, name, value)
        other._check_promise()
        constraints, options = other._constraints(), other._options()
        clock = time.perf_counter()
        problem = fitted.problem.with_constraints(constraints, options)
        if problem.rows.dropped != fitted.problem.rows.dropped:
            warn_empty(problem.rows.dropped)
        solution = other._solve(problem, fitted.solution)
        solution, problem, constraints = other._promise(problem, solution, fitted.people)
        other = other._with_solution(solution, problem)
        other._warn_about_answers(other._posteriors(), constraints, old_losses=self._lost_classes(fitted))
        other.constraints_, other.path_ = constraints, None
        other.seconds_ = {"models": 0.0, "calibration": 0.0, "solve": time.perf_counter() - clock}
        other.n_base_fits_ = 0
        return other

    def _lost_classes(self, fitted: FittedPosteriors) -> list[LostClass]:
        """Return the classes that the model gives and the rule has all but lost; costs may want that."""
        if self.costs is not None:
            return []
        return lost_classes(*fitted.free_answers, answer_shares(fitted.solution.rule, fitted.problem.posterior))

    def _warn_about_answers(
        self, fitted: FittedPosteriors, constraints: Sequence[AnyConstraint], old_losses: Sequence[LostClass] = ()
    ) -> None:
        """Warn about lost classes. old_losses : of the rule that this one was solved from, which were said then."""
        names = {loss.name for loss in old_losses}
        lost = [loss for loss in self._lost_classes(fitted) if loss.name not in names]
        warn_lost(lost, constraints, self._calibration(), solved_again=self.keep_posteriors)

    @uses_cores
    @with_progress
    def frontier(self, tolerances: int | Sequence[float] = 20, *, test: tuple[Any, ...] | None = None) -> Frontier:
        """Trade accuracy against violation for many tolerances, from the same posteriors; see `optfair.frontier`.

        Without test data violations are those on z(x).

        Parameters
        ----------
        tolerances : int or sequence of float, default 20
            How many tolerances, or the tolerances themselves.
        test : tuple, optional
            ``(X_test, y_test, groups_test)``, ``(..., weights)`` or ``(..., weights, clusters)``: labelled people on
            whom every rule is measured too. Weights may be None; clusters tell who has several rows.

        Returns
        -------
        Frontier
            The rules and a table of what each reaches.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> len(model.frontier([0.1, 0.05]).rules)
        2
        """
        fitted = self._posteriors()
        if test is not None:
            X, y, groups, *rest = check_test_tuple(test, "X_test")
            names = dict(zip(("weights", "clusters"), rest, strict=False))
            check_row_labels(X_test=X, y_test=y, groups_test=groups, **names)
            codes = match_groups(groups, self.groups_, len(groups), missing=self.missing, unseen="blind")
            rows = rows_of_groups(codes)
            if len(rows) < len(codes):
                X, y, groups, *rest = (None if part is None else take_rows(part, rows) for part in test)
            Z = self.joint_posterior(X, sensitive_features=groups if self._asks_for_groups() else None)
            test = (Z, y, self.groups_[codes[rows]], *rest)

        problem = fitted.problem.with_constraints(loosest_constraints(self._constraints()), self._options())
        scorer = None if test is None else FrontierScorer(test, problem)
        warn_empty(() if scorer is None else scorer.dropped)
        return tolerance_path(problem, tolerances, scorer, self._solve_with_key)

    def _solve_with_key(self, problem: FairProblem, start: Solution | None) -> Solution:
        """Solve a problem; the rule has the key of the one in use, so that people are drawn for by the same number."""
        solution = self._solve(problem, start)
        return replace(solution, rule=replace(solution.rule, key=self.rule_.key))

    @uses_cores
    def path(self, tolerances: int | Sequence[float] | None = None) -> Frontier:
        """Return rules of other tolerances, computed once and kept in ``path_``: for `explain`, and for pages.

        `save` writes it too, so that a model which is loaded can say at which tolerance an answer would be another.
        Rules of a path are without a promise.

        Parameters
        ----------
        tolerances : int or sequence of float, optional
            How many, of four digits, or the tolerances themselves; this computes the path anew. By default the path
            there is, or 20. Where other constraints allow no rule for small tolerances, it ends before them.

        Returns
        -------
        Frontier
            The rules and a table of what each reaches on the people fitted on.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> model.path([0.1, 0.05]) is model.path_
        True
        """
        check_is_fitted(self, "rule_")
        if self.path_ is not None and tolerances is None:
            return self.path_
        fitted = self._posteriors()
        problem = fitted.problem.with_constraints(loosest_constraints(self.constraints_), self._options())
        requested: Any = PATH_LENGTH if tolerances is None else tolerances
        if isinstance(requested, Integral) and not isinstance(requested, bool):
            bounds = [c.strictest for c in self.constraints_ if isinstance(c, Constraint)]
            requested = readable_tolerances(problem, int(requested), bounds if len(set(bounds)) == 1 else ())
        self.path_ = tolerance_path(problem, requested, solver=self._solve_with_key, stops_early=True)
        return self.path_

    # -- files ---------------------------------------------------------------------------------------------
    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle and skops write: the path as JSON, without keys."""
        state = super().__getstate__()
        if state.get("path_") is not None:
            with suppress(ValueError):  # names that JSON cannot hold: pickle can
                state["path_"] = {"json": json.dumps(path_content(state["path_"]), allow_nan=False)}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        path = self.__dict__.get("path_")
        if isinstance(path, dict):
            self.path_ = path_from_content(json.loads(path["json"]), self.rule_)
        elif not isinstance(path, Frontier | None):
            raise ValueError(f"the path of tolerances is of type {type(path).__name__}")
