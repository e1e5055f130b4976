"""Define the arguments of the commands that bring a model into production. Nothing heavy is imported here."""

from __future__ import annotations

import argparse

from optfair.cli.options import add_csv, add_people, add_trust, command


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


def add_serve(commands: argparse._SubParsersAction) -> None:
    """Add ``optfair serve``."""
    parser = command(
        commands,
        "serve",
        "answer for a saved model over HTTP",
        "POST /predict and /explain take people as JSON; GET / shows what they read, /openapi.json tells programs, "
        "/health asks the model again, /metrics counts. SIGTERM or SIGINT stops it after the requests that were "
        "accepted, a second one at once. Bodies, keys and groups are neither kept nor logged. With --quiet, only "
        "failures are.",
    )
    parser.add_argument("model", metavar="MODEL", help="file written by `optfair fit` or `.save()`, with its key")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to answer at; 0.0.0.0 is every address of the machine (default: %(default)s, this machine only)",
    )
    parser.add_argument(
        "--port", type=int, default=8000, help="port to answer at; 0 takes one that is free (default: %(default)s)"
    )
    parser.add_argument(
        "--max-bytes", type=int, default=1_000_000, metavar="N", help="largest request (default: %(default)s)"
    )
    parser.add_argument(
        "--max-people", type=int, default=1_000, metavar="N", help="most people of a request (default: %(default)s)"
    )
    parser.add_argument("--no-explain", action="store_true", help="leave /explain out")
    parser.add_argument(
        "--grace",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="longest time from the signal to stop to the end (default: %(default)g)",
    )
    parser.add_argument(
        "--drain",
        type=float,
        metavar="SECONDS",
        help="of these, time in which new connections are still accepted and /health says 503, so that a load balancer "
        "notices; longer than the pause between two of its looks (default: 1, or a quarter of --grace)",
    )
    add_trust(parser)
    parser.set_defaults(output=None)  # it writes no file
