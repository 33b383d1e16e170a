"""What the gate found: Markdown for a pull request, plain for a terminal, JSON, JUnit for CI.

Formats only. Names and messages come from reports of anyone, so all of it is escaped.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tabulate import tabulate

from portkit.analysis.gate.cells import CellChange, Kind
from portkit.analysis.gate.figures import FigureChange
from portkit.analysis.gate.judge import GateResult
from portkit.analysis.gate.times import Level, TimeChange
from portkit.render.columns import escaped, milliseconds, one_line, wrapped
from portkit.render.junit import Case, Result, suites
from portkit.store.schema import plain

MOST_ROWS: Final = 100
"""Cells of a section; JSON and JUnit have all."""


def render_gate(result: GateResult, layout: str, width: int | None = None) -> str:
    """The result in a layout of :data:`LAYOUTS`, with a newline at its end.

    Args:
        result: what the gate found.
        layout: name of the layout.
        width: characters of the terminal that the plain layout is for; None: as wide as it is.
    """
    return LAYOUTS[layout](result, width) + "\n"


def headline(result: GateResult) -> str:
    """The verdict in one line, with what was not compared."""
    if result.same_runs:
        return "no cell could be compared: both sides are the same runs"
    compared = [cell.level for cell in result.cells if cell.kind is Kind.COMPARED]
    levels = [*compared, *(each.change.level for each in result.kernels)]
    counts = {name: levels.count(level) for name, level in (("fail", Level.FAIL), ("warn", Level.WARN))}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "no regression"
    verdict = f"{told} of {result.compared} cells compared" if result.compared else "no cell could be compared"
    untimed = sum(cell.not_compared is not None for cell in result.cells if cell.kind is Kind.COMPARED)
    verdict += f" (times of {untimed} not compared)" if untimed else ""
    kinds = collections.Counter(cell.kind for cell in result.cells)
    others = [f"{kinds[kind]} {text}" for kind, text in _NOT_COMPARED.items() if kinds[kind]]
    return ", ".join([verdict, *others])


_NOT_COMPARED: Final[Mapping[Kind, str]] = {
    Kind.INFRASTRUCTURE: "without a verdict (infrastructure)",
    Kind.TOOLCHAIN: "of another toolchain",
    Kind.NEW: "new",
    Kind.REMOVED: "removed",
    Kind.NOT_RUN: "not run",
}


def _markdown(result: GateResult, width: int | None) -> str:
    del width  # a page has room
    parts = ["# Regression gate", f"**{headline(result)}**", _bullets(_head(result))]
    for title, rows in _sections(result):
        parts += [f"## {title} ({len(rows)})", _table(rows, "github", escaped)]
    return "\n\n".join(part for part in parts if part)


def _plain(result: GateResult, width: int | None) -> str:
    parts = [wrapped([headline(result)], width), wrapped(_head(result), width)]
    for title, rows in _sections(result):
        table = _table(rows, "simple", one_line)
        fits = width is None or max(map(len, table.splitlines())) <= width
        parts.append(f"{title} ({len(rows)})\n{table if fits else _entries(rows, width)}")
    return "\n\n".join(parts)


def _entries(rows: _Rows, width: int | None) -> str:
    """A cell a paragraph, what changed below it, where a terminal has no room for both side by side."""
    texts = [
        f"{one_line(cell)}\n{wrapped([f'    {one_line(what)}'], width)}".rstrip() for cell, what in rows[:MOST_ROWS]
    ]
    return "\n".join(texts) + _more(rows)


def _json(result: GateResult, width: int | None) -> str:
    del width
    cells = [{**plain(cell), "label": cell.label, "level": cell.level.value} for cell in result.cells]
    whole = plain(result) | {"level": result.level.value, "headline": headline(result), "cells": cells}
    return json.dumps(whole, indent=1)


def _head(result: GateResult) -> Iterator[str]:
    limits = result.thresholds
    yield f"baseline runs: {_runs(header.run_id for header in result.baseline)}"
    yield f"current runs: {_runs(header.run_id for header in result.current)}"
    yield (
        f"times warn above ×{limits.warn_ratio:g} and fail above ×{limits.fail_ratio:g}, under {limits.short_us:g} µs "
        f"by as many µs as of {limits.short_us:g} µs; and only where chance is below {limits.level:g}"
    )
    for target, ratio in result.shifts.items():
        noise = (
            f", runs {result.noise[target]:.1f} times as noisy as a quiet device" if result.noise[target] > 1 else ""
        )
        yield f"{target}: times ×{ratio:.3f} in the median over all cells{noise}"
    yield from result.warnings


def _runs(names: Iterator[str]) -> str:
    every = list(names)
    more = [f"and {len(every) - 5} more"] if len(every) > 5 else []
    return ", ".join([*every[:5], *more]) or "none"


_Rows = Sequence[Sequence[str]]


def _sections(result: GateResult) -> Iterator[tuple[str, _Rows]]:
    """Title and rows of every section that has any, the worst first."""
    compared = [cell for cell in result.cells if cell.kind is Kind.COMPARED]
    yield from _if_any("Failed", [_row(c) for c in compared if c.level is Level.FAIL])
    yield from _if_any("Warned", [_row(c) for c in compared if c.level is Level.WARN])
    yield from _if_any("Kernels over their targets", [(x.kernel, _figure(x.change)) for x in result.kernels])
    for kind in (Kind.INFRASTRUCTURE, Kind.TOOLCHAIN, Kind.NEW, Kind.REMOVED, Kind.NOT_RUN):
        yield from _if_any(_TITLES[kind], [_row(c) for c in result.cells if c.kind is kind])
    yield from _if_any("Changed otherwise", [_row(c) for c in compared if c.level is Level.NOTE])
    yield from _if_any("Times not compared", [(c.label, c.not_compared or "") for c in compared if c.not_compared])
    yield from _if_any("Better", [_row(c) for c in compared if c.level is Level.BETTER])


_TITLES: Final[Mapping[Kind, str]] = {
    Kind.INFRASTRUCTURE: "No verdict: infrastructure failed",
    Kind.TOOLCHAIN: "Toolchain changed: not compared",
    Kind.NEW: "NEW",
    Kind.REMOVED: "REMOVED",
    Kind.NOT_RUN: "Not run: the current side is partial",
}


def _if_any(title: str, rows: _Rows) -> Iterator[tuple[str, _Rows]]:
    if rows:
        yield title, rows


def _row(cell: CellChange) -> tuple[str, str]:
    return cell.label, told(cell)


def told(cell: CellChange) -> str:
    """What changed of a cell, in one line."""
    status = cell.status
    parts = [
        f"status {status.baseline} → {status.current}".replace("  →", "") if status else "",
        _time(cell.time) if cell.time and cell.time.level is not Level.SAME else "",
        *(_figure(change) for change in cell.figures),
        "its source changed" if cell.source_changed else "",
        cell.told or "",
        f"({status.cause})" if status and status.cause else "",
    ]
    return one_line("; ".join(part for part in parts if part))


def _time(time: TimeChange) -> str:
    change = f"{time.clock} {milliseconds(time.baseline_ms)} → {milliseconds(time.current_ms)} ms"
    runs = f"{time.runs[0]} against {time.runs[1]} runs" + ("" if time.same_node else ", on other boards")
    return f"{time.level} {change}, ×{time.ratio:.3f} ({time.low:.3f}–{time.high:.3f}; {runs})"


def _figure(change: FigureChange) -> str:
    return f"{change.level} {change.figure} {change.baseline:g} → {change.current:g}"


def _table(rows: _Rows, layout: str, form: Callable[[str], str]) -> str:
    body = [[form(text) for text in row] for row in rows[:MOST_ROWS]]
    return tabulate(body, ["cell", "what"], tablefmt=layout, disable_numparse=True) + _more(rows)


def _more(rows: _Rows) -> str:
    return f"\n\nand {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""


def _bullets(texts: Iterator[str]) -> str:
    return "\n".join(f"- {escaped(text)}" for text in texts)


def junit(result: GateResult) -> str:
    """The result as CI systems read it: a suite a target, a case a cell.

    A regression is a failure, an infrastructure failure an error; what could not be compared is
    skipped with its reason, and a warning is the case's output.
    """
    return suites("portkit gate", [_junit_case(cell) for cell in result.cells])


def _junit_case(cell: CellChange) -> Case:
    outcome, what = _outcome(cell), told(cell)
    text = what if outcome is Result.PASSED else f"{cell.kind}: {what}"
    return Case(suite=cell.cell.target, group=cell.cell.case, name=cell.label, result=outcome, told=text)


def _outcome(cell: CellChange) -> Result:
    if cell.kind is Kind.INFRASTRUCTURE:
        return Result.ERROR
    if cell.level is Level.FAIL:
        return Result.FAILURE
    return Result.SKIPPED if cell.kind in (Kind.TOOLCHAIN, Kind.REMOVED, Kind.NOT_RUN) else Result.PASSED


LAYOUTS: Final[Mapping[str, Callable[[GateResult, int | None], str]]] = {
    "github": _markdown,
    "plain": _plain,
    "json": _json,
}
