"""Programs of the system, and waiting for what they do."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable


def search_path() -> str:
    """Where daemons are, too."""
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def absent(programs: Iterable[str], packages: str) -> str | None:
    """Which of some programs are not installed; None where all are."""
    names = [name for name in programs if shutil.which(name, path=search_path()) is None]
    return f"{', '.join(names)} not installed ({packages})" if names else None


def until(condition: Callable[[], object], seconds: float = 20, why: Callable[[], str] = str) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(why())
        time.sleep(0.05)
