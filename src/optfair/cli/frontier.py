"""Run ``optfair frontier``: show what fairness costs for many tolerances, as a table and a picture."""

from __future__ import annotations

from argparse import Namespace

from optfair.cli.columns import requested_criteria
from optfair.cli.console import heading, text_table
from optfair.cli.main import DONE
from optfair.cli.pages import check_pages, write_pages
from optfair.cli.paths import PAGES, InputError
from optfair.cli.pictures import check_picture_name, draw_curve, save_picture
from optfair.cli.tables import check_table_name, write_table
from optfair.cli.training import check_training, fit_post, read_training
from optfair.errors import warn
from optfair.rule.frontier import Frontier

COLUMNS = ["tolerance", "accuracy", "violation", "upper_bound", "gap", "price"]
TEST_COLUMNS = ["test_accuracy", "test_violation", "test_floor"]
LEGEND = """\
accuracy, violation: of the rule, computed with z(x), the out-of-fold estimates of P(A, Y | X)
upper bound: no rule within the same bounds is more accurate with z(x); gap: upper bound minus accuracy
price: accuracy gained per unit of tolerance
area: mean accuracy over the violations from 0, where the best constant answer is, to that of the unconstrained rule"""
TEST_LEGEND = "test floor: a fair rule has a smaller violation on the test people 19 times in 20"


def run(arguments: Namespace) -> int:
    """Check, read, fit once, solve for every tolerance, write, print."""
    check_table_name(arguments.output)
    if arguments.plot:
        check_picture_name(arguments.plot, "--plot")
    if arguments.points < 2:
        raise InputError(f"--points {arguments.points}: must be at least 2.")
    check_training(arguments)
    check_pages(arguments)
    tables = read_training(arguments)
    for note in tables.notes:
        warn(note)
    model, test = fit_post(arguments, tables), tables.test
    test_data = None if test is None else (test.X, test.y, test.groups, test.weight, test.cluster)
    frontier = model.frontier(arguments.points, test=test_data)
    write_table(frontier.table, arguments.output)
    request = f"{', '.join(requested_criteria(arguments))} ({arguments.reference})"
    if arguments.plot:
        title = f"{arguments.label} by {', '.join(arguments.group)}: {request}"
        save_picture(draw_curve(frontier, title), arguments.plot)
    _print_frontier(frontier, request)
    if model.n_unknown_:
        print(f"The group of {model.n_unknown_} of {len(tables.train.y)} people fitted on is unknown and was inferred.")
    pages = []
    if any(getattr(arguments, form) for form in PAGES):
        pages = write_pages(arguments, model.report(**({} if test is None else test.arguments), path=frontier))
    print(f"\nWrote {' and '.join([arguments.output, *([arguments.plot] if arguments.plot else []), *pages])}")
    return DONE


def _print_frontier(frontier: Frontier, request: str) -> None:
    table, sides = frontier.table, ["train"]
    print(heading(f"Accuracy against {request}, {len(table)} tolerances"))
    columns = [name for name in COLUMNS + TEST_COLUMNS if name in table]
    print(text_table(table[columns].rename(columns=lambda name: name.replace("_", " "))))
    print(f"\n{LEGEND}")
    if "test_floor" in table:
        print(TEST_LEGEND)
        sides.append("test")
    for side in sides:
        violation, accuracy = frontier.unconstrained[side]
        print(
            f"{side}: unconstrained accuracy {accuracy:.4f} at violation {violation:.4f}; "
            f"area {frontier.area(side):.4f}"
        )
