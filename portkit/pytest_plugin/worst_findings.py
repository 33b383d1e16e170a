"""The gravest findings of a run, for the end of pytest's output."""

from __future__ import annotations

import collections
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from portkit.errors import PortkitError
from portkit.model import Header, Record
from portkit.run.progress import failed

if TYPE_CHECKING:
    from portkit.analysis.findings.summary import Alike
    from portkit.store.merge import Dataset

SHOWN: Final = 3

MOST_AT_ONCE: Final = 4000
"""Cells of a run that was stopped whose findings are looked for: about a second, for a stop is to be quick."""


def worst_findings(
    report: Path, header: Header, records: Collection[Record], shown_as: Path, *, whole: bool
) -> Iterator[str]:
    """Lines of the gravest findings of a run; none where it has none, or its report can't be read.

    A run that came to its end is looked at wholly, however large: that takes a share of a thousandth of the
    time that its cells took. Of a large one that was stopped, :data:`MOST_AT_ONCE` cells are looked at, those of
    operations that failed somewhere first, and a line says so.

    Args:
        report: that the run wrote.
        header: of it.
        records: of it.
        shown_as: its path as the user would write it.
        whole: whether the run came to its end.
    """
    part = [] if whole else _worst_operations(records)
    try:
        found = _found(_of_records(report, header, part) if part else _of_report(report))
    except PortkitError:  # a report without an end, as after a full disk
        return
    yield from _told(found, shown_as)
    if part and found:
        yield f"          looked for in {len(part)} of {len(records)} cells, since the run was stopped"


def _found(dataset: Dataset) -> Sequence[Alike]:
    from portkit.analysis.findings import findings  # noqa: PLC0415 (rules and catalogue: only once a run has ended)
    from portkit.analysis.findings.summary import alike  # noqa: PLC0415

    return alike(findings(dataset))


def _told(found: Sequence[Alike], shown_as: Path) -> Iterator[str]:
    from portkit.analysis.findings.summary import top  # noqa: PLC0415

    told, more = top(found, SHOWN)
    for number, group in enumerate(told):
        first = group.first
        others = f" and {group.others} more" if group.others else ""
        head = "         " if number else "findings:"
        yield f"{head} {first.rule} {first.severity} {first.title}: {first.operation}{others}"
    if more:
        yield f"          and {more} more: portkit findings {shlex.quote(str(shown_as))}"


def _of_report(report: Path) -> Dataset:
    from portkit.store.merge import merge  # noqa: PLC0415

    return merge([report], stand_ins=True)


def _of_records(report: Path, header: Header, records: Iterable[Record]) -> Dataset:
    """Records as they are in memory; counters and probes of the device are in the report alone."""
    from portkit.store.merge import Dataset, Row  # noqa: PLC0415

    rows = tuple(Row(record, (), older_source=False) for record in records)
    return Dataset((header,), rows, (), {}, {header.run_id: str(report)})


def _worst_operations(records: Collection[Record]) -> list[Record]:
    """Records of whole operations while there is room, those with a cell that failed first; none if all have room."""
    if len(records) <= MOST_AT_ONCE:
        return []
    operations: dict[tuple[object, ...], list[Record]] = collections.defaultdict(list)
    for record in records:
        cell = record.cell
        operations[cell.case, cell.direction, cell.shape, cell.dtype].append(record)
    kept: list[Record] = []
    for group in sorted(operations.values(), key=lambda group: not failed(group)):
        if len(kept) + len(group) > MOST_AT_ONCE:
            break
        kept += group
    return kept
