"""Run timings by name: ``python -m experiments.timings [NAME ...] [--small] [--repeat 3]``."""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Sequence

SUCCESS, COULD_NOT_RUN, BAD_INPUT = 0, 1, 2
EXIT_CODES = "exit codes: 0 success; 1 a timing could not run, for want of data or packages; 2 bad input."
NAMES = {
    "solver": "optfair.solve beside HiGHS and the paper's proximal gradient (ACS needs $OPTFAIR_DATA; minutes)",
    "prediction": "predictions beside those of the base model, and commands that should be quick (a minute)",
    "baselines": "FairProjection and LinearPost beside their authors' solvers (minutes)",
    "adult_post": "OptFairPost beside the released code on Adult (minutes)",
    "adult_in": "OptFairIn beside the released schedule on Adult (minutes)",
    "warm_start": "rounds that OptFairIn saves by starting from post-processing (needs $OPTFAIR_DATA; an hour)",
    "closed": "what recalibration does to a fitted model beside fairness (needs $OPTFAIR_DATA; minutes)",
    "aware": "rules that know the group beside blind ones, on new people (needs $OPTFAIR_DATA; minutes)",
    "posterior": "joint beside factored posteriors, on new people (needs $OPTFAIR_DATA; a quarter of an hour)",
    "unknown": "rules where the groups of some people are unknown, inferred or left out, on new people (minutes)",
    "busy": "what OptFairPost.fit costs on idle and on busy cores, by number of threads (minutes)",
    "images": "OptFairIn with a ResNet on 10,000 images of CelebA (needs $OPTFAIR_DATA; minutes)",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the timings that were named, or all; return 1 if one of them could not run."""
    names = "\n".join(f"  {name:<11} {text}" for name, text in NAMES.items())
    parser = argparse.ArgumentParser(
        prog="python -m experiments.timings",
        description=f"Run timings by name (default: all):\n{names}",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the list above")
    small = "try the scripts: less data, one seed (adult_*), one epoch (images)"
    parser.add_argument("--small", action="store_true", help=small)
    repeat = "solver, prediction and baselines take the best of so many calls, busy the median (default: %(default)s)"
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help=repeat)
    arguments = parser.parse_args(argv)
    for name in arguments.names:
        if name not in NAMES:
            return _refuse(f"{name}: there is no such timing; there are {', '.join(NAMES)}.")
    if arguments.repeat < 1:
        return _refuse(f"--repeat {arguments.repeat}: must be at least 1.")
    code = SUCCESS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence of the base models
        for name in arguments.names or NAMES:
            print(f"\n== {name}: {NAMES[name]}", flush=True)
            try:
                timing = importlib.import_module(f"experiments.timings.{name}")
                timing.run(small=arguments.small, repeat=arguments.repeat)
            except (OSError, ImportError) as error:  # a file or a package is missing; the others may run
                print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr)
                code = COULD_NOT_RUN
    return code


def _refuse(message: str) -> int:
    print(f"timings: {message}", file=sys.stderr)
    return BAD_INPUT


if __name__ == "__main__":
    raise SystemExit(main())
