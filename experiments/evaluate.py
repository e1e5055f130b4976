"""Evaluate one run: load the data, fit the method, score its predictions. No method scores itself."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from experiments.alternatives import ALTERNATIVES, AlternativePost
from experiments.base_models import CachedClassifier, base_model
from experiments.catalogue import MethodPlan
from experiments.data_plan import DataPlan
from experiments.plan import NO_BOUND, Run
from experiments.splits import SplitData, TrainTestSplit, load_split
from experiments.walk import walk
from optfair import OptFairIn, OptFairInPost, OptFairPost
from optfair.metrics import group_confusion

CRITERIA = ("dp", "eop", "eo")
MIN_CELL = 30  # test rows of a group and class, below which its rates say nothing
TRUTH_ROWS = 100_000  # by which a rule is measured where the truth is known
NOT_OF_THE_CLASS = ("model", "features", "revision", "path")  # options of a run that its class does not know
NOTE_LENGTH = 200  # letters of a warning that are kept


def evaluate_run(
    run: Run, data: DataPlan, method: MethodPlan, cache: Path, started: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Return the line of a run: scores, seconds and warnings; or the error, where a method cannot.

    started : called when the data are loaded, with the features of a network that may have had to be trained.
    """
    split = load_split(data, run, cache)
    started()
    line: dict[str, Any] = {
        "run": run.as_dict(),
        "n": [len(split.train.y), len(split.test.y)],
        "stand_in": split.stand_in,
        "classes": len(np.unique(split.train.y)),
        "groups": len(np.unique(split.train.group)),
        "constant": _constant_accuracy(split),
    }
    if method.kind.knob is None or method.anchor:
        line["small_cells"] = _small_cells(split.test)
    model = make_model(run, method, split)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:  # of what a method does only; a fault of ours is no line
            line |= _fit(model, split.train)
            if "path" in run.options:
                plain = score(model.with_tolerance(NO_BOUND).predict_proba(split.test.X), split.test, model.classes_)
                return line | {"scores": {"expected": plain}, **walk(model, split, run.options["path"])}
            predictions = None if data.expected else predict(model, split.test.X, keyed=not data.installed)
            randomised = data.expected or method.kind.output != "deterministic"
            h = model.predict_proba(split.test.X) if randomised else None
        except (ValueError, RuntimeError, ArithmeticError) as error:
            return line | {"error": f"{type(error).__name__}: {error}"}
    messages = {str(item.message) for item in caught if issubclass(item.category, UserWarning)}
    if messages:
        line["notes"] = sorted({message.splitlines()[0][:NOTE_LENGTH] for message in messages})
    if predictions is None:
        return line | _expected_scores(model, h, split.test)
    line["scores"] = {"answers": score(predictions, split.test, model.classes_)}
    if h is not None:
        likeliest = np.asarray(model.classes_)[h.argmax(axis=1)]
        line["scores"]["argmax"] = score(likeliest, split.test, model.classes_)
    if hasattr(model, "rule_"):
        certificate = model.rule_.certificate
        line["certificate"] = {"gap": _rounded(certificate.gap), "upper_bound": _rounded(certificate.upper_bound)}
    if data.truth:
        line["truth"] = _truth(lambda X: predict(model, X), run, split)
        if h is not None:
            argmax = _truth(lambda X: model.classes_[model.predict_proba(X).argmax(axis=1)], run, split)
            line["truth"]["argmax"] = argmax
    return line


def _fit(model: Any, train: SplitData) -> dict[str, Any]:
    """Fit, and return processor seconds, which do not depend on other processes: own, and of the shared models.

    Each method is charged, apart from its own time, what its shared models took when they were fitted.
    """
    CachedClassifier.model_seconds = CachedClassifier.fit_seconds = 0.0
    clock, wall = time.process_time(), time.perf_counter()
    model.fit(train.X, train.y, sensitive_features=train.group if train.attributes is None else train.attributes)
    seconds = {
        "cpu_seconds": time.process_time() - clock - CachedClassifier.fit_seconds,
        "model_cpu_seconds": CachedClassifier.model_seconds,
        "wall_seconds": time.perf_counter() - wall,
    }
    return {name: round(value, 3) for name, value in seconds.items()}


def predict(model: Any, X: Any, *, keyed: bool = True) -> np.ndarray:
    """Return one prediction per row. keyed : rows are drawn for independently, also those that are equal."""
    hashed = keyed and getattr(model, "decision", "argmax") == "hashed"
    return np.asarray(model.predict(X, **({"keys": np.arange(len(X))} if hashed else {})))


# -- the one scorer ----------------------------------------------------------------------------------------
def score(predictions: np.ndarray, test: SplitData, classes: np.ndarray) -> dict[str, Any]:
    """Return the accuracy, and for each criterion the violation and its noise floor.

    predictions : (n,) labels, or (n, m) probabilities of ``classes``; then everything is an expectation.
    """
    probabilities = predictions.ndim == 2
    labels = classes if probabilities else np.union1d(classes, test.y)
    confusion = group_confusion(test.y, predictions, sensitive_features=test.group, classes=labels)
    accuracy = np.trace(confusion.tensor.sum(axis=0)) if probabilities else np.mean(predictions == test.y)
    return {
        "accuracy": _rounded(accuracy),
        "violation": {criterion: _rounded(confusion.violation(criterion)) for criterion in CRITERIA},
        "floor": {criterion: _rounded(confusion.noise_floor(criterion)) for criterion in CRITERIA},
    }


def _expected_scores(model: Any, h: Any, test: SplitData) -> dict[str, Any]:
    """Return the scores of the probabilities; of training also those of the model it began with, and its own view."""
    expected = score(h, test, model.classes_)
    if not isinstance(model, OptFairIn):
        return {"scores": {"expected": expected}}
    plain = score(model.plain_(test.X), test, model.classes_)
    names = ("accuracy", "violation", "norm", "cap")
    training = {name: _rounded(getattr(model.training_, name)) for name in names}
    return {"scores": {"expected": expected, "plain": plain}, "training": training}


def _rounded(value: Any) -> float:
    return round(float(value), 6)


def _constant_accuracy(split: TrainTestSplit) -> float:
    """Return the accuracy of predicting the most frequent training class for every row."""
    names, counts = np.unique(split.train.y, return_counts=True)
    return _rounded(np.mean(split.test.y == names[counts.argmax()]))


def _small_cells(test: SplitData) -> list[list[Any]]:
    """Return [group, class, rows] of the cells with fewer than MIN_CELL rows, empty ones included."""
    groups, classes = np.unique(test.group), np.unique(test.y)
    counts = [(g, c, int(np.sum((test.group == g) & (test.y == c)))) for g in groups for c in classes]
    return [[str(g), str(c), n] for g, c, n in counts if n < MIN_CELL]


def _truth(rule: Callable[[Any], np.ndarray], run: Run, split: TrainTestSplit) -> dict[str, Any]:
    """Return accuracy and violation by the true posteriors, and how much better the best rule of that violation is."""

    def codes(X: Any) -> np.ndarray:
        return rule(X).astype(int)  # the world's classes are numbers

    n = min(TRUTH_ROWS, 2 * run.rows) if run.rows else TRUTH_ROWS
    result = split.world.evaluate(codes, run.criterion, n=n)
    regret = split.world.regret(codes, run.criterion, n=n)
    return {"accuracy": _rounded(result.accuracy), "violation": _rounded(result.violation), "regret": _rounded(regret)}


# -- the methods -------------------------------------------------------------------------------------------
def make_model(run: Run, method: MethodPlan, split: TrainTestSplit) -> Any:
    """Return the classifier of a run, on the model of its data."""
    options = {name: value for name, value in run.options.items() if name not in NOT_OF_THE_CLASS}
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    images = np.ndim(split.train.X) > 2
    if "folds" in options:
        options["cv"] = StratifiedKFold(options.pop("folds"), shuffle=True, random_state=run.seed)
    if "adjustment" in options:
        options["adjustment"] = base_model(options["adjustment"], None, images=images)
    options = {"random_state": run.seed} | options
    kind = method.kind
    if "model" not in run.options:  # as installed
        return kind.make(run.criterion, run.value, **options)
    base = base_model(run.options["model"], run.seed, images=images)
    if kind.name == "OptFairInPost":
        return _in_then_post(run, options, base)
    if kind.kind == "post":
        base = CachedClassifier(base)
        options |= {"n_jobs": 1} if kind.needs is None else {}
        options |= {"cv": 2} if images else {}  # a network of images takes minutes
    model = kind.make(run.criterion, run.value, estimator=base, **options)
    if options.get("calibration") in ALTERNATIVES:
        return AlternativePost(**model.get_params(deep=False))
    return model


def _in_then_post(run: Run, options: dict[str, Any], base: Any) -> Any:
    threshold, gap, seed = (options.pop(name) for name in ("threshold", "gap", "random_state"))
    constraint: dict[str, Any] = {"criterion": run.criterion, "tolerance": run.value, "random_state": seed}
    # It gets a fitted model: its posterior is factored, with quick models of the group.
    post = OptFairPost(calibration="none", gap=gap, n_jobs=1, **constraint)
    return OptFairInPost(OptFairIn(base, **constraint, **options), post, threshold=threshold, random_state=seed)
