"""One run: the people, the method, the fit, and the score. Methods answer; nobody scores himself."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair.benchmark.catalogue import MethodPlan
from optfair.benchmark.people import SMALL, DataPlan, People, Task, task
from optfair.benchmark.plan import Run
from optfair.errors import need_extra
from optfair.in_then_post import OptFairInPost
from optfair.inprocess import OptFairIn
from optfair.metrics import group_confusion
from optfair.post import OptFairPost

CRITERIA = ("dp", "eop", "eo")
KEPT_MODELS = 256  # a factored posterior of 16 classes has 17 in each fold
TRUTH_PEOPLE = 100_000


def perform(
    run: Run, data: DataPlan, method: MethodPlan, cache: Path, started: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """The line of a run: scores, seconds, and what was said; or the error, where a method cannot.

    started : called when the people are there, with the features of a network that others may have had to train.
    """
    people = task(data, run, cache)
    started()
    judged = people.judged
    line: dict[str, Any] = {
        "run": run.as_dict(),
        "n": [len(people.train.y), len(judged.y)],
        "stand_in": people.stand_in,
        "classes": len(np.unique(people.train.y)),
        "groups": len(np.unique(people.train.group)),
        "constant": _constant(people),
    }
    if method.kind.knob is None or method.anchor:
        line["small_cells"] = _small_cells(judged)
    model = make(run, method, people)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:  # of what a method does only; a fault of ours is no line
            line |= _fit(model, people.train)
            answers = answer(model, judged.X)
            h = None if method.kind.output == "deterministic" else model.predict_proba(judged.X)
        except (ValueError, RuntimeError, ArithmeticError) as error:
            return line | {"error": f"{type(error).__name__}: {error}"}
    notes = sorted({str(note.message).splitlines()[0][:200] for note in said if issubclass(note.category, UserWarning)})
    if notes:
        line["notes"] = notes
    line["scores"] = {"answers": score(answers, judged, model.classes_)}
    if h is not None:
        line["scores"]["argmax"] = score(np.asarray(model.classes_)[h.argmax(axis=1)], judged, model.classes_)
    if hasattr(model, "rule_"):
        certificate = model.rule_.certificate
        line["certificate"] = {"gap": _rounded(certificate.gap), "upper_bound": _rounded(certificate.upper_bound)}
    if data.truth:
        line["truth"] = _truth(lambda X: answer(model, X), run, people)
        if h is not None:
            likeliest = _truth(lambda X: model.classes_[model.predict_proba(X).argmax(axis=1)], run, people)
            line["truth"]["argmax"] = likeliest
    return line


def _fit(model: Any, train: People) -> dict[str, Any]:
    """Seconds of the processor, which do not depend on who else is at work: its own, and of the models it shares.

    What shared models took when they were fitted counts for everyone who stands on them, and for nobody's own time.
    """
    Shared.seconds = Shared.fitting = 0.0
    clock, wall = time.process_time(), time.perf_counter()
    model.fit(train.X, train.y, sensitive_features=train.group)
    own = time.process_time() - clock - Shared.fitting
    found = {"cpu_seconds": own, "model_cpu_seconds": Shared.seconds, "wall_seconds": time.perf_counter() - wall}
    return {name: round(value, 3) for name, value in found.items()}


def answer(model: Any, X: Any) -> np.ndarray:
    """One answer per person; where answers are drawn, a row is a person."""
    keyed = {"keys": np.arange(len(X))} if getattr(model, "decision", "argmax") == "hashed" else {}
    return np.asarray(model.predict(X, **keyed))


# -- the one scorer ----------------------------------------------------------------------------------------
def score(answers: np.ndarray, judged: People, classes: np.ndarray) -> dict[str, Any]:
    """Accuracy of what was answered, and for each criterion the violation and its noise floor."""
    known = np.union1d(classes, judged.y)
    confusion = group_confusion(judged.y, answers, sensitive_features=judged.group, classes=known)
    return {
        "accuracy": _rounded(np.mean(answers == judged.y)),
        "violation": {criterion: _rounded(confusion.violation(criterion)) for criterion in CRITERIA},
        "floor": {criterion: _rounded(confusion.noise_floor(criterion)) for criterion in CRITERIA},
    }


def _rounded(value: Any) -> float:
    return round(float(value), 6)


def _constant(people: Task) -> float:
    """Accuracy of the answer that is most frequent in training, given to everybody."""
    names, counts = np.unique(people.train.y, return_counts=True)
    return _rounded(np.mean(people.judged.y == names[counts.argmax()]))


def _small_cells(judged: People) -> list[list[Any]]:
    """[group, class, people] of the cells with fewer than SMALL, those without anybody too."""
    groups, classes = np.unique(judged.group), np.unique(judged.y)
    counts = [(g, c, int(np.sum((judged.group == g) & (judged.y == c)))) for g in groups for c in classes]
    return [[str(g), str(c), n] for g, c, n in counts if n < SMALL]


def _truth(answers: Callable[[Any], np.ndarray], run: Run, people: Task) -> dict[str, Any]:
    """Accuracy and violation by the true posteriors, and what the best rule of the same violation has more."""

    def rule(X: Any) -> np.ndarray:
        return answers(X).astype(int)  # the world's classes are numbers

    n = min(TRUTH_PEOPLE, 2 * run.rows) if run.rows else TRUTH_PEOPLE
    found = people.world.evaluate(rule, run.criterion, n=n)
    regret = people.world.regret(rule, run.criterion, n=n)
    return {"accuracy": _rounded(found.accuracy), "violation": _rounded(found.violation), "regret": _rounded(regret)}


# -- the methods -------------------------------------------------------------------------------------------
def make(run: Run, method: MethodPlan, people: Task) -> Any:
    """The classifier of a run, on the network of its people."""
    options = {name: value for name, value in run.options.items() if name not in ("model", "features", "revision")}
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    if "adjustment" in options:
        options["adjustment"] = network(options["adjustment"], people)
    base = network(run.options["model"] | {"random_state": run.seed}, people)
    kind = method.kind
    if kind.name == "OptFairInPost":
        return _in_then_post(run, options, base)
    if kind.kind == "post":
        base = Shared(base)
        options |= {"n_jobs": 1} if kind.needs is None else {}
        if np.ndim(people.train.X) > 2:
            options |= {"cv": 2}  # a network of pictures takes minutes
    return kind.make(run.criterion, run.value, estimator=base, random_state=run.seed, **options)


def _in_then_post(run: Run, options: dict[str, Any], base: Any) -> Any:
    threshold, gap = options.pop("threshold"), options.pop("gap")
    asked: dict[str, Any] = {"criterion": run.criterion, "tolerance": run.value, "random_state": run.seed}
    # It gets a fitted model: its posterior is factored, with quick models of the group.
    post = OptFairPost(calibration="none", gap=gap, n_jobs=1, **asked)
    return OptFairInPost(OptFairIn(base, **asked, **options), post, threshold=threshold, random_state=run.seed)


def network(settings: Mapping[str, Any], people: Task) -> Any:
    """The paper's model: standardised features (pictures are normalised already) and a network."""
    need_extra("torch", "optfair bench")
    from optfair.nn import TorchClassifier

    own = TorchClassifier(**settings)
    return own if np.ndim(people.train.X) > 2 else make_pipeline(StandardScaler(), own)


class Shared(ClassifierMixin, BaseEstimator):
    """A classifier that is fitted once per process to the same rows and labels, whoever asks.

    Post-processors then stand on the very same models, and the harness does not fit them over and over.
    ``seconds`` : what the models asked for, since it was set to 0, took when they were fitted; ``fitting`` : what of
    that was spent since.
    """

    seconds = 0.0
    fitting = 0.0
    _models: OrderedDict[bytes, tuple[Any, float]] = OrderedDict()  # noqa: RUF012

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        if sample_weight is not None:
            raise ValueError("sample_weight: shared models take none.")
        key = hashlib.blake2b(repr(self.estimator.get_params()).encode())
        for part in (X, y):
            values = np.ascontiguousarray(part)
            key.update(f"{values.shape} {values.dtype}".encode())
            key.update(values.view(np.uint8).data)  # of numbers: objects, known by address only, are refused
        found = self._models.get(key.digest())
        if found is None:
            clock = time.process_time()
            model = clone(self.estimator).fit(X, y)
            found = model, time.process_time() - clock
            Shared.fitting += found[1]
            self._models[key.digest()] = found
            while len(self._models) > KEPT_MODELS:
                self._models.popitem(last=False)
        Shared.seconds += found[1]
        self.model_ = found[0]
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.asarray(self.model_.predict_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        return np.asarray(self.model_.predict(X))
