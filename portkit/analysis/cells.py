"""One cell of merged reports by what a user calls it, and all that is known of it."""

from __future__ import annotations

import collections
import difflib
import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from portkit.analysis.findings import Finding, findings
from portkit.analysis.rows import ComparisonRow, comparison_row
from portkit.errors import ReportError
from portkit.model import DeviceProbe, Evidence, Header, Record
from portkit.store.merge import Dataset, Row
from portkit.targets.catalog import load_catalog

NAMED: Final = 8
"""Cells that an error names."""

GO_ON: Final = "name others, or go on with their run"
"""What to do about reports without a row."""


@dataclass(frozen=True)
class CellView:
    """All that is known of one cell and evidence."""

    row: Row
    figures: ComparisonRow
    header: Header  # of its run
    probe: DeviceProbe | None  # of the device that measured it
    findings: tuple[Finding, ...]  # that are about it

    @property
    def record(self) -> Record:
        """The record shown."""
        return self.row.record


def label_of(row: Row) -> str:
    """A row's name: ``softmax[h200-4096x4096-float32-w8-measured]``."""
    return row.record.cell.label(row.record.evidence)


def find_cells(rows: Sequence[Row], name: str) -> list[Row]:
    """The rows of the one cell that a name means, the strongest evidence first.

    Args:
        rows: of a dataset.
        name: the label that pytest and tables show, the cell's key, how either begins, a pattern as
            in a shell, or words that the label has.

    Raises:
        ReportError: no cell has that name, or several have; the nearest are named. Or there are no rows.
    """
    if not rows:
        raise ReportError(f"no cell {name!r}: the reports have no rows", remedy=GO_ON)
    for test in _tests(name):
        if found := [row for row in rows if test(row)]:
            return _one_cell(found, name)
    labels = list(dict.fromkeys(map(label_of, rows)))
    near = _nearest(name, labels)
    remedy = "did you mean one of these?" if near else "the first ones are:"
    raise ReportError(f"no cell {name!r}", remedy="\n    ".join([remedy, *(near or labels[:NAMED])]))


def _nearest(name: str, labels: Sequence[str]) -> list[str]:
    """Labels that begin most like a name: what is typed is seldom a whole one."""
    begins: dict[str, list[str]] = collections.defaultdict(list)
    for label in labels:
        begins[label[: len(name) + 1]].append(label)  # a letter may be left out
    close = difflib.get_close_matches(name, begins, n=NAMED, cutoff=0.5)
    return [label for begin in close for label in begins[begin]][:NAMED]


def _tests(name: str) -> Iterator[Callable[[Row], bool]]:
    """Ways to mean a row, the strictest first; those that no name could meet are left out."""
    key = name.lower()
    yield lambda row: label_of(row) == name
    yield lambda row: row.record.keys.cell_key == key
    if _KEY.fullmatch(key):
        yield lambda row: row.record.keys.cell_key.startswith(key)
    yield lambda row: label_of(row).startswith(name)
    yield lambda row: fnmatch.fnmatchcase(label_of(row), name)
    if words := re.split(r"[\s\[\]]+", name.strip()):
        yield lambda row: all(word in _words(row) for word in words if word)


_KEY: Final = re.compile(r"[0-9a-f]{4,16}")


def _words(row: Row) -> set[str]:
    cell = row.record.cell
    named = (cell.case, cell.target, cell.shape_text, cell.dtype, cell.variant, cell.direction, row.record.evidence)
    return {str(each) for each in named}


def _one_cell(found: Sequence[Row], name: str) -> list[Row]:
    count = len({row.record.keys.cell_key for row in found})
    if count > 1:
        labels = sorted(label_of(row) for row in found)
        more = [f"and {len(labels) - NAMED} more"] if len(labels) > NAMED else []
        raise ReportError(
            f"{count} cells are meant by {name!r}",
            remedy="\n    ".join(["name one of them:", *labels[:NAMED], *more]),
        )
    return sorted(found, key=lambda row: list(Evidence).index(row.record.evidence))


def cell_views(dataset: Dataset, rows: Iterable[Row]) -> list[CellView]:
    """All that is known of some rows of a dataset."""
    catalog = load_catalog()
    known = {target.name: target for target in catalog}
    headers = {header.run_id: header for header in dataset.headers}
    every = findings(dataset, catalog=catalog)
    return [
        CellView(
            row=row,
            figures=comparison_row(row, dataset.probes, known.get(row.record.cell.target)),
            header=headers[row.record.run_id],
            probe=_probe(dataset, row.record),
            findings=tuple(found for found in every if _is_about(found, row)),
        )
        for row in rows
    ]


def _probe(dataset: Dataset, record: Record) -> DeviceProbe | None:
    mine = (each for each in dataset.probes if (each.run_id, each.device_id) == (record.run_id, record.device_id))
    return next(mine, None)


def _is_about(found: Finding, row: Row) -> bool:
    """Whether a finding names the cell, as one where it holds or as one that it is held against."""
    cell = row.record.cell
    same = (cell.case, cell.direction, cell.shape, cell.dtype)
    return (
        same == (found.kernel, found.direction, found.shape, found.dtype)
        and found.variant in (None, cell.variant)
        and cell.target in (*found.targets, *found.against)
    )
