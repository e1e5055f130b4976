"""Run timings by name: ``python -m experiments.timings [NAME ...] [--small] [--repeat 3]``."""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings

from optfair.errors import DataFileError

NAMES = {
    "solver": "optfair.solve beside HiGHS and the paper's proximal gradient (minutes)",
    "baselines": "FairProjection and LinearPost beside their authors' solvers (minutes)",
    "adult_post": "OptFairPost beside the released code on Adult (minutes)",
    "adult_in": "OptFairIn beside the released schedule on Adult (minutes)",
    "warm_start": "rounds that OptFairIn saves by starting from post-processing (needs $OPTFAIR_DATA; an hour)",
    "images": "OptFairIn with a ResNet on 10,000 images of CelebA (needs $OPTFAIR_DATA; minutes)",
}


def main() -> int:
    """Run the timings that were named, or all."""
    names = "\n".join(f"  {name:<11} {text}" for name, text in NAMES.items())
    parser = argparse.ArgumentParser(
        prog="python -m experiments.timings",
        description=f"Run timings by name (default: all):\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the list above")
    parser.add_argument("--small", action="store_true", help="use a tenth of the rows, to try the scripts")
    parser.add_argument("--repeat", type=int, default=3, help="take the best of so many (default: %(default)s)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in NAMES]
    if unknown:
        parser.error(f"{unknown[0]}: there is no such timing; there are {', '.join(NAMES)}.")
    warnings.simplefilter("ignore")  # convergence of the base models
    for name in arguments.names or NAMES:
        print(f"\n== {name}: {NAMES[name]}", flush=True)
        try:
            importlib.import_module(f"experiments.timings.{name}").run(small=arguments.small, repeat=arguments.repeat)
        except (DataFileError, ImportError) as error:
            print(f"{name}: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
