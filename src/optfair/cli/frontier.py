"""``optfair frontier``: what fairness costs, for many tolerances, as a table and a picture."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from optfair.cli.console import heading, status, text_table
from optfair.cli.main import DONE
from optfair.cli.pictures import FORMATS, save_picture
from optfair.cli.tables import InputError, check_table_name, write_table
from optfair.cli.training import check_training, make_estimator, posterior_kind, read_training, wishes
from optfair.errors import need_extra
from optfair.path import Frontier
from optfair.post import OptFairPost

SHOWN = ["tolerance", "accuracy", "violation", "upper_bound", "gap", "price"]
EXPLAINED = """\
accuracy, violation: of the rule, on z(x) out of fold; no rule within the same bounds gets past upper bound there
gap: between the two. price: accuracy gained per unit of tolerance
area: mean accuracy over violations from 0 to the unconstrained one"""
TEST = ["test_accuracy", "test_violation", "test_floor"]


def run(arguments: Namespace) -> int:
    """Check, read, fit once, solve for every tolerance, tell, write."""
    check_table_name(arguments.output)
    if arguments.plot:
        _check_picture(arguments.plot)
    if arguments.points < 2:
        raise InputError(f"--points {arguments.points}: must be at least 2.")
    check_training(arguments)
    training = read_training(arguments)
    people, test = training.people, training.test
    status(f"fitting ({arguments.estimator}, {len(people.y)} people, {people.X.shape[1]} features)")
    estimator = make_estimator(arguments.estimator, training.schema, arguments.seed)
    kind = posterior_kind(arguments.estimator, people)
    model = OptFairPost(estimator, **wishes(arguments, people), posterior=kind).fit(**people.given)
    status(f"solving for {arguments.points} tolerances")
    judged = None if test is None else (test.X, test.y, test.groups, test.weight)
    found = model.frontier(arguments.points, test=judged)
    write_table(found.table, arguments.output)
    if arguments.plot:
        _draw(found, arguments)
    _tell(found, arguments)
    return DONE


def _check_picture(path: str) -> None:
    if Path(path).suffix.lower() not in FORMATS:
        raise InputError(f"--plot {path}: its name must end in {', '.join(FORMATS)}.")
    need_extra("matplotlib", "--plot")


def _draw(found: Frontier, arguments: Namespace) -> None:
    need_extra("matplotlib", "--plot").use("Agg")  # no display is needed
    figure = need_extra("matplotlib.figure", "--plot").Figure(figsize=(6, 4), layout="constrained")
    ax = found.plot(figure.subplots())
    criteria = ", ".join(arguments.criterion or ["demographic_parity"])
    ax.set_title(f"{arguments.label} by {', '.join(arguments.group)}: {criteria} ({arguments.reference})", fontsize=10)
    save_picture(figure, arguments.plot)


def _tell(found: Frontier, arguments: Namespace) -> None:
    criteria = ", ".join(arguments.criterion or ["demographic_parity"])
    names = [name for name in SHOWN + TEST if name in found.table]
    print(heading(f"Accuracy against {criteria} ({arguments.reference}), {len(found.table)} tolerances"))
    print(text_table(found.table[names].rename(columns=lambda name: name.replace("_", " "))))
    print(f"\n{EXPLAINED}")
    if "test_floor" in found.table:
        print("test floor: the violation that a fair rule would stay below on the test people, 19 times in 20")
    sides = ["train", *(["test"] if "test_floor" in found.table else [])]
    for side in sides:
        (violation, value), area = found.unconstrained[side], found.area(side)
        print(f"{side}: unconstrained accuracy {value:.4f} at violation {violation:.4f}; area {area:.4f}")
    print(f"\nWrote {arguments.output}" + (f" and {arguments.plot}" if arguments.plot else ""))
