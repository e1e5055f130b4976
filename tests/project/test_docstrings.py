"""Docstrings that tools can parse: numpydoc accepts those of every public name, and their examples run."""

import dataclasses
import doctest
import importlib
import inspect
import os
from enum import Enum

import pytest

import optfair

numpydoc_validate = pytest.importorskip("numpydoc.validate", reason="numpydoc checks docstrings")

DOORS = ["optfair", "optfair.metrics", "optfair.datasets", "optfair.baselines", "optfair.nn"]
RETURNED = [  # what public functions return
    "optfair.rule.certificate.Certificate",
    "optfair.rule.certificate.Status",
    "optfair.rule.determinism.Determinism",
    "optfair.reporting.report.Report",
    "optfair.rule.explanation.Explanation",
    "optfair.reporting.findings.Finding",
    "optfair.reporting.verdict.Verdict",
    "optfair.monitoring.report.MonitorReport",
    "optfair.estimators.base.FairClassifier",
    "optfair.estimators.rule_solver.RuleSolver",
    "optfair.estimators.saving.SavableClassifier",
]
# Not asked for: "See Also" sections, extended summaries, the layout of the closing quotes, dated "Yields" rules.
IGNORED = {"SA01", "SA04", "ES01", "GL01", "GL02", "GL03", "YD01", "RT02"}
# Of errors, properties and fields of results there are no parameters to document, nor examples to ask for.
SHORT = {"EX01", "PR01", "RT01"}


def public_objects():
    objects = {}
    for door in DOORS:
        try:
            module = importlib.import_module(door)
        except ImportError:  # an extra that is absent
            continue
        for name in module.__all__:
            try:
                value = getattr(module, name)
            except ImportError:
                continue
            if inspect.isclass(value) or inspect.isfunction(value):
                objects[f"{value.__module__}.{value.__qualname__}"] = value
    for name in RETURNED:
        module, _, attribute = name.rpartition(".")
        objects[name] = getattr(importlib.import_module(module), attribute)
    return objects


OBJECTS = public_objects()


def documented(name, value):
    """The object itself and its public members, as (name, whether one line is enough)."""
    is_error = inspect.isclass(value) and issubclass(value, BaseException | Warning)
    # Of results that users do not construct the fields are "Attributes", not parameters.
    result = dataclasses.is_dataclass(value) and "Attributes\n" in (inspect.getdoc(value) or "")
    is_enum = inspect.isclass(value) and issubclass(value, Enum)
    yield name, is_error or result or is_enum or name.endswith(("FairClassifier", "SavableClassifier", "RuleSolver"))
    for member, attribute in vars(value).items() if inspect.isclass(value) and not is_error else ():
        if member.startswith("_"):
            continue
        if isinstance(attribute, property):
            yield f"{name}.{member}", True
        elif inspect.isfunction(attribute) or isinstance(attribute, classmethod | staticmethod):
            abstract = {"FairClassifier": "predict_proba", "RuleSolver": "joint_posterior"}
            yield f"{name}.{member}", abstract.get(name.rpartition(".")[2]) == member


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_numpydoc_accepts_it(name):
    complaints = []
    for member, short in documented(name, OBJECTS[name]):
        errors = numpydoc_validate.validate(member)["errors"]
        ignored = IGNORED | (SHORT if short else set())
        complaints += [f"{member}: {code} {text}" for code, text in errors if code not in ignored]
    assert complaints == []


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_the_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what an example writes
    finder = doctest.DocTestFinder(recurse=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in finder.find(OBJECTS[name], name):
        runner.run(test, out=lambda text: None)
    if runner.failures:  # once more, to be read
        for test in finder.find(OBJECTS[name], name):
            doctest.DocTestRunner().run(test)
    assert runner.failures == 0
    assert not os.listdir(tmp_path)


def test_help_is_a_page():
    text = inspect.getdoc(optfair.OptFairPost)
    assert "Parameters\n----------" in text and "Examples\n--------" in text
