"""Draw samples, make rules, measure them in the population: a line of JSON for each sample."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from experiments.coverage.rules import FITTED_SHARE, MadeRule, fitted_problem, held_out_rule, measure, rules_of
from experiments.coverage.settings import CONFIDENCE, SETTINGS, SIZES, Setting, make_learner, make_world
from optfair import OptFairPost
from optfair.constraints import Constraint, compile_rows
from optfair.datasets import load
from optfair.dual.posterior import make_posterior
from optfair.metrics.counts import count_codes
from optfair.rule.driver import solve_problem
from optfair.rule.options import Options
from optfair.rule.problem import FairProblem
from optfair.rule.rule import FairRule
from optfair.rule.tightening import FittedRows, PromiseSearch
from optfair.utils.parallel import cores

FILE, SMALLEST = "coverage.jsonl", "smallest"
Line = dict[str, Any]


def read_lines(file: Path) -> list[Line]:
    """Return the lines of finished samples; what was cut off at the end is left out."""
    lines = []
    for text in file.read_text("utf-8").splitlines() if file.exists() else []:
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


def run_missing(file: Path, names: Iterable[str], runs: int | None, jobs: int) -> None:
    """Run what the file lacks, and append a line as soon as a sample is done. runs : instead of the settings' own."""
    done = {(line["setting"], line["seed"]) for line in read_lines(file)}
    tasks = [
        (name, seed)
        for name in names
        for seed in range(len(SIZES) if name == SMALLEST else runs or SETTINGS[name].runs)
        if (name, seed) not in done
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    results = Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(run_one)(*task) for task in tasks)
    with file.open("a", encoding="utf-8") as handle:
        for number, line in enumerate(results, 1):
            handle.write(json.dumps(line) + "\n")
            handle.flush()
            if number % 20 == 0 or number == len(tasks):
                print(f"{number} of {len(tasks)} samples", flush=True)


def run_one(name: str, seed: int) -> Line:
    """Return the line of one sample."""
    with warnings.catch_warnings(), cores(1):
        warnings.simplefilter("ignore")
        if name == SMALLEST:
            return {"setting": name, "seed": seed, **smallest_tolerance(SIZES[seed])}
        setting = SETTINGS[name]
        scores = real_scores(name, seed) if setting.data else world_scores(setting, seed)
    return {"setting": name, "seed": seed, "scores": scores}


def score(made: MadeRule, J: np.ndarray, rows: Any) -> dict[str, float]:
    """Return what a line says of a rule."""
    facts = {"seconds": made.seconds, "share": made.share, "tightening": made.tightening}
    return {name: round(value, 6) for name, value in {**measure(J, rows), **facts}.items()}


# -- worlds --------------------------------------------------------------------------------------------------
@lru_cache(maxsize=2)
def world_population(setting_key: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return X and the true posteriors of the population of a world."""
    groups, classes, n = setting_key
    world = make_world(groups, classes)
    X = world.sample(n, random_state=10**6).X.to_numpy()
    return X, world.joint_posterior(X)


def world_scores(setting: Setting, seed: int) -> dict[str, dict[str, float]]:
    """Return the scores of all methods on a sample of a world."""
    world = make_world(setting.groups, setting.classes)
    data, k = world.sample(setting.n, random_state=seed), setting.n_features
    X, y, groups = data.X.to_numpy()[:, :k], data.y, np.asarray(data.sensitive_features)
    X_all, Z_true = world_population((setting.groups, setting.classes, setting.population))
    X_all = X_all[:, :k]
    names = {"groups": pd.Index(world.group_names), "classes": pd.Index(world.class_names)}
    constraint, prior = Constraint(setting.criterion, setting.tolerance), Z_true.mean(axis=0)
    rows = compile_rows([constraint], names["groups"], names["classes"], prior)

    def scores(made: MadeRule, posteriors: list[np.ndarray]) -> dict[str, float]:
        h = np.mean([made.rule.predict_proba(Z) for Z in posteriors], axis=0)
        return score(made, np.einsum("xai,xj->aij", Z_true, h, optimize=True) / len(h), rows)

    model = make_model(setting, ensemble=setting.ensemble).fit(X, y, sensitive_features=groups)
    half = fitted_problem(model)[0].with_constraints([Constraint(setting.criterion, setting.tolerance / 2)])
    full, *folds = (model._posteriors_by(f, X_all, None)[1] for f in (model.posterior_model_, *model.fold_models_))
    made = rules_of(*fitted_problem(model), half, ensemble=setting.ensemble)
    out = {rule.method: scores(rule, folds if rule.ensemble else [full]) for rule in made}

    n_fit = int(FITTED_SHARE * setting.n)
    model = make_model(setting).fit(X[:n_fit], y[:n_fit], sensitive_features=groups[:n_fit])
    Z = model.joint_posterior(X[n_fit:])
    a, label = (index.get_indexer(column[n_fit:]) for index, column in zip(names.values(), (groups, y), strict=True))
    rule = held_out_rule(*fitted_problem(model), *counter(Z, a, label, **names))
    return out | {rule.method: scores(rule, [model.joint_posterior(X_all)])}


def make_model(setting: Setting, **options: Any) -> OptFairPost:
    """Return the model of a setting, not fitted."""
    options |= {"criterion": setting.criterion, "tolerance": setting.tolerance, "random_state": 0}
    return OptFairPost(make_learner(setting.learner), **options)


def counter(
    Z: np.ndarray, a: np.ndarray, label: np.ndarray, groups: pd.Index, classes: pd.Index
) -> tuple[Callable[[FairRule], Any], np.ndarray]:
    """Return a function that counts the decisions of a rule, and the people of each cell, (A, m)."""

    def count(rule: FairRule) -> Any:
        h = rule.predict_proba(Z)
        return count_codes(a, label, h / h.sum(axis=1, keepdims=True), None, groups, classes)

    m = len(classes)
    return count, np.bincount(a * m + label, minlength=len(groups) * m).reshape(-1, m)


def smallest_tolerance(n: int) -> Line:
    """Return the smallest tolerances that can be promised to n people of a world, for dp and eo."""
    world = make_world(4, 3)
    data = world.sample(n, random_state=7)
    out: Line = {"n": n}
    for criterion in ("dp", "eo"):
        model = OptFairPost(make_learner("logistic"), criterion=criterion, tolerance=0.01, random_state=0)
        model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
        search = PromiseSearch(fitted_problem(model)[0], FittedRows(), CONFIDENCE, "sampled")
        fairest = search.search(search.trial(fitted_problem(model)[1]))[1]
        out[criterion] = round(0.01 * fairest.ratio, 6)
    return out


# -- real people ---------------------------------------------------------------------------------------------
@lru_cache(maxsize=1)
def real_population(name: str, options: tuple[tuple[str, Any], ...]) -> Mapping[str, Any]:
    """Return posteriors and cells of three quarters of the people, by a model of the first."""
    data = load(name, **dict(options))
    quarter, rest = data.split(0.25, random_state=0)
    model = OptFairPost(random_state=0, tolerance=1.0)
    model.fit(quarter.X, quarter.y, sensitive_features=quarter.sensitive_features)
    Z = model.joint_posterior(rest.X)
    people = model._check_labelled(rest.X, rest.y, rest.sensitive_features, None)
    return {
        "Z": Z,
        "group": people.group,
        "label": people.label,
        "groups": model.rule_.groups,
        "classes": model.rule_.classes,
    }


def real_scores(name: str, seed: int) -> dict[str, dict[str, float]]:
    """Return the scores of all methods on a sample of real people, drawn with replacement; the truth is by labels."""
    setting = SETTINGS[name]
    people = real_population(setting.data, tuple(setting.options.items()))
    Z, group, label, groups, classes = (people[key] for key in ("Z", "group", "label", "groups", "classes"))
    m, constraint = len(classes), Constraint(setting.criterion, setting.tolerance)
    index = np.random.default_rng([seed, 1]).integers(len(Z), size=setting.n)

    def problem_of(rows: np.ndarray) -> FairProblem:
        posterior = make_posterior(Z[rows], groups, classes, cell=group[rows] * m + label[rows])
        return FairProblem.prepare(posterior, [constraint], None, Options(gap=1e-4, random_state=0))

    count_all, n_people = counter(Z, group, label, groups, classes)
    rows = compile_rows([constraint], groups, classes, n_people / n_people.sum())
    problem = problem_of(index)
    half = problem.with_constraints([Constraint(setting.criterion, setting.tolerance / 2)])
    made = rules_of(problem, solve_problem(problem), half, ensemble=False)
    out = {rule.method: score(rule, count_all(rule.rule).tensor, rows) for rule in made}
    first, second = np.split(index, [int(FITTED_SHARE * setting.n)])
    problem = problem_of(first)
    test = counter(Z[second], group[second], label[second], groups, classes)
    rule = held_out_rule(problem, solve_problem(problem), *test)
    return out | {rule.method: score(rule, count_all(rule.rule).tensor, rows)}
