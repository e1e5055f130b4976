"""Make any classifier fair to many groups, for many classes, without opening it: `OptFairPost`.

z(x) = P(A, Y | X=x), out of fold  →  calibrated with labels  →  λ by the convex dual  →  h(x) = softmax(z(x) W(λ) / τ)
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from optfair.dual.posterior import training_posterior
from optfair.errors import warn, warn_empty
from optfair.estimators.base import clone_keeping_prefit
from optfair.estimators.explanations import explain_people
from optfair.estimators.folders import SAMPLE_ROWS, SINGLE_PRECISION_NUMBERS, fit_folder
from optfair.estimators.inference import CHOICES_WITH_INFER, check_inference, count_answers, group_posterior
from optfair.estimators.post_report import report_fitted, report_given, report_path
from optfair.estimators.reports import with_favourable
from optfair.estimators.rule_solver import FittedPosteriors, RuleSolver
from optfair.inputs.alignment import check_row_labels
from optfair.inputs.containers import take_rows
from optfair.inputs.identity import row_hashes, twin_codes
from optfair.inputs.labels import encode_classes
from optfair.inputs.splits import Splits
from optfair.inputs.training_data import TrainingData
from optfair.posteriors.calibration import AwareCalibration, Calibration, calibrate_aware, calibrate_blind
from optfair.posteriors.models import JointModel, likeliest_classes, own_posterior, place_in_groups, pooled_posterior
from optfair.posteriors.out_of_fold import fit_posteriors, is_fitted_model, warn_unweighted
from optfair.reporting.report import Report
from optfair.rule.driver import Solution
from optfair.rule.explanation import Explanation
from optfair.rule.file import rule_content
from optfair.rule.frontier import Frontier
from optfair.rule.loading import rule_from_content
from optfair.rule.problem import FairProblem
from optfair.rule.promising import UNPROMISED
from optfair.rule.rule import flat
from optfair.rule.tightening import FittedRows, PromiseSearch
from optfair.utils.checks import check_choice, check_number
from optfair.utils.display import with_progress
from optfair.utils.parallel import uses_cores
from optfair.utils.progress import stage
from optfair.utils.recovery import restore_on_failure
from optfair.utils.seeds import as_seed

SEEN = 0.03  # accuracy beyond certainty that no model has on people it has not seen, unless it is far too careful
CLOSE = 0.5  # standard errors of a gap: models that differ by less answer about alike


class OptFairPost(RuleSolver):
    """Make any classifier fair: the most accurate rule on top of it whose disparity is within tolerance.

    The rule comes with a certificate of optimality and needs no group at prediction. Begin with `fit`, `predict` and
    `report`, and `explain` single answers; `with_tolerance`, `with_criterion` and `frontier` find other rules without
    fitting again, and `save` writes a file. Below, z(x) is the estimate of P(A, Y | X=x), group and class together, and
    h(x) the probability of each class as the prediction.

    Parameters
    ----------
    estimator : classifier or callable, optional
        A classifier with ``predict_proba``, cloned and fitted (standardised multinomial logistic regression by
        default, behind a `TableEncoder` where a data frame has texts or gaps); or a fitted one as
        ``FrozenEstimator(model)`` or with ``cv="prefit"``, or a function X -> probabilities: these are only ever asked
        for probabilities.
    sensitive_features : str, int, list or callable, optional
        Column name(s) or position(s) of X that hold the groups, or a function of X; by default groups are given to
        ``fit``. Named columns are left out of the features when blind.
    criterion : str, Constraint, Ratio, MinimumRate, Rows, or list of these, default "demographic_parity"
        What is constrained; see `optfair.solve`.
    tolerance : float or mapping from group to float, default 0.01
        Bound on every gap between a group's rate and the reference rate.
    reference : {"overall", "pairwise"}, default "overall"
        What a group's rate is compared with.
    outcomes : sequence of class labels, optional
        Predicted classes that the criterion speaks of.
    attributes : str or sequence of attribute names, default "intersections"
        Which groups of several attributes are meant; see `optfair.Constraint`.
    costs : array of shape (n_classes, n_classes) or (n_groups, n_classes, n_classes), optional
        Costs to minimise instead of the error.
    temperature : "auto", float, or array, default "auto"
        Temperature of the softmax; see `optfair.solve`.
    gap : float, default 1e-4
        Distance to the best rule that is aimed at.
    awareness : {"blind", "aware"}, default "blind"
        Whether the group is used at prediction.
    posterior : {"auto", "joint", "factored"}, default "auto"
        How P(A, Y | X) is learned. "joint": by one model of the pair. "factored": as P(Y|X) · P(A|X,Y), by a model of Y
        and one of A in each class, which is cheaper for logistic regression, and for boosted trees with several of
        both, but takes networks twice the time. "auto": joint, for networks too, but factored for a model that is
        already fitted; see "Joint or factored" in the user guide.
    group_estimator : classifier, optional
        Model of P(A | X, Y=i); ``estimator`` again by default, or logistic regression beside a fitted model. Frozen
        steps at the beginning of a Pipeline run once for all models that begin with them; by default, so do
        `StandardScaler` and `TableEncoder`.
    cv : int, splitter, list of splits, or "prefit", default 5
        Folds of the out-of-fold posteriors. With a number, a hash of its features decides which fold a row is in, so
        that the order of the rows does not matter.
    calibration : {"auto", "posterior", "groups", "none"}, default "auto"
        What is calibrated with the labels of the rows fitted on, out of fold: P(Y|X) and P(A|X,Y) ("posterior"); only
        P(A|X,Y), so that without constraints the rule is the model's own likeliest class ("groups"); or nothing.
        "auto": posterior, but groups for a model that is already fitted.
    confidence : float, optional
        Promise the tolerance to new people: in the population that the people fitted on were drawn from every gap is
        within it with this probability, such as 0.95. Bounds are tightened by what chance can do, which costs accuracy.
        By default the tolerance holds in expectation for the people fitted on. A model that is already fitted must not
        have seen these people.
    unpromised : {"error", "mix", "loosen"}, default "error"
        Where that cannot be promised: raise `PromiseError`, which says what could be; draw a share of the decisions
        from a constant; or loosen all tolerances to the smallest at which a promise was found.
    ensemble : bool or "auto", default "auto"
        Whether to answer with the mixture of the rules of all folds, whose gaps are exactly those measured out of fold,
        instead of the rule on the model of all rows; to predict takes as many times longer as there are folds. "auto":
        only for a promise, and only where the two differ by more than half of a standard error, as those of trees do.
    decision : {"hashed", "argmax", "sampled"}, default "hashed"
        How `predict` chooses a class where the rule is randomised.
    hashing : {"blake2b", "hmac-sha256"}, default "blake2b"
        Hash behind hashed decisions, which is read by `predict`: the second is in every language and database, for
        predictions that are made elsewhere ("Into production" in the user guide). With another one, undecided people
        get other predictions.
    missing : {"error", "group", "infer"}, default "error"
        Whether a missing group is an error, a group of its own, or unknown. "infer": P(Y|X) is learned from everybody
        and P(A|X,Y) from those whose group is known, and the rule is for everybody. That is right where being known
        depends on X and Y, and not on the group beside them. Whoever misses one of several attributes is of unknown
        group. Not with ``awareness="aware"``, ``posterior="joint"`` or ``confidence``.
    unseen : {"error", "blind"}, default "error"
        When aware: whether a group not seen in ``fit`` is an error, or is predicted without the group.
    keep_posteriors : bool, default True
        Whether to keep the out-of-fold z in memory for `with_tolerance`, `with_criterion`, `frontier` and `report`.
    n_jobs : int, optional
        Cores to use, in `fit` and in everything else; see "Cores" in the user guide. All by default.
    progress : bool, default False
        Whether to show on standard error how far long work has come; see "Progress" in the user guide.
    random_state : int or generator, optional
        Seed, also of the models' parts that have none. The key of hashed decisions is made from it too, so that
        whoever knows the seed can foretell them; leave it out where people could gain by that.

    Attributes
    ----------
    rule_ : FairRule
        The rule that is applied to z(x).
    certificate_ : Certificate
        How close to the best rule it is.
    promise_ : Promise or None
        What is promised to new people; None without ``confidence``.
    multipliers_ : pandas.DataFrame
        One line per constraint row, with its multiplier and price.
    determinism_ : Determinism
        What predicting the likeliest class for everybody would change.
    constraints_ : list of Constraint, Ratio, MinimumRate or Rows
        What the rule was solved for.
    path_ : Frontier or None
        Rules of other tolerances, once `path` has computed them.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    groups_ : pandas.Index
        Names of the groups.
    posterior_model_ : callable
        The fitted model X -> z.
    fold_models_ : tuple of callable
        The fitted models of the folds, X -> z, with ``ensemble=True``.
    calibration_ : JointCalibration, FactorCalibration, AwareCalibration or None
        Calibration of z.
    keeps_classes_ : bool
        Whether P(Y|X) stays what the model says.
    n_unknown_ : int
        Rows fitted on whose group is unknown, with ``missing="infer"``.
    n_base_fits_ : int
        Models that were fitted.
    seconds_ : dict
        What fitting took.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from optfair import OptFairPost
    >>> from optfair.datasets import make_fair_classification
    >>> data = make_fair_classification(1000, n_classes=3, n_groups=2, random_state=0)
    >>> model = OptFairPost(LogisticRegression(), criterion="dp", tolerance=0.02, random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    >>> model.predict(data.X).shape  # no group is needed
    (1000,)
    >>> model.certificate_.gap <= 1e-4
    True
    """

    _calibrations: ClassVar[tuple[str, ...]] = ("auto", "posterior", "groups", "none")
    _missing_step = ", or unknown (missing='infer')"
    _prefit_advice = 'pass cv="prefit" or FrozenEstimator(model)'
    _record, _personal = "rule_", ("_fitted",)
    _record_content, _record_from_content = staticmethod(rule_content), staticmethod(rule_from_content)

    def __init__(
        self,
        estimator: Any = None,
        *,
        sensitive_features: Any = None,
        criterion: Any = "demographic_parity",
        tolerance: Any = None,
        reference: str | None = None,
        outcomes: Sequence[Hashable] | None = None,
        attributes: str | Sequence[Hashable] | None = None,
        costs: Any = None,
        temperature: Any = "auto",
        gap: float = 1e-4,
        awareness: str = "blind",
        posterior: str = "auto",
        group_estimator: Any = None,
        cv: Any = 5,
        calibration: str = "auto",
        confidence: float | None = None,
        unpromised: str = "error",
        ensemble: bool | str = "auto",
        decision: str = "hashed",
        hashing: str = "blake2b",
        missing: str = "error",
        unseen: str = "error",
        keep_posteriors: bool = True,
        n_jobs: int | None = None,
        progress: bool = False,
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
        self.confidence = confidence
        self.unpromised = unpromised
        self.ensemble = ensemble
        self.decision = decision
        self.hashing = hashing
        self.missing = missing
        self.unseen = unseen
        self.keep_posteriors = keep_posteriors
        self.n_jobs = n_jobs
        self.progress = progress
        self.random_state = random_state

    # -- fitting -------------------------------------------------------------------------------------------
    def _keeps_estimator(self) -> bool:
        return is_fitted_model(self.estimator, self.cv)

    @restore_on_failure
    @uses_cores
    @with_progress
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        cluster: Any = None,
    ) -> OptFairPost:
        """Learn z(x) out of fold, calibrate it, and solve for the rule.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, list, or torch data set of n rows
            Features, passed to the estimator as they are; a list of dicts becomes a data frame, and a data set has
            items (x, y, group).
        y : array-like of shape (n,), optional
            True classes; read from the items of a data set by default.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row; several columns make intersections. Rows are matched by position; row labels of pandas
            objects that differ are an error. Read from the items of a data set by default.
        sample_weight : array-like of shape (n,), optional
            Weights, honoured by models, calibration and constraints. A whole number counts people; divide the weights
            of a survey by their mean.
        cluster : array-like of shape (n,), optional
            The person, or family, or school, that each row belongs to, where some have several: no fold
            has a part of them, so that posteriors and calibration are those of strangers.

        Returns
        -------
        OptFairPost
            The fitted classifier itself.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> model.rule_.shape
        (2, 3)
        """
        options = self._options()
        prefit = self._keeps_estimator()
        known_classes = getattr(self.estimator, "classes_", None) if prefit else None
        self._check_choices(calibration=self._calibrations, missing=CHOICES_WITH_INFER)
        self._check_promise()
        constraints = self._constraints()
        data = self._training_data(X, y, sensitive_features, sample_weight, known_classes, cluster)
        check_inference(data, self.confidence)
        self._warn_about_data(X, data, sensitive_features, constraints)

        clock = time.perf_counter()
        posteriors = fit_posteriors(
            self.estimator,
            self.group_estimator,
            self.posterior,
            self.cv,
            data,
            self.n_jobs,
            as_seed(self.random_state),
            holds_group=self.awareness == "aware" and self.sensitive_features is not None,
            left_out=None if self.awareness == "aware" else self.sensitive_features,
            keep_folds=self.ensemble is True or (self.ensemble == "auto" and self.confidence is not None),
        )
        if posteriors.unweighted:
            warn_unweighted(posteriors.unweighted)
        seconds = {"models": time.perf_counter() - clock}

        clock = time.perf_counter()
        aware = self.awareness == "aware"
        Z = place_in_groups(posteriors.Z, data.a) if aware else posteriors.Z
        plain = likeliest_classes(own_posterior(posteriors.model, posteriors.Z, Z))
        pooled = pooled_posterior(posteriors.model, posteriors.Z) if aware else None
        with stage("calibrating"):
            calibration, Z = self._calibrate(Z, pooled, posteriors.model, data, posteriors.splits, options.seed)
        keeps_classes = self._calibration() == "groups"
        free = None if keeps_classes or calibration is None else likeliest_classes(Z)
        seconds["calibration"] = time.perf_counter() - clock

        clock = time.perf_counter()
        Z = Z.astype(np.float32) if Z.size > SINGLE_PRECISION_NUMBERS else Z
        posterior = training_posterior(Z, data)
        problem = FairProblem.prepare(posterior, constraints, self.costs, options)
        warn_empty(problem.rows.dropped)
        solution = self._solve(problem)
        seconds["solve"] = time.perf_counter() - clock
        self.posterior_model_, self.calibration_, self.seconds_ = posteriors.model, calibration, seconds
        self.fold_models_, self.n_base_fits_ = posteriors.fold_models, posteriors.n_fits
        people = None
        if self.confidence is not None:
            clock = time.perf_counter()
            people = self._people(data, problem, solution)
            solution, problem, constraints = self._promise(problem, solution, people)
            seconds["promise"] = time.perf_counter() - clock

        self.rule_, self.constraints_ = solution.rule, constraints
        self.classes_, self.groups_ = data.classes, data.groups
        self.keeps_classes_, self.n_unknown_ = keeps_classes, data.n_unknown
        counted, total = count_answers(data, posterior, plain)
        recalibrated, free_total = (None, total) if free is None else count_answers(data, posterior, free)
        free_answers = total, free_total
        fitted = FittedPosteriors(
            problem, posterior, people, solution, counted, recalibrated, free_answers, data.cluster
        )
        self._fitted, self.path_ = fitted if self.keep_posteriors else None, None
        self._warn_about_answers(fitted, constraints)
        return self

    @restore_on_failure
    @uses_cores
    @with_progress
    def fit_parts(
        self,
        source: Any,
        *,
        y: str,
        sensitive_features: str | Sequence[str] | None = None,
        sample_weight: str | None = None,
        cluster: str | None = None,
        features: Sequence[str] | None = None,
        sample: int = SAMPLE_ROWS,
        cache: Any = None,
        client: Any = None,
    ) -> OptFairPost:
        """Fit to people in Parquet files, which need not fit in memory.

        Models that are not fitted yet, those of the groups and the calibration are of a sample, as `fit` does it. The
        rule is then solved for all people, who are read some five to twelve times, the models asked about a part at a
        time. With ``confidence`` the rule is that of the sample: what it promises, it promises to everybody.

        Parameters
        ----------
        source : str, path, or list of these
            A folder, a file, a pattern or an address; see `optfair.read_parquet`.
        y : str
            Column of the true classes.
        sensitive_features : str or sequence of str, optional
            Columns of the groups, unless the constructor names columns of X.
        sample_weight, cluster : str, optional
            Columns of weights, and of who each row belongs to; see `fit`.
        features : sequence of str, optional
            Columns of X: by default those that a fitted model knows by name, or all others.
        sample : int, default 200,000
            People that are drawn; where there are no more, this is `fit`.
        cache : str or path, optional
            Folder on a disk for z(x) of everybody, so that the models are asked once and not at every reading. Remove
            it when you are done.
        client : dask.distributed.Client, executor, or object with an ordered ``map``, optional
            Cluster that reads the files and asks the models; threads of this process by default.

        Returns
        -------
        OptFairPost
            The fitted classifier itself.

        Examples
        --------
        >>> from sklearn.frozen import FrozenEstimator
        >>> from optfair import OptFairPost
        >>> model = OptFairPost(FrozenEstimator(classifier), criterion="eo", tolerance=0.02)  # doctest: +SKIP
        >>> model.fit_parts("people/", y="outcome", sensitive_features=["sex", "race"])  # doctest: +SKIP
        """
        roles = {"y": y, "sensitive_features": sensitive_features, "sample_weight": sample_weight, "cluster": cluster}
        return fit_folder(self, source, {**roles, "features": features}, sample, cache, client)

    def _check_promise(self) -> None:
        """Check what is to be promised to new people."""
        if self.missing == "infer" and self.awareness == "aware":
            raise ValueError("missing='infer': is for awareness='blind'; a rule that uses the group must be told it.")
        check_choice("unpromised", self.unpromised, UNPROMISED)
        if self.ensemble not in (True, False, "auto"):
            raise ValueError(f"ensemble={self.ensemble!r}: must be True, False or 'auto'.")
        if self.confidence is None:
            return
        check_number("confidence", self.confidence, "[0.5, 1)", ", e.g. 0.95")
        if self.decision == "argmax" and self.unpromised == "mix":
            raise ValueError("unpromised='mix': draws decisions, and decision='argmax' draws none; use 'loosen'.")
        if self.decision == "argmax" and self.ensemble is True:
            raise ValueError(
                "ensemble=True: draws among the rules of folds, and decision='argmax' draws none; use one."
            )

    def _people(self, data: TrainingData, problem: FairProblem, plain: Solution) -> FittedRows:
        """Return who the rows fitted on are, and choose which models answer; see `ensemble`."""
        group = data.a if self.awareness == "aware" else None
        Z, answering = self._posteriors_by(self.posterior_model_, data.X, group)
        if self._keeps_estimator():
            _warn_if_seen(Z.sum(axis=1), data.y)
        people = FittedRows(data.cluster, answering)
        if self.fold_models_ and self.decision != "argmax":
            trial = PromiseSearch(problem, people, float(self.confidence or 0), "sampled").trial(plain)
            is_close = bool((np.abs(trial.shift) <= CLOSE * trial.se).all())
            self.fold_models_ = () if self.ensemble == "auto" and is_close else self.fold_models_
        elif self.ensemble == "auto":
            self.fold_models_ = ()
        if self.fold_models_:
            people = FittedRows(data.cluster)
        if self.decision != "hashed":
            return people
        kinds, first = twin_codes(row_hashes(data.X), group)
        if kinds is None:
            return people
        X, codes = take_rows(data.X, first), None if group is None else group[first]
        models = self.fold_models_ or (self.posterior_model_,)
        return replace(people, kinds=kinds, kind_posteriors=tuple(self._posteriors_by(f, X, codes)[1] for f in models))

    def _calibrate(
        self, Z: np.ndarray, pooled: np.ndarray | None, model: Any, data: TrainingData, splits: Splits, seed: int
    ) -> tuple[Calibration | None, np.ndarray]:
        """Return what calibrates z of new rows, None for nothing, and z of these rows, calibrated.

        Z : (n, A, m), with the groups of the rows where the rule knows them. pooled : P(Y | X), or None. model : of z.
        """
        labelled, calibration = (data.a, data.y, data.weight, splits), self._calibration()
        if calibration == "none":
            return None, Z
        if self.awareness == "blind":
            return calibrate_blind(Z, *labelled, keep_classes=calibration == "groups", seed=seed)
        if calibration == "posterior":
            return calibrate_aware(Z, *labelled, pooled=pooled, seed=seed)
        # The group is known, so that there is no split over groups to calibrate. A model of the pair, and one that
        # reads the group in X, are told it: z is their own.
        if pooled is None or isinstance(model, JointModel):
            return None, Z
        own_classes = AwareCalibration(None)
        return own_classes, own_classes(Z, data.a, pooled)

    # -- prediction ----------------------------------------------------------------------------------------
    @uses_cores
    def joint_posterior(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return z(x) of new rows, calibrated: what the rule is applied to; of an ensemble, the mean of its folds.

        Parameters
        ----------
        X : array-like or data frame of n rows
            Features.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row; only for an aware classifier whose groups are not in X.

        Returns
        -------
        ndarray of shape (n, n_groups, n_classes)
            ``P(A=a, Y=i | X=x)``; summed over groups it is ``P(Y=i | X=x)``.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> model.joint_posterior(data.X).shape
        (400, 2, 3)
        """
        X, group = self._check_new_rows(X, sensitive_features)
        models = self.fold_models_ or (self.posterior_model_,)
        Z = [self._posteriors_by(model, X, group)[1] for model in models]
        return Z[0] if len(Z) == 1 else np.mean(Z, axis=0)

    def group_probabilities(self, X: Any, y: Any = None) -> np.ndarray:
        """Return how likely each group is for new rows: P(A | X, Y) where true classes are given, else P(A | X).

        For `optfair.metrics.unknown_group_bounds`, where the groups of some people are unknown.

        Parameters
        ----------
        X : array-like or data frame of n rows
            Features.
        y : array-like of shape (n,), optional
            True classes.

        Returns
        -------
        ndarray of shape (n, n_groups)
            Probabilities in the order of ``groups_``.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> model.group_probabilities(data.X, data.y).shape
        (400, 2)
        """
        check_is_fitted(self, "rule_")
        if self.awareness == "aware":
            raise ValueError("awareness='aware': a model that is told the group does not infer it; fit a blind one.")
        check_row_labels(X=X, y=y)
        label = None if y is None else encode_classes(y, self.classes_.tolist(), name="y")[0]
        return group_posterior(self.joint_posterior(X), label)

    def _posteriors_of(self, X: Any, sensitive_features: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return z as the models give it, and calibrated."""
        return self._posteriors_by(self.posterior_model_, *self._check_new_rows(X, sensitive_features))

    def _posteriors_by(self, model: Any, X: Any, group: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return z of checked rows as a model gives it, and calibrated."""
        raw = model(X)
        placed = raw if group is None else place_in_groups(raw, group)
        return own_posterior(model, raw, placed), self._calibrated(model, raw, placed, group)

    def _calibrated(self, model: Any, raw: np.ndarray, placed: np.ndarray, group: np.ndarray | None) -> np.ndarray:
        """Return ẑ. raw, placed : z as a model gives it, and with the groups of the rows where these are used."""
        if self.calibration_ is None:
            return placed
        return self.calibration_(placed, group, None if group is None else pooled_posterior(model, raw))

    @uses_cores
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return h(x), the probability of each class as the prediction.

        Near 0 or 1 for most people; it is not ``P(Y | X)``, which `joint_posterior` gives.

        Parameters
        ----------
        X : array-like or data frame of n rows
            Features.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row; only for an aware classifier whose groups are not in X.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities in the order of ``classes_``.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> model.predict_proba(data.X).sum(axis=1).round(6).min()
        np.float64(1.0)
        """
        X, group = self._check_new_rows(X, sensitive_features)
        models = self.fold_models_ or (self.posterior_model_,)
        h = [self.rule_.predict_proba(self._posteriors_by(model, X, group)[1]) for model in models]
        return h[0] if len(h) == 1 else np.mean(h, axis=0)

    @uses_cores
    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return the scores β(x) = z(x) W(λ).

        Parameters
        ----------
        X : array-like or data frame of n rows
            Features.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row; only for an aware classifier whose groups are not in X.

        Returns
        -------
        ndarray of shape (n, n_classes) or (n,)
            Scores of each class; for two classes their difference.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, n_classes=2, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> model.decision_function(data.X).shape
        (400,)
        """
        Z = self.joint_posterior(X, sensitive_features=sensitive_features)
        scores = Z.reshape(len(Z), -1) @ flat(self.rule_.weights)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def _key(self) -> bytes | None:
        return self.rule_.key

    @uses_cores
    def explain(self, X: Any, *, sensitive_features: Any = None, keys: Any = None, path: bool = True) -> Explanation:
        """Explain single answers: the model's preference, what each constraint adds, the draw, and what would flip it.

        A difference of scores is exactly the sum of what the model itself prefers and one part per constraint row.

        Parameters
        ----------
        X : array-like, data frame of n rows, list of n dicts, or one dict
            Features, as in `predict`.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Group of each row; only for an aware classifier whose groups are not in X.
        keys : sequence of n keys, optional
            Who each person is, as in `predict`; the draw is the very number that `predict` uses.
        path : bool, default True
            Whether to say at which tolerance an answer would be another. This takes the rules in ``path_``, which are
            computed at the first call if the posteriors of the people fitted on are there (see `path`).

        Returns
        -------
        Explanation
            A table with a line per person, all terms, and sentences; ``print`` it.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> explanation = model.explain(data.X, path=False)
        >>> bool((explanation.table["answer"] == model.predict(data.X)).all())
        True
        """
        return explain_people(self, X, sensitive_features, keys, path)

    @uses_cores
    @with_progress
    def report(
        self,
        X: Any = None,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        cluster: Any = None,
        keys: Any = None,
        before: Any = None,
        favourable: Any = None,
        path: bool | str | Frontier = "auto",
    ) -> Report:
        """Report what was asked for and reached, and at what price; ``print`` it.

        Without data it is about the people fitted on, out of fold. With labelled data it compares the plain model, its
        recalibrated probabilities without constraints, the rule and its decisions on them, every violation with its
        interval and noise floor.

        Parameters
        ----------
        X : array-like or data frame of n rows, optional
            Features of labelled people.
        y : array-like of shape (n,), optional
            Their true classes; demographic parity, its ratio and minimum selection rates need none.
        sensitive_features : array-like of shape (n,) or (n, n_attributes), optional
            Their groups, unless these are in X.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights of the rows.
        cluster : array-like of shape (n,), optional
            The person of each row, where some have several: they count as one in the intervals.
        keys : sequence of n keys, optional
            Who each person is, as in `predict`.
        before : array-like of shape (n,) or (n, n_classes), optional
            What these people got before, to be compared with; the plain model by default.
        favourable : sequence of class labels, optional
            Predictions that are good for a person, for who gets and who is denied them and for the section of a
            regulator; by default the outcomes that constraints are limited to.
        path : bool, "auto" or Frontier, default "auto"
            Whether to measure rules of other tolerances too, which the page shows behind a slider. "auto": where they
            are there, in ``path_``; True computes them (see `path`); or those of a `frontier` of this model.

        Returns
        -------
        Report
            Certificate, prices, price of determinism, measurements with labels, small cells.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> print(model.report().title)
        OptFairPost, dp within 0.01 of everybody, blind: 2 groups, 3 classes; 400 people fitted on, out of fold
        """
        check_is_fitted(self, "rule_")
        rules = report_path(self, path)
        if X is None:
            report = report_fitted(self, rules)
        else:
            people = self._check_reported(X, y, sensitive_features, sample_weight, cluster)
            report = report_given(self, people, keys, before, rules)
        return with_favourable(report, favourable, self.rule_.classes)

    def _plain_name(self) -> str:
        """Name what predicts without constraints: the model of Y, or the likeliest class by the model of the pair."""
        return "unconstrained, joint" if isinstance(self.posterior_model_, JointModel) else "plain model"

    # -- scikit-learn --------------------------------------------------------------------------------------
    def __sklearn_clone__(self) -> OptFairPost:
        """Clone, but keep a fitted model or a function as it is, inside GridSearchCV too."""
        return clone_keeping_prefit(self)


def _warn_if_seen(P: np.ndarray, y: np.ndarray) -> None:
    """Warn where a fitted model is right far more often than it is sure: it seems to have been fitted on these rows.

    P : P(Y | X) of the model, (n, m). y : (n,) codes.
    """
    accuracy, certainty = float(np.mean(P.argmax(axis=1) == y)), float(P.max(axis=1).mean())
    if accuracy - certainty > max(SEEN, 5 * np.sqrt(accuracy * (1 - accuracy) / len(y))):
        warn(
            f"confidence: the fitted model is right about {accuracy:.1%} of these people, and sure of {certainty:.1%}; "
            "it seems to have been fitted on them, and then nothing is promised to others; give people it has not seen."
        )
