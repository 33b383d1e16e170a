"""What the page's scripts work on: rows by column, findings, and a chunk a kernel with plots and raw cells.

A chunk is JSON, compressed with gzip and written in base64, so that a page stays small and no text of
a report can end the element that holds it. The chunk of a kernel is unpacked when its page is opened.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import gzip
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from portkit.analysis.findings.summary import Alike, alike
from portkit.analysis.row_figures import BY_EVIDENCE
from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.analysis.views.excerpts import Excerpts
from portkit.analysis.views.heat import METRICS
from portkit.analysis.views.kernels import KernelSummary, page_of
from portkit.analysis.views.operations import operation_of
from portkit.analysis.views.standing import Standing
from portkit.analysis.views.targets import targets
from portkit.analysis.views.whole_cells import whole_cells
from portkit.model import Direction, Evidence
from portkit.render.html.cells import CellsOfPage, whole_cell
from portkit.render.html.columns import COLUMNS, Column
from portkit.render.html.sections import SIGNS, why
from portkit.render.plots.heat import MARKS
from portkit.render.plots.kinds import KINDS, Kind, plots
from portkit.render.plots.plot import Plot
from portkit.render.plots.style import DARK, LIGHT
from portkit.render.table import EVIDENCE_MEANS
from portkit.store.merge import Dataset, Row
from portkit.store.schema import plain

MOST_WHOLE: Final = 6 << 20
"""Characters of whole cells that a page holds, those counted once that several cells of a kernel have alike."""

MOST_EXCERPTS: Final = 4 << 20
"""Characters of IR excerpts, likewise."""

DIGITS: Final = 6
"""Significant digits of figures in plots and tables; raw cells have all."""


def packed(value: Any) -> str:
    """A chunk: the same text for the same value."""
    try:
        text = _compact(value)
    except (TypeError, ValueError):  # mappings that are no dict; numbers that JSON has not
        text = _compact(_finite(value))
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode()


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _finite(value: Any) -> Any:
    """Plain values with words for numbers that JSON has not."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def main_chunk(comparison: Comparison, summaries: Sequence[KernelSummary]) -> dict[str, Any]:
    """What every view needs."""
    return {
        "columns": [_column(column) for column in COLUMNS],
        "rows": _rows(comparison.rows),
        "targets": [plain(target) for target in targets(comparison)],
        "metrics": [plain(metric) for metric in METRICS],
        "standings": [each.value for each in Standing],
        "evidence": {each.value: {"mark": MARKS[each.value], "means": EVIDENCE_MEANS[each]} for each in Evidence},
        "kernels": [_kernel(each) for each in summaries],
        "findings": [_finding(group) for group in alike(comparison.findings)],
        "kinds": {name: _kind(kind) for name, kind in KINDS.items() if kind.in_page},
        "styles": {"light": LIGHT | {"background": None}, "dark": DARK | {"background": None}},
    }


def _kind(kind: Kind) -> dict[str, Any]:
    return {"spec": kind.spec, "targets": kind.targets, "runs": kind.runs}


def kernel_chunks(
    comparison: Comparison, dataset: Dataset, summaries: Sequence[KernelSummary], nights: Iterable[Plot] = ()
) -> tuple[dict[str, Any], ...]:
    """One chunk a kernel in the order of the summaries, and a last one of what is about all kernels.

    Args:
        comparison: what is shown.
        dataset: the merged reports that it was made from.
        summaries: of its kernels.
        nights: plots of what one merge does not know: figures over earlier nights.
    """
    drawn = collections.defaultdict(list)
    for plot in itertools.chain(plots(comparison, dataset, in_page=True), nights):
        drawn[plot.page].append(_plot(plot))
    cells, left_out = _whole_cells(comparison, dataset)
    excerpts = _excerpts(comparison, dataset)
    pages: list[str | None] = [*(each.page for each in summaries), None]
    return tuple(
        {
            "plots": drawn[page],
            "cells": cells[page].coded(),
            "cells_left_out": left_out.get(page, 0),
            "excerpts": excerpts.get(page, {}),
        }
        for page in pages
    )


def _column(column: Column) -> dict[str, Any]:
    return {name: getattr(column, name) for name in ("name", "title", "unit", "number", "shown", "means")}


def _rows(rows: Sequence[ComparisonRow]) -> dict[str, Any]:
    """Values by column; texts by their place in a list, reasons of unknown figures by pattern."""
    reasons, patterns = _Places(), _Places()
    unknown = [patterns.of(_unknown(row, reasons)) for row in rows]
    return {
        "count": len(rows),
        "values": {column.name: _values(column, rows) for column in COLUMNS},
        "expected": [int(row.expected and not row.status.good) for row in rows],
        "older": [int(row.older_source) for row in rows],
        "ranges": {place: found for place, row in enumerate(rows) if (found := _ranges(row))},
        "unknown": unknown,
        "patterns": [dict(pattern) for pattern in patterns.all],
        "reasons": reasons.all,
        "told": sorted(BY_EVIDENCE),
    }


def _ranges(row: ComparisonRow) -> dict[str, list[float]]:
    """Lowest and highest of a figure over the configurations that an autotuner chooses among, where they differ."""
    return {name: [short(end) for end in ends] for name, ends in row.ranges.items() if ends[0] != ends[1]}


class _Places:
    """Distinct values and where each stands."""

    def __init__(self) -> None:
        self._places: dict[Any, int] = {}

    def of(self, value: Any) -> int:
        return self._places.setdefault(value, len(self._places))

    @property
    def all(self) -> list[Any]:
        return list(self._places)


def _values(column: Column, rows: Sequence[ComparisonRow]) -> Any:
    values = [column.value(row) for row in rows]
    if column.number:
        return [None if value is None else short(value * column.scale) for value in values]
    places = _Places()
    at = [-1 if value is None else places.of(value) for value in values]
    return {"texts": places.all, "at": at}


def short(value: float) -> float:
    """A number to :data:`DIGITS`."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _unknown(row: ComparisonRow, reasons: _Places) -> tuple[tuple[str, int], ...]:
    nulls = {**(row.roofline.nulls if row.roofline else {}), **row.nulls}
    names = (column.name for column in COLUMNS if column.number and column.value(row) is None)
    return tuple((name, reasons.of(nulls[name])) for name in names if name in nulls)


def _kernel(summary: KernelSummary) -> dict[str, Any]:
    return {
        "page": summary.page,
        "kernel": summary.kernel,
        "carry": summary.carry,
        "sign": SIGNS[summary.carry],
        "why": why(summary),
        "gravest": summary.gravest,
    }


def _finding(group: Alike) -> dict[str, Any]:
    return {**plain(group.first), "page_of": page_of(group.first), "operations": group.operations}


def _plot(plot: Plot) -> dict[str, Any]:
    fields = {
        name: getattr(plot, name) for name in ("kind", "page", "operation", "dtype", "detail", "title", "alt", "height")
    }
    values = {name: [_shortened(value) for value in values] for name, values in plot.datasets.items()}
    candidates = {"candidates": [_shortened(each) for each in plot.candidates], "most": plot.most}
    return {**fields, "datasets": values, **(candidates if plot.candidates else {})}


def _shortened(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: short(each) if isinstance(each, float) else each for name, each in value.items()}


Identity = tuple[str, Direction, tuple[int, ...], str, str, str, str | None, Evidence, str]


def _identity(row: ComparisonRow) -> Identity:
    place = (row.kernel, row.direction, row.shape, row.dtype, row.variant)
    return *place, row.target, row.partition, row.evidence, row.run_id


def _identity_of(row: Row) -> Identity:
    cell, record = row.record.cell, row.record
    place = (cell.case, cell.direction, cell.shape, cell.dtype, cell.variant)
    return *place, cell.target, cell.partition, record.evidence, record.run_id


def _whole_cells(
    comparison: Comparison, dataset: Dataset
) -> tuple[Mapping[str | None, CellsOfPage], Mapping[str | None, int]]:
    """Whole cells by page while there is room, and how many more there would be."""
    places = {_identity(row): i for i, row in enumerate(comparison.rows)}
    kept: dict[str | None, CellsOfPage] = collections.defaultdict(CellsOfPage)
    left_out: dict[str | None, int] = collections.defaultdict(int)
    room = MOST_WHOLE
    for row in whole_cells(dataset, comparison.findings):
        place = places.get(_identity_of(row))
        if place is None:  # a choice of kernels or targets left it out
            continue
        shown = comparison.rows[place]
        page = operation_of(shown).page
        cell = whole_cell(row, shown, place) if room > 0 else None
        room -= kept[page].new(cell) if cell else 0
        if cell and room > 0:
            kept[page].add(cell)
        else:
            left_out[page] += 1
    return kept, left_out


def _excerpts(comparison: Comparison, dataset: Dataset) -> Mapping[str | None, dict[int, Any]]:
    """Excerpts by page and the finding's place among those of the main chunk, while there is room."""
    source = Excerpts(dataset)
    found: dict[str | None, dict[int, Any]] = collections.defaultdict(dict)
    room = MOST_EXCERPTS
    for place, group in enumerate(alike(comparison.findings)):
        if room <= 0:
            break
        shown = [dataclasses.asdict(each) for each in source.of(group.first)]
        if shown:
            found[page_of(group.first)][place] = shown
            room -= len(json.dumps(shown))
    return found
