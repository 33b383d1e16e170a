"""``portkit`` and ``python -m portkit``."""

import sys

from portkit.cli import main


def run() -> None:
    """Entry point of the console script."""
    sys.exit(main())


if __name__ == "__main__":
    run()
