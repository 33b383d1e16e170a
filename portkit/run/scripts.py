"""Runs a user's script within this process."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path


def run_script(command: Sequence[str]) -> None:
    """Run a script as ``python SCRIPT …`` would; one that ends itself well, by ``sys.exit(0)``, has run.

    Args:
        command: its path and its own arguments, which stay in ``sys.argv``.
    """
    sys.argv = list(command)
    folder = str(Path(command[0]).resolve().parent)
    if sys.path[0] != folder:
        sys.path.insert(0, folder)
    try:
        runpy.run_path(command[0], run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
