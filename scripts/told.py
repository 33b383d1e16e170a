"""What is wrong with a script's input is told in one sentence: no traceback, and exit code 2."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

from portkit.errors import PortkitError

WRONG_INPUT = 2


def told(main: Callable[[], int]) -> int:
    """Exit code of a script's main function; 2 where it was given what can't be read or written."""
    try:
        return main()
    except PortkitError as error:
        print(f"error: {error.render()}", file=sys.stderr)
    except OSError as error:
        if error.filename is None:  # of none of the files that were named
            raise
        print(f"error: {error.filename}: {error.strerror}\n  remedy: check the path", file=sys.stderr)
    return WRONG_INPUT


def seconds(text: str) -> float:
    """A limit of time, as ``argparse`` takes a type.

    Raises:
        argparse.ArgumentTypeError: the text is no finite number above 0.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0; write one, as 60")
    return value


def output(text: str) -> Path:
    """A file to write, as ``argparse`` takes a type; so what can't be written is told before the work, not after it.

    Raises:
        argparse.ArgumentTypeError: its folder is not there, or it is a folder itself.
    """
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"no folder {path.parent} is here for {path.name}; make it first")
    return path
