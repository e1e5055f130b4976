"""Run ``python -m experiments``."""

from experiments.command import main

if __name__ == "__main__":  # workers import this module too
    raise SystemExit(main())
