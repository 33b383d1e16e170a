"""Says what a command is at, where that takes longer than a person waits without a word."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Final

import click

FIRST_SECONDS: Final = 2.0
"""Before the first word."""

NEXT_SECONDS: Final = 5.0
"""Between two words."""


@contextlib.contextmanager
def said_while(text: str) -> Iterator[None]:
    """Tell a terminal, on standard error, what is under way and for how long, now and then until the block ends."""
    if not _is_watched():
        yield
        return
    began, over = time.monotonic(), threading.Event()

    def tell() -> None:
        pause = FIRST_SECONDS
        while not over.wait(pause):
            click.echo(f"{text}, {time.monotonic() - began:.0f} s", err=True)
            pause = NEXT_SECONDS

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _is_watched() -> bool:
    """Whether somebody reads along: a file or a pipe gets what a command has to say, and no more."""
    return sys.stderr.isatty()
