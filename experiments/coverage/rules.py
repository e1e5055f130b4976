"""Make the rules that are compared: with and without a promise, half the tolerance, the control, and tests held out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from experiments.coverage.settings import CONFIDENCE, CONTROL
from optfair import OptFairPost
from optfair.constraints.rows import accuracy
from optfair.rule.driver import Solution, solve_problem
from optfair.rule.problem import FairProblem
from optfair.rule.promise import held_out_promise
from optfair.rule.promising import promise_rule, tightened_family
from optfair.rule.rule import FairRule
from optfair.rule.tightening import FittedRows, PromiseSearch

FITTED_SHARE = 0.6  # of a sample, where a family of rules is tested on the rest
METHODS = {
    "plain": "the tolerance as it is",
    "half": "half of the tolerance",
    "control": "bounds tightened by 1.645 standard errors",
    "promise": "`confidence=0.95`, answered by the model of all people",
    "ensemble": 'the same, answered by the mixture of the folds, as `ensemble="auto"` chooses for the forest',
    "held out": "fitted on 60 %, a family of rules tested on the rest",
}


class MadeRule(NamedTuple):
    """A rule, what it took, and what was said of it.

    ensemble : whether the models of the folds answer.
    """

    method: str
    rule: FairRule
    seconds: float = 0.0
    share: float = 0.0
    tightening: float = 0.0
    ensemble: bool = False


def rules_of(problem: FairProblem, plain: Solution, half: FairProblem, ensemble: bool) -> Iterator[MadeRule]:
    """Yield the rules of all methods that use all people of a problem.

    half : the problem with half of every tolerance. ensemble : whether the promised rule is answered by folds too.
    """
    yield MadeRule("plain", plain.rule)
    yield MadeRule("half", solve_problem(half, plain).rule)
    search = PromiseSearch(problem, FittedRows(), CONFIDENCE, "sampled")
    control = search.tightened(search.trial(plain), CONTROL)
    if control:
        yield MadeRule("control", control[-1].solution.rule, tightening=CONTROL)
    clock = time.perf_counter()
    rule = promise_rule(problem, plain, FittedRows(), CONFIDENCE, "sampled", "mix")[0].rule
    assert rule.promise is not None
    facts = rule.share, rule.promise.tightening
    yield MadeRule("promise", rule, time.perf_counter() - clock, *facts)
    if ensemble:
        yield MadeRule("ensemble", rule, 0.0, *facts, ensemble=True)


def held_out_rule(
    problem: FairProblem, plain: Solution, count: Callable[[FairRule], Any], n_people: np.ndarray
) -> MadeRule:
    """Return the last rule of a family that keeps its tolerance on people held out, or the strictest, mixed.

    count : of the decisions of a rule for these people, by labels. n_people : (A, m) of them.
    """
    kept: FairRule | None = None
    for solution in tightened_family(problem, plain, FittedRows(), "sampled", n_people):
        counts = count(solution.rule)
        promise = held_out_promise(counts, problem.rows.constraints, CONFIDENCE, "sampled")
        if not promise.kept:
            if kept is None:  # gaps of a mixture with a constant shrink by the share that is not drawn from it
                share = 1 - 1 / promise.ratio
                likeliest = np.eye(len(counts.classes))[counts.tensor.sum(axis=(0, 2)).argmax()]
                kept = FairRule(**{**solution.rule.__dict__, "share": share, "constant": likeliest})
            break
        kept = solution.rule
    assert kept is not None
    return MadeRule("held out", kept, share=kept.share)


def fitted_problem(model: OptFairPost) -> tuple[FairProblem, Solution]:
    """Return the problem that a model was fitted to, and its solution."""
    fitted = model._posteriors()
    return fitted.problem, fitted.solution


def measure(J: np.ndarray, rows: Any) -> dict[str, float]:
    """Return accuracy, violation, and the largest gap by its tolerance, of a rule whose confusion tensor is known."""
    values = rows.values(J)
    return {
        "accuracy": float(accuracy(J)),
        "violation": float(np.abs(values).max()),
        "ratio": float((np.abs(values) / rows.upper).max()),
    }
