"""The reports that a script is given: files, folders and archives of them, as ``portkit merge`` takes them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from portkit.errors import ReportError
from portkit.store.sources import Sources, find

_OPEN: list[Sources] = []
"""What archives unpacked to lives as long as the script."""


def reports(paths: Iterable[Path]) -> list[Path]:
    """Every report once, in the order in which they were named; what of a folder is left out is told.

    Raises:
        ReportError: there is none at a path.
    """
    found: dict[Path, None] = {}
    for path in paths:
        sources = find([path])
        _OPEN.append(sources)
        for text in sorted(sources.left_out):
            print(f"warning: {text}", file=sys.stderr)
        found |= dict.fromkeys(sources.files)
    return list(found)


def report(path: Path) -> Path:
    """The one report at a path.

    Raises:
        ReportError: there is none, or more than one.
    """
    found = reports([path])
    if len(found) > 1:
        raise ReportError(
            f"holds {len(found)} reports, and one is compared", place=str(path), remedy="name one of the *.jsonl in it"
        )
    return found[0]
