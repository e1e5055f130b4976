"""Run ``optfair fit``: fit a fair classifier to a table, report on it and save it."""

from __future__ import annotations

import shlex
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from optfair.cli.classifiers import make_estimator
from optfair.cli.folders import check_folder_fit, solve_for_folder
from optfair.cli.main import DONE
from optfair.cli.pages import check_pages, write_pages
from optfair.cli.paths import InputError
from optfair.cli.training import (
    TrainingTables,
    check_training,
    fair_arguments,
    fit_post,
    fitting,
    read_training,
)
from optfair.errors import RuleFileError, need_extra, warn
from optfair.estimators.inprocess import OptFairIn
from optfair.estimators.loading import untrusted_types
from optfair.reporting.report import Report
from optfair.rule.keys import new_key, read_key_file
from optfair.utils.archives import need_skops
from optfair.utils.progress import stage


def run(arguments: Namespace) -> int:
    """Check, read, fit, save, report."""
    need_extra("skops", "optfair fit")  # not yet skops.io, which takes seconds: a mistake is reported sooner
    for name, value in _round_options(arguments).items():
        if arguments.method != "in":
            raise InputError(f"--{name.replace('_', '-')} {value}: is for --method in only.")
    if arguments.no_path and arguments.method == "in":
        raise InputError("--no-path: is for --method post only; leave it out.")
    if arguments.confidence is not None and arguments.method == "in":
        raise InputError("--confidence: is for --method post only; test a trained model with `optfair audit`.")
    if arguments.confidence is not None and not 0.5 <= arguments.confidence < 1:
        raise InputError(f"--confidence {arguments.confidence:g}: must be from 0.5 to below 1, such as 0.95.")
    if arguments.missing == "infer" and arguments.method == "in":
        raise InputError("--missing infer: is for --method post only.")
    if arguments.scores and arguments.method == "in":
        raise InputError("--scores: is for --method post only; a model that is trained here has its own.")
    if arguments.rounds is not None and arguments.rounds < 1:
        raise InputError(f"--rounds {arguments.rounds}: must be at least 1.")
    if arguments.held_out is not None and not 0 <= arguments.held_out < 1:
        raise InputError(f"--held-out {arguments.held_out:g}: must be a share from 0 to below 1, such as 0.25.")
    is_folder = Path(arguments.file).is_dir()
    if is_folder:
        check_folder_fit(arguments)
    check_training(arguments)
    check_pages(arguments)
    key = _secret_key(arguments)  # before long work
    tables = read_training(arguments)
    for note in tables.notes:
        warn(note)
    old_key = Path(f"{arguments.output}.key")
    if old_key.exists() and arguments.key_file is None:
        warn(
            f"{old_key}: the key of the model that is there will be replaced, so that other people are drawn; to keep "
            f"it, add --key-file {shlex.quote(str(old_key))}."
        )
    if arguments.confidence is not None and arguments.missing == "infer" and tables.train.n_unknown:
        raise InputError(
            f"--confidence {arguments.confidence:g}: nothing is promised where groups are inferred, and those of "
            f"{tables.train.n_unknown} of {len(tables.train.y)} people to fit on are missing; leave it out."
        )
    with stage("loading skops"):
        need_skops("optfair fit")  # before long work
    model: Any = _fit_in(arguments, tables, key) if arguments.method == "in" else _fit_post(arguments, tables, key)
    note = solve_for_folder(model, arguments) if is_folder else ""
    model.save(arguments.output)  # before anything is printed: the reader of `optfair fit ... | head` may leave
    report = model.report()
    print(report)
    if tables.test is not None:
        print(f"\nOn {tables.test_people}")
        report = model.report(**tables.test.arguments)
        report = Report(replace(report.facts, title=f"{report.title}; {tables.test_people}"))
        print(report)
    else:
        print(
            "\nThese results are for the people the model was fitted on. Add --test FILE or --test-size 0.3 to see "
            "results for others."
        )
    if note:
        print(f"\n{note}")
    pages = write_pages(arguments, report)
    _print_files(arguments, model)
    if pages:
        print(f"Wrote the report to {', '.join(pages)}")
    return DONE


def _secret_key(arguments: Namespace) -> bytes:
    """Return the key of an earlier model, or a new one; the seed is for the models only.

    If the key could be guessed, people could choose their prediction.
    """
    if arguments.key_file is None:
        return new_key(None)
    try:
        return read_key_file(Path(arguments.key_file))
    except RuleFileError as error:
        raise InputError(f"--key-file {error}") from None


def _fit_post(arguments: Namespace, tables: TrainingTables, key: bytes) -> Any:
    model = fit_post(arguments, tables)
    model.rule_ = replace(model.rule_, key=key)
    if not arguments.no_path:
        with stage("other tolerances, which --no-path leaves out"):
            model.path()
    return model


def _fit_in(arguments: Namespace, tables: TrainingTables, key: bytes) -> Any:
    # An aware learner sees the group as further columns of X.
    estimator = make_estimator(arguments.estimator, tables.schema, arguments.seed, extra_columns=arguments.aware)
    options = {**fair_arguments(arguments, tables.train), **_round_options(arguments)}
    with fitting(tables.train, arguments.missing):
        model = OptFairIn(estimator, **options).fit(**tables.train.arguments)
    model.training_ = replace(model.training_, key=key)
    return model


def _round_options(arguments: Namespace) -> dict[str, Any]:
    """Return the options of in-processing that were given."""
    options = {name: getattr(arguments, name) for name in ("rounds", "mixture", "held_out")}
    return {name: value for name, value in options.items() if value is not None}


def _print_files(arguments: Namespace, model: Any) -> None:
    """Print what was written, and the command that uses it."""
    output = arguments.output
    groups = [str(name) for name in model.groups_.names] if arguments.aware else []
    names = ["NEW", "answers"] if Path(arguments.file).is_dir() else ["NEW.csv", "answers.csv"]
    words = ["optfair", "predict", output, names[0], "-o", names[1]]
    words += [part for name in groups for part in ("--group", name)]
    words += [part for name in untrusted_types(output) for part in ("--trust", name)]
    print(f"\nWrote {output}")
    print(f"  and {output}.key: keep it secret and next to the model; it fixes the predictions that are randomised")
    print(f"Next: {shlex.join(words)}")
