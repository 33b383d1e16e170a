"""The command that goes on with a run which was cut short."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

OPTION = "--portkit-resume"


def resume_command(arguments: Iterable[str], run_id: str) -> str:
    """The call of pytest that the run had, since the same cells must be chosen and the same folder named.

    Args:
        arguments: what pytest was called with.
        run_id: of the run.
    """
    given = [*_without_resume(arguments)]
    asked = [] if "--benchmark" in given else ["--benchmark"]
    end = given.index("--") if "--" in given else len(given)  # of options: what follows are paths
    return shlex.join(["pytest", *asked, *given[:end], OPTION, run_id, *given[end:]])


def _without_resume(arguments: Iterable[str]) -> Iterator[str]:
    """All but the option and its value, which may be left out or joined by ``=``."""
    before = ""
    for argument in arguments:
        is_value = before == OPTION and not argument.startswith("-")
        if not is_value and argument.split("=")[0] != OPTION:
            yield argument
        before = argument
