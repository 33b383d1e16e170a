"""Whole cells for the page: fields in columns, since the cells of a kernel are much alike."""

from __future__ import annotations

import collections
import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from portkit.analysis.rows import ComparisonRow
from portkit.analysis.views.raw import Field
from portkit.render.cell import figures, sections
from portkit.store.merge import Row

Head = tuple[str, str, str]
"""Heading, path and unit of a field."""

ABSENT: Final = -1
"""Place of a value that a cell does not have."""


@dataclass(frozen=True)
class WholeCell:
    """One cell with all of its fields."""

    row: int  # among the rows of the page
    label: str
    values: Mapping[Head, str]  # as JSON; of what is unknown ``{"why": reason}``


def whole_cell(row: Row, shown: ComparisonRow, place: int) -> WholeCell:
    """A cell with every field of its record and counters, and what tables show of it.

    Args:
        row: of the dataset.
        shown: the same as the comparison shows it.
        place: of that among the comparison's rows.
    """
    found = ((title, each) for title, fields in (figures(shown), *sections(row)) for each in fields)
    values = {(title, each.path, each.unit): _json(each) for title, each in found}
    return WholeCell(place, row.record.cell.label(row.record.evidence), values)


def _json(each: Field) -> str:
    if each.value is None:
        return json.dumps({"why": each.reason})
    if isinstance(each.value, str):
        return _text_json(each.value)
    # A page has a million numbers, and the encoder takes as long for each as for a small object.
    return repr(each.value) if type(each.value) in _NUMBERS and math.isfinite(each.value) else json.dumps(each.value)


_NUMBERS: Final = (int, float)


@functools.lru_cache(maxsize=1 << 14)
def _text_json(value: str) -> str:
    return json.dumps(value)


@dataclass
class _Column:
    """Distinct values of a field, and which of them each cell has."""

    places: dict[str, int] = field(default_factory=dict)
    at: list[int] = field(default_factory=list)

    def put(self, cell: int, value: str) -> None:
        self.at += [ABSENT] * (cell - len(self.at))
        self.at.append(self.places.setdefault(value, len(self.places)))

    def coded(self, cells: int) -> dict[str, Any]:
        at = [*self.at, *[ABSENT] * (cells - len(self.at))]
        values = [json.loads(text) for text in self.places]
        return {"values": values} if not any(at) else {"values": values, "at": at}


class CellsOfPage:
    """The whole cells of one page."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._labels: list[str] = []
        self._columns: dict[Head, _Column] = {}
        self._order: list[Head] = []

    def new(self, cell: WholeCell) -> int:
        """Characters of values that no cell of the page has yet: what a cell adds to the page's size."""
        known = self._columns
        return sum(
            len(text) for head, text in cell.values.items() if head not in known or text not in known[head].places
        )

    def add(self, cell: WholeCell) -> None:
        """Take a cell in."""
        before: Head | None = None
        for head, text in cell.values.items():
            if head not in self._columns:
                self._columns[head] = _Column()
                self._order.insert(self._order.index(before) + 1 if before else 0, head)
            self._columns[head].put(len(self._rows), text)
            before = head
        self._rows.append(cell.row)
        self._labels.append(cell.label)

    def coded(self) -> dict[str, Any]:
        """All as plain values: sections with a column a field."""
        groups: dict[str, list[Head]] = collections.defaultdict(list)
        for head in self._order:
            groups[head[0]].append(head)
        parts = [self._section(title, heads) for title, heads in groups.items()]
        return {"rows": self._rows, "labels": self._labels, "sections": parts}

    def _section(self, title: str, heads: Sequence[Head]) -> dict[str, Any]:
        return {
            "title": title,
            "paths": [path for _, path, _ in heads],
            "units": [unit for *_, unit in heads],
            "columns": [self._columns[head].coded(len(self._rows)) for head in heads],
        }
