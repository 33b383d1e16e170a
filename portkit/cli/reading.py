"""Reports as commands read them: with a word where that takes long."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from portkit.cli.waiting import said_while
from portkit.store.merge import Dataset, merge


def read_reports(paths: Sequence[Path], triton: str | None = None) -> Dataset:
    """Merge reports.

    Raises:
        ReportError: as :func:`portkit.store.merge.merge`.
    """
    with said_while(under_way("reading reports")):
        return merge(paths, triton)


def under_way(what: str) -> str:
    """What the present command is at, with its name.

    >>> under_way("drawing")
    'portkit: drawing'
    """
    context = click.get_current_context(silent=True)
    return f"{context.command_path if context else 'portkit'}: {what}"
