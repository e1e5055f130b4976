"""What can be said on the command line. Nothing heavy is imported here: ``optfair --help`` answers at once."""

from __future__ import annotations

import argparse

EXIT_CODES = """\
exit codes: 0 done; 1 the answer is no (audit: beyond tolerance; fit, frontier: no rule can satisfy the constraints);
2 bad input; 3 a fault of optfair itself; 130 interrupted."""
TABLES = "CSV (.csv, .tsv, also .gz, .bz2, .xz) or Parquet (.parquet)"


def make_parser() -> argparse.ArgumentParser:
    """The parser of ``optfair``; ``arguments.command`` names the module of `optfair.cli` that runs."""
    from optfair import __version__

    parser = argparse.ArgumentParser(
        prog="optfair",
        description="Classifiers with many classes, fair to many groups, at the least cost in accuracy, with proof.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"optfair {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for add in (_add_demo, _add_audit, _add_fit, _add_predict, _add_frontier, _add_datasets, _add_bench):
        add(commands)
    return parser


def _command(commands: argparse._SubParsersAction, name: str, summary: str, text: str = "") -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}. {text}".strip(),
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_demo(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "demo", "show the main job on data that come with the package (about a minute)")
    parser.add_argument("-o", "--output", metavar="DIR", default="optfair-demo", help="folder (default: %(default)s)")
    parser.add_argument(
        "--people", type=int, metavar="N", help="a random sample of so many, to be quicker (default: all)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the split, the models and the key (default: 0)")


def _add_audit(commands: argparse._SubParsersAction) -> None:
    parser = _command(
        commands,
        "audit",
        "measure the gaps between groups of the answers in a table",
        "The people must not\nbe those the model was fitted on. Each gap comes with its interval and noise floor. Exit "
        "1 if the\nsimultaneous lower bound of some gap is beyond the tolerance.",
    )
    _add_table(parser)
    parser.add_argument("--label", required=True, metavar="COLUMN", help="the true class")
    answers = parser.add_mutually_exclusive_group(required=True)
    answers.add_argument("--prediction", metavar="COLUMN", help="the class answered")
    answers.add_argument(
        "--scores",
        metavar="COLUMN",
        action="append",
        help="a probability per class: columns called as the classes, with one prefix or none, or CLASS=COLUMN; "
        "repeat it or separate by commas",
    )
    parser.add_argument(
        "--decision",
        choices=("argmax", "sampled"),
        default="argmax",
        help="what --scores stand for: the likeliest class is answered, or one drawn with these probabilities "
        "(default: %(default)s)",
    )
    _add_groups(parser)
    _add_wish(parser, "dp", several=True)
    parser.add_argument("--weight", metavar="COLUMN", help="weight of each row, such as that of a survey")
    parser.add_argument("--strict", action="store_true", help="exit 1 unless every gap is surely within the tolerance")
    parser.add_argument("--level", type=float, default=0.95, help="of the intervals (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the replicates behind the intervals (default: 0)")
    parser.add_argument("--rows", type=int, default=10, metavar="N", help="gaps shown (default: %(default)s)")
    parser.add_argument("-o", "--output", metavar="OUT", help=f"write every gap to a table: {TABLES}")


def _add_fit(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "fit", "fit a fair classifier to a table and save it")
    _add_training(parser)
    parser.add_argument("--method", choices=("post", "in"), default="post", help="post- or in-processing (post)")
    parser.add_argument("--rounds", type=int, metavar="N", help="of --method in (default: 50)")
    parser.add_argument(
        "--mixture", choices=("last_half", "all", "lp"), help="of the rounds of --method in (last_half)"
    )
    parser.add_argument("--held-out", type=float, metavar="SHARE", help="of those --method in measures on (default: 0)")
    parser.add_argument("-o", "--output", metavar="MODEL", required=True, help="file of the model, e.g. model.skops")


def _add_predict(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "predict", "answer the people in a table with a saved model")
    parser.add_argument("model", metavar="MODEL", help="written by `optfair fit` or `.save()`")
    _add_table(parser)
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help=f"table with the answers: {TABLES}")
    parser.add_argument("--group", metavar="COLUMN", action="append", help="only for models that are aware of groups")
    parser.add_argument("--key", metavar="COLUMN", action="append", help="who a person is, for answers that repeat")
    parser.add_argument("--probabilities", action="store_true", help="also the probability of each answer")
    parser.add_argument("--only", action="store_true", help="write the answers without the columns of FILE")
    parser.add_argument(
        "--trust", metavar="TYPE", action="append", default=[], help="a further type the model file may hold; repeat it"
    )


def _add_frontier(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "frontier", "trade accuracy against fairness: a table and a picture of the frontier")
    _add_training(parser)
    parser.add_argument("--points", type=int, default=20, metavar="N", help="tolerances (default: %(default)s)")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help=f"table of the frontier: {TABLES}")
    parser.add_argument("--plot", metavar="PICTURE", help="also a picture (.png, .svg, .pdf)")


def _add_datasets(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "datasets", "list the data sets: what there is, where it is, how to get it")
    parser.add_argument("name", nargs="?", metavar="NAME", help="describe this one")
    parser.add_argument("--download", action="store_true", help="get NAME if it is not here")
    parser.add_argument("-o", "--output", metavar="OUT", help=f"write NAME as a table (got if need be): {TABLES}")
    parser.add_argument("--test", metavar="OUT2", help="where a random 30 %% of the people go instead")


def _add_bench(commands: argparse._SubParsersAction) -> None:
    parser = _command(
        commands,
        "bench",
        "run the experiments of the paper and write the page of their results",
        "What is finished is\nkept: started again, it goes on where it was stopped.",
    )
    names = "frontiers, ablation, randomised, scalability, tolerance, calibration, truth, seconds"
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=f"of {names} (default: all)")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the lines of finished runs, *.jsonl")
    parser.add_argument("--page", metavar="FILE", help="where the page goes (default: DIR/results.md)")
    parser.add_argument("--only-page", action="store_true", help="run nothing: the page, from lines that are all there")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: %(default)s)")
    parser.add_argument("--smoke", action="store_true", help="everything tiny: minutes, and numbers that mean nothing")
    parser.add_argument(
        "--data", metavar="NAME", action="append", help="only on these people: adult, enem, …; repeat it"
    )
    limit = "of one run, which is stopped then and told as not finished (default: %(default)s)"
    parser.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help=limit)


def _add_training(parser: argparse.ArgumentParser) -> None:
    """What `fit` and `frontier` share."""
    _add_table(parser)
    parser.add_argument("--label", required=True, metavar="COLUMN", help="the class to predict")
    _add_groups(parser)
    _add_wish(parser, "demographic_parity", several=True)
    parser.add_argument(
        "--estimator",
        default="logistic",
        metavar="NAME",
        help="logistic, boosting, forest, mlp (needs torch), or a class such as sklearn.naive_bayes.GaussianNB "
        "(default: %(default)s)",
    )
    parser.add_argument("--drop", metavar="COLUMN", action="append", default=[], help="leave out of the features")
    parser.add_argument(
        "--category", metavar="COLUMN", action="append", default=[], help="its numbers are names (codes), not amounts"
    )
    parser.add_argument("--weight", metavar="COLUMN", help="weight of each row; whole numbers count people")
    parser.add_argument("--aware", action="store_true", help="use the group at prediction too")
    test = parser.add_mutually_exclusive_group()
    test.add_argument("--test", metavar="FILE", help="judge on these people")
    test.add_argument("--test-size", type=float, metavar="SHARE", help="judge on this share of FILE, not fitted on")
    parser.add_argument("--seed", type=int, default=0, help="of the split and the models (default: 0)")


def _add_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help=f"{TABLES}")
    parser.add_argument("--encoding", default="utf-8", help="of a CSV file (default: %(default)s)")
    parser.add_argument("--separator", help="of a CSV file (default: a comma; a tab for .tsv)")
    parser.add_argument("--decimal", default=".", help="point of the numbers in a CSV file (default: %(default)s)")


def _add_groups(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--group",
        required=True,
        metavar="COLUMN",
        action="append",
        help="the sensitive attribute; several make intersections: repeat it or separate by commas",
    )
    parser.add_argument(
        "--attributes",
        choices=("intersections", "marginals", "both"),
        default="intersections",
        help="of several groups (default: %(default)s)",
    )
    parser.add_argument(
        "--missing", choices=("error", "group"), default="error", help="a missing group is ... (default: %(default)s)"
    )


def _add_wish(parser: argparse.ArgumentParser, criterion: str, several: bool) -> None:
    more = "; repeat it for several at once" if several else ""
    parser.add_argument(
        "--criterion",
        action="append",
        metavar="NAME",
        help=f"dp, eop, eo, meo, oae or the long name{more} (default: {criterion})",
    )
    parser.add_argument(
        "--tolerance", type=float, default=0.01, help="bounds every gap of the criterion (default: %(default)s)"
    )
    parser.add_argument(
        "--reference",
        choices=("overall", "pairwise"),
        default="overall",
        help="a gap is group against everybody, or between every two groups (default: %(default)s)",
    )
    parser.add_argument("--outcome", metavar="CLASS", action="append", help="only gaps in this answer; repeat it")
