"""The gravest findings of a run, for the end of pytest's output."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from portkit.errors import PortkitError

SHOWN: Final = 3

MOST_CELLS: Final = 2000
"""Cells of a run whose findings are looked for at its end: those of more take seconds."""


def worst_findings(report: Path, cells: int, shown_as: Path) -> Iterator[str]:
    """Lines of the gravest findings of a report; none where it has none, or can't be read.

    Args:
        report: that the run wrote.
        cells: how many it has.
        shown_as: its path as the user would write it.
    """
    if cells > MOST_CELLS:
        return
    from portkit.analysis.findings import findings  # noqa: PLC0415 (rules and catalogue: only once a run has ended)
    from portkit.analysis.findings.summary import alike, top  # noqa: PLC0415
    from portkit.store.merge import merge  # noqa: PLC0415

    try:
        found = alike(findings(merge([report], stand_ins=True)))
    except PortkitError:  # a report without an end, as after a full disk
        return
    told, more = top(found, SHOWN)
    for number, group in enumerate(told):
        first = group.first
        others = f" and {group.others} more" if group.others else ""
        head = "         " if number else "findings:"
        yield f"{head} {first.rule} {first.severity} {first.title}: {first.operation}{others}"
    if more:
        yield f"          and {more} more: portkit findings {shlex.quote(str(shown_as))}"
