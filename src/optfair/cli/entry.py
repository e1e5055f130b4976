"""Start the command; an interruption ends it quietly, also while it is still being imported."""

import sys


def main() -> int:
    """Run `optfair.cli.main.main` on the arguments of the process and return its exit code."""
    try:
        from optfair.cli.main import main as run

        return run()
    except KeyboardInterrupt:  # before a command runs, which reports it by itself
        print("optfair: interrupted", file=sys.stderr)
        return 130
