"""Run ``optfair serve``: answer for a saved model over HTTP."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from pathlib import Path

from optfair.cli.model_tables import load_fair_model
from optfair.cli.paths import InputError
from optfair.errors import need_extra
from optfair.utils.archives import need_skops
from optfair.utils.progress import stage

MAX_PORT = 65_535
SMALLEST_BODY = 1_000  # bytes: a person with a dozen features


def run(arguments: Namespace) -> int:
    """Check, load, answer until a signal comes."""
    check_options(arguments)
    for module in ("starlette", "uvicorn", "prometheus_client"):
        need_extra(module, "optfair serve")
    from optfair.serving import ServiceSettings, bind, run_service

    with bind(arguments.host, arguments.port) as sock:  # before long work, and not yet listening
        with stage("loading skops"):
            need_skops("optfair serve")
        digest = hashlib.sha256(Path(arguments.model).read_bytes()).hexdigest()
        model = load_fair_model(arguments.model, arguments.trust)
        settings = ServiceSettings(
            max_bytes=arguments.max_bytes,
            max_people=arguments.max_people,
            explains=not arguments.no_explain,
            grace=arguments.grace,
            drain=arguments.drain,
            is_quiet=arguments.quiet,
            digest=digest,
        )
        return run_service(model, sock, settings)


def check_options(arguments: Namespace) -> None:
    """Check the numbers."""
    if not 0 <= arguments.port <= MAX_PORT:
        raise InputError(f"--port {arguments.port}: must be from 0 (any that is free) to {MAX_PORT}.")
    if arguments.max_bytes < SMALLEST_BODY:
        raise InputError(f"--max-bytes {arguments.max_bytes}: must be at least {SMALLEST_BODY}.")
    if arguments.max_people < 1:
        raise InputError(f"--max-people {arguments.max_people}: must be at least 1.")
    if not 0 <= arguments.grace < float("inf"):
        raise InputError(f"--grace {arguments.grace:g}: must be a number of seconds from 0.")
    if arguments.drain is not None and not 0 <= arguments.drain < arguments.grace:
        raise InputError(f"--drain {arguments.drain:g}: must be from 0 to below --grace {arguments.grace:g}.")
