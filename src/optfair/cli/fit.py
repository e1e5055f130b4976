"""``optfair fit``: a fair classifier from a table, reported on and saved."""

from __future__ import annotations

import shlex
from argparse import Namespace
from dataclasses import replace
from typing import Any

from optfair.cli.console import shows_progress, status
from optfair.cli.main import DONE
from optfair.cli.tables import InputError
from optfair.cli.training import Training, check_training, make_estimator, posterior_kind, read_training, wishes
from optfair.decisions import new_key
from optfair.errors import need_extra
from optfair.inprocess import OptFairIn
from optfair.model_file import untrusted_types
from optfair.post import OptFairPost


def run(arguments: Namespace) -> int:
    """Check, read, fit, save, tell."""
    need_extra("skops.io", "optfair fit")
    for name, value in _of_rounds(arguments).items():
        if arguments.method != "in":
            raise InputError(f"--{name.replace('_', '-')} {value}: is for --method in.")
    if arguments.rounds is not None and arguments.rounds < 1:
        raise InputError(f"--rounds {arguments.rounds}: must be at least 1.")
    check_training(arguments)
    training = read_training(arguments)
    model = _fitted(arguments, training)
    model.save(arguments.output)  # before anything is told: `optfair fit ... | head` may not listen to the end
    print(model.report())
    if training.test is not None:
        print("\nOn the people held out" if arguments.test is None else f"\nOn the people of {arguments.test}")
        print(model.report(**training.test.given))
    else:
        print("\nThese people were fitted on. --test FILE or --test-size 0.3 shows what the model does for others.")
    _tell(arguments, model)
    return DONE


def _fitted(arguments: Namespace, training: Training) -> Any:
    people, told = training.people, wishes(arguments, training.people)
    what = f"{arguments.estimator}, {len(people.y)} people, {people.X.shape[1]} features"
    status(f"fitting ({what})")
    if arguments.method == "in":
        # An aware learner sees the group as further columns of X.
        estimator = make_estimator(arguments.estimator, training.schema, arguments.seed, more=arguments.aware)
        fair_in = OptFairIn(estimator, **told, **_of_rounds(arguments), progress=shows_progress()).fit(**people.given)
        fair_in.set_params(progress=False)
        fair_in.training_ = replace(fair_in.training_, key=new_key(None))
        return fair_in
    estimator = make_estimator(arguments.estimator, training.schema, arguments.seed)
    kind = posterior_kind(arguments.estimator, people)
    fair = OptFairPost(estimator, **told, posterior=kind).fit(**people.given)
    # The seed is of the models alone: a key that anybody can guess would let people choose their answer.
    fair.rule_ = replace(fair.rule_, key=new_key(None))
    return fair


def _of_rounds(arguments: Namespace) -> dict[str, Any]:
    """What was said about in-processing."""
    said = {name: getattr(arguments, name) for name in ("rounds", "mixture", "held_out")}
    return {name: value for name, value in said.items() if value is not None}


def _tell(arguments: Namespace, model: Any) -> None:
    output = arguments.output
    groups = [str(name) for name in model.groups_.names] if arguments.aware else []
    words = ["optfair", "predict", output, "NEW.csv", "-o", "answers.csv"]
    words += [part for name in groups for part in ("--group", name)]
    words += [part for name in untrusted_types(output) for part in ("--trust", name)]
    print(f"\nWrote {output}")
    print(f"  and {output}.key: keep it secret, beside the model; it decides where the rule leaves people undecided")
    print(f"Next: {shlex.join(words)}")
