"""``python -m optfair`` is the command ``optfair``."""

import sys

from optfair.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
