"""Define what the command line accepts. Nothing heavy is imported here, so that ``optfair --help`` is quick."""

from __future__ import annotations

import argparse

from optfair.cli.deployment import add_export, add_serve
from optfair.cli.fitting import add_fit, add_frontier
from optfair.cli.options import (
    DEFAULT_CRITERION,
    EXIT_CODES,
    TABLES,
    add_cluster,
    add_constraint,
    add_groups,
    add_model,
    add_pages,
    add_reference,
    add_table,
    command,
)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of ``optfair``; ``arguments.command`` names the module of `optfair.cli` that runs."""
    from optfair import __version__

    parser = argparse.ArgumentParser(
        prog="optfair",
        description="Multi-class classifiers that are fair to many groups at the least cost in accuracy, with proof.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"optfair {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    adders = (
        _add_demo,
        _add_audit,
        add_fit,
        _add_predict,
        _add_explain,
        _add_report,
        add_export,
        add_serve,
        add_frontier,
        _add_plan,
        _add_monitor,
        _add_datasets,
    )
    for add in adders:
        add(commands)
    return parser


def _add_demo(commands: argparse._SubParsersAction) -> None:
    parser = command(commands, "demo", "show the whole workflow on data that come with the package (about a minute)")
    parser.add_argument(
        "-o", "--output", metavar="DIR", default="optfair-demo", help="output folder (default: %(default)s)"
    )
    parser.add_argument(
        "--people", type=int, metavar="N", help="use a random sample of N people, which is faster (default: all)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the sample, the split, the models and the key (default: 0)"
    )


def _add_audit(commands: argparse._SubParsersAction) -> None:
    parser = command(
        commands,
        "audit",
        "measure the gaps between groups in the predictions of a table",
        "The people must not be those the model was fitted on. Each gap is shown with its confidence interval, and "
        "each criterion with its noise floor. The verdict is PASS if the largest gap is within the tolerance with "
        "confidence. The exit code is 1 if the simultaneous lower bound of some gap exceeds the tolerance.",
    )
    add_table(parser, folders=True)
    parser.add_argument(
        "--label", metavar="COLUMN", help="column of the true class; demographic parity and ratios need none"
    )
    predictions = parser.add_mutually_exclusive_group(required=True)
    predictions.add_argument("--prediction", metavar="COLUMN", help="column of the predicted class")
    predictions.add_argument(
        "--scores",
        metavar="COLUMN",
        action="append",
        help="columns of the class probabilities. A column is named like its class, with the same prefix in every "
        "column or none, or is given as CLASS=COLUMN. Repeat the option or separate the columns by commas",
    )
    parser.add_argument(
        "--decision",
        choices=("argmax", "sampled"),
        default="argmax",
        help="how --scores become predictions: argmax takes the largest score, sampled draws a class with these "
        "probabilities (default: %(default)s)",
    )
    parser.add_argument("--before", metavar="COLUMN", help="column of what the same people got before, to compare with")
    add_groups(parser, missing=("error", "group", "drop", "infer"))
    parser.add_argument(
        "--refusal",
        type=float,
        metavar="FACTOR",
        help="with --missing infer: how much the odds of the groups may differ between people who told theirs and "
        "others (default: in any way)",
    )
    add_constraint(parser, ratio=True)
    parser.set_defaults(tolerance=None)  # so that the report can say that nobody chose it
    parser.add_argument(
        "--favourable",
        metavar="CLASS",
        action="append",
        help="answer for which the report has selection rates and impact ratios; repeat it (default: as --outcome)",
    )
    parser.add_argument("--weight", metavar="COLUMN", help="column of row weights, such as survey weights")
    parser.add_argument(
        "--cluster", metavar="COLUMN", help="column of the person, where a person has several rows: they count as one"
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="also exit with 1 if the verdict is UNDECIDED (there are too few people to tell)",
    )
    parser.add_argument(
        "--level", type=float, default=0.95, help="confidence level of the intervals (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the draws behind noise floor and intervals (default: 0)"
    )
    parser.add_argument("--rows", type=int, default=10, metavar="N", help="number of gaps shown (default: %(default)s)")
    parser.add_argument(
        "--min-cell", type=int, default=10, metavar="N", help="do not show numbers about fewer people (default: 10)"
    )
    add_cluster(parser, "count")
    description = f"write every comparison to this table, those of few people too: {TABLES}"
    parser.add_argument("-o", "--output", metavar="OUT", help=description)
    add_pages(parser)


def _add_predict(commands: argparse._SubParsersAction) -> None:
    parser = command(commands, "predict", "predict the classes of the people in a table with a saved model")
    add_model(parser, folders=True)
    description = f"table with the predictions: {TABLES}; a folder, where FILE is one"
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help=description)
    parser.add_argument("--probabilities", action="store_true", help="also write the probability of each class")
    parser.add_argument("--only", action="store_true", help="write the predictions without the columns of FILE")
    add_cluster(parser, "predict; all machines share both folders")


def _add_explain(commands: argparse._SubParsersAction) -> None:
    parser = command(
        commands,
        "explain",
        "say why the people in a table get their predictions from a saved model",
        "For each person: the answer with and without constraints, which constraints moved it by how much, the draw if "
        "one decided, and the nearest tolerance that gives another answer. Give --key as in `optfair predict`: the "
        "draw is then the same.",
    )
    add_model(parser)
    parser.add_argument(
        "--rows", type=int, default=5, metavar="N", help="number of people shown, from the first on (default: 5)"
    )
    parser.add_argument(
        "--only",
        metavar="PERSON",
        action="append",
        help="explain these people only: values of --key, or without it numbers of rows of FILE, the first of which is "
        "1. Repeat the option or separate them by commas",
    )
    parser.add_argument("-o", "--output", metavar="OUT", help=f"write a line for every person explained: {TABLES}")
    parser.add_argument("--json", metavar="FILE", help="write all terms of every person explained as JSON")


def _add_report(commands: argparse._SubParsersAction) -> None:
    parser = command(
        commands,
        "report",
        "report what a saved model does to the people in a table, as a page to send",
        "The people must not be those the model was fitted on. The groups are read from the columns that the model was "
        "fitted with, unless --group names others for them, as many.",
    )
    add_model(parser)
    parser.add_argument(
        "--label", metavar="COLUMN", help="column of the true class; demographic parity and its ratio need none"
    )
    parser.add_argument("--weight", metavar="COLUMN", help="column of row weights, such as survey weights")
    parser.add_argument(
        "--cluster", metavar="COLUMN", help="column of the person, where a person has several rows: they count as one"
    )
    parser.add_argument(
        "--favourable",
        metavar="CLASS",
        action="append",
        help="answer for which the report has selection rates and impact ratios; repeat it",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="the report: a page (.html), Markdown (.md) or .json")


def _add_plan(commands: argparse._SubParsersAction) -> None:
    parser = command(
        commands,
        "plan",
        "say how many people an audit and a promise need",
        "Give numbers (--groups A=1200,B=300 --classes 5), or a table whose people are counted (FILE --group --label). "
        "Without numbers of people, shares such as A=0.8,B=0.2 do. Without true classes, dp can be planned: give "
        "the column of the decisions as --label, or their shares as --classes.",
    )
    add_table(parser, nargs="?")
    parser.add_argument("--groups", metavar="NAME=NUMBER,...", help="people, or shares, of each group")
    parser.add_argument(
        "--classes",
        metavar="N",
        help="number of classes, equally frequent, or their shares, the same in all groups: CLASS=SHARE,...",
    )
    parser.add_argument("--people", type=int, metavar="N", help="number of people there are, if --groups has shares")
    add_groups(parser, marginals=False)
    parser.add_argument(
        "--label", metavar="COLUMN", help="column of the true class; for demographic parity that of the decisions"
    )
    parser.add_argument(
        "--criterion",
        default=DEFAULT_CRITERION,
        metavar="NAME",
        help="dp, eop, eo, meo, oae or the long name (default: %(default)s)",
    )
    parser.add_argument("--tolerance", type=float, default=0.05, help="largest allowed gap (default: %(default)s)")
    add_reference(parser)
    parser.add_argument(
        "--confidence",
        type=float,
        default=0.95,
        help="probability that an audit that passes, or a promise, is right (default: %(default)s)",
    )
    parser.add_argument(
        "--power", type=float, default=0.8, help="probability that the audit passes (default: %(default)s)"
    )
    parser.add_argument(
        "--gap", type=float, default=0.0, help="true gap of the rule that is audited (default: %(default)s)"
    )
    parser.add_argument(
        "--rate",
        type=float,
        help="rate that is compared; 0.5 needs the most people (default: 0.5, for dp the shares of the classes)",
    )
    parser.add_argument(
        "--rows", type=int, default=10, metavar="N", help="number of cells shown (default: %(default)s)"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help=f"write every cell to this table: {TABLES}")
    parser.add_argument("--plot", metavar="PICTURE", help="draw people against tolerance (.png, .svg, .pdf)")


def _add_monitor(commands: argparse._SubParsersAction) -> None:
    parser = command(
        commands,
        "monitor",
        "count the people of a period, and look at the gaps between groups over time",
        "STATE holds counts, never rows of people, and is made by the first call, whose constraints stay. Limits hold "
        "at all looks together. The exit code is 1 if some gap surely exceeds its tolerance.",
    )
    parser.add_argument("state", metavar="STATE", help="file of the counts, for example state.json")
    add_table(parser)
    parser.add_argument("--prediction", required=True, metavar="COLUMN", help="column of the predicted class")
    parser.add_argument(
        "--label",
        metavar="COLUMN",
        help="column of the true class. It may come later: count the people under the same --period again",
    )
    parser.add_argument("--plain", metavar="COLUMN", help="column of the class that the model itself predicts")
    parser.add_argument("--period", metavar="NAME", help="name of the period (default: the name of FILE)")
    parser.add_argument(
        "--reset", action="store_true", help="begin anew with this period, for example after the rule was replaced"
    )
    add_groups(parser)
    add_constraint(parser)
    parser.set_defaults(tolerance=None, reference=None, attributes=None, missing=None)  # of the first call
    parser.add_argument(
        "--confidence", type=float, help="confidence that no flag of all looks is wrong (default: 0.95)"
    )
    parser.add_argument(
        "--require-certified", action="store_true", help="also exit with 1 unless every gap is surely within tolerance"
    )
    parser.add_argument("--rows", type=int, default=10, metavar="N", help="number of gaps shown (default: %(default)s)")
    parser.add_argument("-o", "--output", metavar="OUT", help=f"write every gap to this table: {TABLES}")


def _add_datasets(commands: argparse._SubParsersAction) -> None:
    parser = command(commands, "datasets", "list the data sets, where they are and how to get them")
    parser.add_argument("name", nargs="?", metavar="NAME", help="describe this data set")
    parser.add_argument("--download", action="store_true", help="download NAME if it is not here")
    parser.add_argument(
        "-o", "--output", metavar="OUT", help=f"write NAME as a table, downloaded if necessary: {TABLES}"
    )
    parser.add_argument("--test", metavar="OUT2", help="write a random 30 %% of the people to OUT2 instead of OUT")
