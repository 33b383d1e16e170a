"""Where pytest shows how a run gets on: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

import pytest
from rich.console import Console

from portkit.run.progress import LiveLine, PlainLines


def make_display(config: pytest.Config) -> LiveLine | PlainLines | None:
    """What suits where pytest writes; nothing with ``-q`` or ``-p no:terminal``.

    With ``-v`` pytest names each cell itself, so that a line now and then is enough.
    """
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or config.option.verbose < 0:
        return None
    if reporter.isatty and config.option.verbose == 0 and not os.environ.get("CI"):
        reporter.showfspath = False  # its line is ours
        # A copy of the descriptor: while a cell runs, pytest captures the original.
        console = Console(file=os.fdopen(os.dup(1), "w", encoding="utf-8"), force_terminal=True)
        return LiveLine(console)
    return PlainLines(lambda text: _write(config, reporter, f"portkit: {text}"))


def _write(config: pytest.Config, reporter: Any, text: str) -> None:
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        reporter.ensure_newline()
        reporter.write_line(text)
