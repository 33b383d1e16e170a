"""A kernel over the nights: a bar a night on a terminal, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

from portkit.analysis.trend import Line, Point
from portkit.model import Status
from portkit.render.columns import one_line

_BAR: Final = 24
"""Characters of the longest bar."""

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"

_NARROW: Final = 100
"""Characters of a terminal below which bars are left out."""


def trend_text(found: Sequence[Line], width: int | None = None) -> str:
    """The lines as paragraphs, one a line of the trend, with a newline at the end.

    Args:
        found: lines of the trend.
        width: characters of the terminal; None: as wide as it is.
    """
    bars = width is None or width >= _NARROW
    return "\n\n".join("\n".join(_paragraph(line, bars=bars)) for line in found) + "\n"


def _paragraph(line: Line, *, bars: bool) -> Iterator[str]:
    unit = f", {line.figure.unit}" if line.figure.unit else ""
    yield one_line(f"{line.label}: {line.figure.title}{unit}")
    longest = max((point.value for point in line.points if point.value is not None), default=0.0)
    rows = [_cells(point) for point in line.points]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for point, cells in zip(line.points, rows, strict=True):
        columns = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        bar = [_bar(point.value, longest)] if bars and longest else []
        yield "  ".join([*columns, *bar, "; ".join(_told(point))]).rstrip()


def _cells(point: Point) -> tuple[str, str, str, str]:
    """Night, value, interval, ratio to the one before."""
    value = "–" if point.value is None else f"{point.value:.4g}"
    interval = "" if point.low is None or point.high is None else f"{point.low:.4g}–{point.high:.4g}"
    ratio = "" if point.ratio is None else f"×{point.ratio:.2f}"
    return point.started[:16].replace("T", " "), value, interval, ratio


def _bar(value: float | None, longest: float) -> str:
    """A bar from zero, in eighths of a character.

    >>> _bar(1.0, 2.0)
    '████████████            '
    """
    eighths = round(8 * _BAR * value / longest) if value and longest else 0
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(_BAR)


def _told(point: Point) -> Iterator[str]:
    """What a night has to say beside its value."""
    if point.status not in (Status.PASSED, Status.BUILT):
        yield point.status.value
    yield from map(one_line, point.changes)
    yield from point.remarks


def trend_json(found: Sequence[Line]) -> str:
    """All lines as JSON, with a newline at the end."""
    entries = [
        {
            "kernel": line.kernel,
            "direction": line.direction,
            "shape": line.shape,
            "dtype": line.dtype,
            "variant": line.variant,
            "target": line.target,
            "partition": line.partition,
            "evidence": line.evidence,
            "figure": line.figure.name,
            "unit": line.figure.unit,
            "points": [asdict(point) for point in line.points],
        }
        for line in found
    ]
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"
