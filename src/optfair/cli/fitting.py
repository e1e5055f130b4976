"""Define the arguments of the commands that fit rules. Nothing heavy is imported here."""

from __future__ import annotations

import argparse

from optfair.cli.options import (
    TABLES,
    add_cluster,
    add_pages,
    add_training,
    command,
)


def add_fit(commands: argparse._SubParsersAction) -> None:
    """Add ``optfair fit``."""
    parser = command(commands, "fit", "fit a fair classifier to a table and save it")
    add_training(parser, folders=True)
    parser.add_argument(
        "--method",
        choices=("post", "in"),
        default="post",
        help="post-processing or in-processing (default: %(default)s)",
    )
    parser.add_argument(
        "--confidence",
        type=float,
        metavar="LEVEL",
        help="promise the tolerance to new people with this probability, such as 0.95, or exit with 1 if that cannot "
        "be promised (default: the tolerance holds in expectation for the people fitted on)",
    )
    parser.add_argument(
        "--unpromised",
        choices=("error", "mix", "loosen"),
        default="error",
        help="if the tolerance cannot be promised: end with the reason, draw a share of the decisions from a constant, "
        "or loosen the tolerance (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="number of rounds of --method in (default: 50)")
    parser.add_argument(
        "--mixture",
        choices=("last_half", "all", "lp"),
        help="which rounds of --method in are mixed, and how (default: last_half)",
    )
    parser.add_argument(
        "--held-out",
        type=float,
        metavar="SHARE",
        help="share of the people that --method in sets aside to measure the constraints on (default: 0)",
    )
    parser.add_argument(
        "--no-path",
        action="store_true",
        help="do not solve for 20 other tolerances and save them with the model; `optfair explain` then cannot say at "
        "which tolerance an answer would be another",
    )
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="for a folder: people that are drawn to fit models on (default: 200,000); the rule is of everybody",
    )
    parser.add_argument(
        "--cache",
        metavar="DIR",
        help="for a folder: keep the probabilities of everybody here, so that the models are asked once",
    )
    add_cluster(parser, "ask the models and add up")
    parser.add_argument(
        "--decision",
        choices=("hashed", "argmax", "sampled"),
        help="how people at the border between two classes are decided: by a hash of their key, always for the "
        "likeliest class, or drawn anew each time (default: hashed)",
    )
    parser.add_argument(
        "--hashing",
        choices=("blake2b", "hmac-sha256"),
        help="of hashed decisions; hmac-sha256 is there in other languages and data bases too (default: blake2b)",
    )
    parser.add_argument(
        "--key-file",
        metavar="FILE",
        help="key of an earlier model, such as old.skops.key: people keep their draws (default: a new key)",
    )
    parser.add_argument("-o", "--output", metavar="MODEL", required=True, help="model file, for example model.skops")
    add_pages(parser)


def add_frontier(commands: argparse._SubParsersAction) -> None:
    """Add ``optfair frontier``."""
    parser = command(commands, "frontier", "show what fairness costs in accuracy, as a table and a picture")
    add_training(parser)
    parser.add_argument(
        "--points", type=int, default=20, metavar="N", help="number of tolerances (default: %(default)s)"
    )
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help=f"table of the frontier: {TABLES}")
    parser.add_argument("--plot", metavar="PICTURE", help="also draw a picture (.png, .svg, .pdf)")
    add_pages(parser, "report on the rule of --tolerance, with all others on a slider,")
