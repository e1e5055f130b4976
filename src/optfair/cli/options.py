"""Define the options that several commands share. Nothing heavy is imported here: ``optfair --help`` is quick."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence

EXIT_CODES = """\
exit codes: 0 success; 1 negative result (audit, monitor: a gap exceeds the tolerance; fit, frontier: no rule satisfies
the constraints, or can be promised); 2 invalid input; 3 internal error of optfair; 130 interrupted."""
TABLES = "CSV (.csv, .tsv, also .gz, .bz2, .xz) or Parquet (.parquet)"
DEFAULT_CRITERION = "demographic_parity"
MISSING_HELP = {
    "error": "an error",
    "group": "a group of their own",
    "drop": "left out (drop)",
    "infer": "unknown, which the result allows for (infer)",
}
RATIO_HELP = ", or ratio (the 80 %% rule: the share that gets an answer, against every other group)"
WIDTH = 115  # of the descriptions, as of the exit codes


def command(commands: argparse._SubParsersAction, name: str, summary: str, text: str = "") -> argparse.ArgumentParser:
    """Add a command to the parser, and return its own parser."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=textwrap.fill(f"{summary[0].upper()}{summary[1:]}. {text}".strip(), WIDTH),
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quiet", action="store_true", help="do not show how far long work has come")
    return parser


def add_training(parser: argparse.ArgumentParser, folders: bool = False) -> None:
    """Add what `fit` and `frontier` share. folders : see `add_table`."""
    add_table(parser, folders=folders)
    parser.add_argument("--label", required=True, metavar="COLUMN", help="column of the class to predict")
    add_groups(parser, missing=("error", "group", "infer"))
    add_constraint(parser)
    parser.add_argument(
        "--estimator",
        default="logistic",
        metavar="NAME",
        help="logistic, boosting, forest, mlp (needs torch), or a class such as sklearn.naive_bayes.GaussianNB "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--scores",
        metavar="COLUMN",
        action="append",
        help="columns of the probabilities that your own model gives to the classes, named as in `optfair audit`: they "
        "are made fair as they are, and --estimator is only asked what the groups are. These people should not be "
        "those that your model was fitted on",
    )
    parser.add_argument(
        "--drop", metavar="COLUMN", action="append", default=[], help="column that is not used as a feature"
    )
    parser.add_argument(
        "--category", metavar="COLUMN", action="append", default=[], help="column whose numbers are codes, not amounts"
    )
    parser.add_argument(
        "--weight", metavar="COLUMN", help="column of row weights; a whole number says how many people a row stands for"
    )
    parser.add_argument(
        "--cluster",
        metavar="COLUMN",
        help="column of the person, where a person has several rows: no fold and no test has a part of them. It is not "
        "used as a feature",
    )
    parser.add_argument("--aware", action="store_true", help="let predictions depend on the group")
    test = parser.add_mutually_exclusive_group()
    test.add_argument("--test", metavar="FILE", help="also measure the result on the people of this table")
    test.add_argument(
        "--test-size", type=float, metavar="SHARE", help="hold out this share of FILE and measure the result on it"
    )
    parser.add_argument(
        "--split-by",
        metavar="COLUMN[=VALUE]",
        help="test on whole values of this column, such as years or hospitals: a random --test-size of them, or VALUE. "
        "It is not used as a feature",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and the models (default: 0)")


def add_table(parser: argparse.ArgumentParser, nargs: str | None = None, folders: bool = False) -> None:
    """Add the table that a command reads, and how it is written. folders : whether it may be a folder."""
    folder = "; or a folder of Parquet files, which may be larger than memory" if folders else ""
    parser.add_argument("file", metavar="FILE", nargs=nargs, help=f"table: {TABLES}{folder}")
    add_csv(parser)


def add_csv(parser: argparse.ArgumentParser) -> None:
    """Add how a CSV file is written."""
    parser.add_argument("--encoding", default="utf-8", help="encoding of a CSV file (default: %(default)s)")
    parser.add_argument(
        "--separator", help="character between the cells of a CSV file (default: a comma, or a tab for .tsv)"
    )
    parser.add_argument("--decimal", default=".", help="decimal point in a CSV file (default: %(default)s)")
    parser.add_argument(
        "--na",
        metavar="VALUE",
        action="append",
        default=[],
        help="text that means missing in every column, such as '?'; repeat it for several",
    )


def add_cluster(parser: argparse.ArgumentParser, work: str) -> None:
    """Add the cluster that works on a folder of Parquet files. work : what it does."""
    description = f"for a folder: let the workers of this Dask scheduler {work}"
    parser.add_argument("--scheduler", metavar="ADDRESS", help=description)


def add_model(parser: argparse.ArgumentParser, folders: bool = False) -> None:
    """Add the model of `predict` and `explain`, the table of people, and who they are. folders : see `add_table`."""
    parser.add_argument("model", metavar="MODEL", help="file written by `optfair fit` or `.save()`")
    add_table(parser, folders=folders)
    add_people(parser)


def add_people(parser: argparse.ArgumentParser) -> None:
    """Add who the people of a table are to a model, and which types its file may hold."""
    parser.add_argument(
        "--group",
        metavar="COLUMN",
        action="append",
        help="column of the sensitive attribute, only for models fitted with --aware",
    )
    parser.add_argument(
        "--key",
        metavar="COLUMN",
        action="append",
        help="column that identifies a person; it fixes the random part of the predictions for that person",
    )
    add_trust(parser)


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add which types a model file may hold."""
    parser.add_argument(
        "--trust",
        metavar="TYPE",
        action="append",
        default=[],
        help="allow the model file to hold this further type; repeat it for several",
    )


def add_groups(
    parser: argparse.ArgumentParser, marginals: bool = True, missing: Sequence[str] = ("error", "group")
) -> None:
    """Add the columns of the groups. marginals : whether each attribute may be meant by itself.

    missing : what missing groups may be, of `MISSING_HELP`.
    """
    parser.add_argument(
        "--group",
        required=marginals,
        metavar="COLUMN",
        action="append",
        help="column of the sensitive attribute. Several columns form intersections: repeat the option or separate "
        "them by commas",
    )
    if marginals:
        parser.add_argument(
            "--attributes",
            choices=("intersections", "marginals", "both"),
            default="intersections",
            help="with several --group columns, compare their intersections, each column by itself, or both "
            "(default: intersections)",
        )
    parser.add_argument(
        "--missing",
        choices=missing,
        default="error",
        help=f"what missing groups are: {', '.join(MISSING_HELP[choice] for choice in missing)} (default: error)",
    )


def add_constraint(parser: argparse.ArgumentParser, ratio: bool = False) -> None:
    """Add what is compared, and how much the groups may differ. ratio : whether ratios may be asked for too."""
    parser.add_argument(
        "--criterion",
        action="append",
        metavar="NAME",
        help=f"dp, eop, eo, meo, oae or the long name{RATIO_HELP if ratio else ''}; repeat it for several at once "
        f"(default: {DEFAULT_CRITERION})",
    )
    if ratio:
        parser.add_argument(
            "--minimum", type=float, default=0.8, help="smallest allowed ratio of --criterion ratio (default: 0.8)"
        )
    parser.add_argument(
        "--tolerance", type=float, default=0.01, help="largest allowed gap of the criterion (default: 0.01)"
    )
    add_reference(parser)
    parser.add_argument(
        "--outcome", metavar="CLASS", action="append", help="only compare predictions of this class; repeat it"
    )


def add_reference(parser: argparse.ArgumentParser) -> None:
    """Add what a group is compared with."""
    parser.add_argument(
        "--reference",
        choices=("overall", "pairwise"),
        default="overall",
        help="compare each group with everybody, or every two groups with each other (default: overall)",
    )


def add_pages(parser: argparse.ArgumentParser, subject: str = "report") -> None:
    """Add the files that a report can be written to."""
    parser.add_argument("--html", metavar="FILE", help=f"write the {subject} as one page to send (needs jinja2)")
    parser.add_argument("--markdown", metavar="FILE", help=f"write the {subject} as Markdown")
    parser.add_argument("--json", metavar="FILE", help="write the numbers of the report as JSON")
