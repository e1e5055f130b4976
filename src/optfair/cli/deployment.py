"""Define the arguments of the commands that bring a model into production. Nothing heavy is imported here."""

from __future__ import annotations

import argparse

from optfair.cli.options import add_csv, add_people, command


def add_export(commands: argparse._SubParsersAction) -> None:
    """Add ``optfair export``."""
    parser = command(
        commands,
        "export",
        "write a saved model for services without optfair: an ONNX graph, or JSON with scorers of one file",
        "The secret key of hashed decisions is in none of the files. With --check, answers of the exported model are "
        "compared with those of the saved one; the exit code is 1 if one differs.",
    )
    parser.add_argument("model", metavar="MODEL", help="file written by `optfair fit` or `.save()`")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="fair.onnx, a graph with the whole model; or fair.json, beside which optfair_score.py and "
        "optfair_score.mjs are written",
    )
    parser.add_argument("--check", dest="file", metavar="TABLE", help="compare answers for the people of this table")
    parser.add_argument(
        "--inputs",
        choices=("features", "posterior"),
        default="features",
        help="what a graph reads: the features, or P(A, Y | X) of models that are elsewhere (default: %(default)s)",
    )
    parser.add_argument("--opset", type=int, help="version of the ONNX operators (default: 19)")
    parser.add_argument(
        "--max-difference",
        type=float,
        metavar="D",
        help="largest difference to a probability of the model that is accepted (default: 1e-8)",
    )
    add_csv(parser)
    add_people(parser)
