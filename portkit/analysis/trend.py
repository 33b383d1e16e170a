"""A kernel over the nights: a line for each cell and evidence, with what changed between its points.

Pure: works on the columns of a history (:data:`portkit.store.history.HISTORY_SCHEMA`). A line says what was
measured and under which versions; whether a step is a regression is the gate's to say.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from portkit.analysis.rows import Comparison
from portkit.errors import ReportError, nearest
from portkit.model import INTERPRETER, Direction, Evidence, Status

if TYPE_CHECKING:
    import polars as pl

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """What a line shows."""

    name: str
    title: str
    unit: str
    value: Callable[[Row], float | None]
    low: Callable[[Row], float | None] = lambda row: None
    high: Callable[[Row], float | None] = lambda row: None


def _column(name: str) -> Callable[[Row], float | None]:
    return lambda row: row[name]


def _clock(name: str, title: str) -> Figure:
    columns = (_column(f"{name}_{end}_ms") for end in ("median", "low", "high"))
    return Figure(name, title, "ms", *columns)


FIGURES: Final[Mapping[str, Figure]] = {
    each.name: each
    for each in (
        _clock("trace", "time of the kernels, device trace"),
        _clock("events", "time end to end, device events"),
        Figure("speedup", "speedup over eager, device events", "×", _column("speedup")),
        Figure("speedup_kernel", "speedup over eager, device trace", "×", _column("speedup_kernel")),
        Figure("registers", "registers per thread", "", _column("registers_per_thread")),
        Figure("spills", "spills per thread", "B", _column("spill_bytes_per_thread")),
        Figure("shared", "shared memory per block", "B", _column("shared_bytes_per_block")),
        Figure("occupancy", "theoretical occupancy", "%", _column("occupancy_pct")),
    )
}
"""Name → what a line can show."""

VERSIONS: Final[Mapping[str, str]] = {
    "triton": "Triton",
    "torch": "torch",
    "toolkit": "toolkit",
    "driver": "driver",
    "portkit": "portkit",
}
"""Column of a version → its name in words."""

_OF_THE_DEVICE: Final = frozenset({"driver", "toolkit"})
"""Versions that say nothing of a row that ran on no GPU."""


@dataclass(frozen=True)
class Point:
    """One night of a line."""

    run_id: str
    started: str  # ISO 8601, UTC
    status: Status
    value: float | None  # of the line's figure; None where it has none
    low: float | None  # 95 % interval of a time
    high: float | None
    node: str  # device, or host of a row without one
    ratio: float | None  # to the point before, of measured rows on the same device; None where there is none
    changes: tuple[str, ...] = ()  # since that point, or the newest of any: "Triton 3.6.0 → 3.7.1"
    remarks: tuple[str, ...] = ()  # why the value may not be compared: throttled, caches not flushed


@dataclass(frozen=True)
class Line:
    """One cell and evidence over the nights."""

    kernel: str
    direction: Direction
    shape: str
    dtype: str
    variant: str
    target: str
    partition: str | None
    evidence: Evidence
    figure: Figure
    points: tuple[Point, ...] = field(default=())  # the oldest first

    @property
    def operation(self) -> str:
        """Shape, dtype and variant, as pages name them."""
        return " ".join(part for part in (self.shape, self.dtype, self.variant) if part)

    @property
    def label(self) -> str:
        """The cell in words."""
        backward = " backward" if self.direction is Direction.BACKWARD else ""
        on = " ".join(part for part in (self.target, self.partition) if part)
        return f"{self.kernel}{backward} {self.operation} on {on}, {self.evidence.value}"


@dataclass(frozen=True)
class Choice:
    """Which lines to draw; patterns as of a shell, nothing means all."""

    kernels: Sequence[str] = ()
    targets: Sequence[str] = ()
    evidence: Evidence | None = None  # None: what is measured where anything is, else all
    words: Sequence[str] = ()  # that a line's operation must have: a shape, a dtype, a variant
    figure: str | None = None  # of FIGURES; None: a time where there is one, else registers
    last: int | None = None  # newest nights of a line


def lines(history: pl.LazyFrame, choice: Choice) -> list[Line]:
    """The lines of a choice, by kernel, operation, target and evidence.

    Args:
        history: as :func:`portkit.store.history.scan` gives it.
        choice: which.

    Raises:
        ReportError: no row is of such a kernel or target, or no line is left.
    """
    rows = _chosen(history, choice).collect(engine="streaming")
    if rows.is_empty():
        raise ReportError("no night has such a row", remedy="`portkit history list` says what is kept")
    found = [_line(group.rows(named=True), choice) for group in _cells(rows)]
    with_value = [line for line in found if any(point.value is not None for point in line.points)]
    return _sorted(with_value if choice.figure else found)


PAGE_NIGHTS: Final = 90
"""Nights of a line in the HTML report."""


def telling(history: pl.LazyFrame, comparison: Comparison) -> list[Line]:
    """The lines for a page of a comparison: times of what was measured, and builds whose registers changed.

    Args:
        history: as :func:`portkit.store.history.scan` gives it.
        comparison: whose kernels and targets are shown.
    """
    import polars as pl  # noqa: PLC0415 (pages and tables without a history need none)

    shown = [pl.col(column).is_in(list(names)) for column, names in _names(comparison).items()]
    rows = history.filter(*shown, ~pl.col("skipped")).collect(engine="streaming")
    found = (_line(group.rows(named=True), Choice(last=PAGE_NIGHTS)) for group in _cells(rows))
    return _sorted(line for line in found if line.evidence is Evidence.MEASURED or _varies(line))


def _names(comparison: Comparison) -> Mapping[str, set[str]]:
    rows = comparison.rows
    return {"case": {row.kernel for row in rows}, "target": {row.target for row in rows}}


def _varies(line: Line) -> bool:
    return len({point.value for point in line.points} - {None}) > 1


def _chosen(history: pl.LazyFrame, choice: Choice) -> pl.LazyFrame:
    import polars as pl  # noqa: PLC0415 (pages and tables without a history need none)

    rows = history
    for column, patterns in (("case", choice.kernels), ("target", choice.targets)):
        if patterns:
            rows = rows.filter(pl.col(column).is_in(_matching(history, column, patterns)))
    if choice.evidence:
        rows = rows.filter(pl.col("evidence") == choice.evidence.value)
    elif rows.filter(pl.col("evidence") == Evidence.MEASURED.value).select(pl.len()).collect().item():
        rows = rows.filter(pl.col("evidence") == Evidence.MEASURED.value)
    for word in choice.words:
        rows = rows.filter(pl.any_horizontal(pl.col("shape", "dtype", "variant", "direction") == word))
    return rows


def _matching(history: pl.LazyFrame, column: str, patterns: Iterable[str]) -> list[str]:
    import polars as pl  # noqa: PLC0415 (pages and tables without a history need none)

    known: list[str] = history.select(pl.col(column).unique()).collect().to_series().to_list()
    found = [name for name in known if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    if not found:
        word = "kernel" if column == "case" else column
        raise ReportError(f"no row of a {word} {', '.join(patterns)}", remedy=nearest(next(iter(patterns)), known))
    return found


def _cells(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    yield from rows.sort("started", "run_id").partition_by("cell_key", "evidence", maintain_order=True)


def _sorted(found: Iterable[Line]) -> list[Line]:
    evidences = list(Evidence)

    def place(line: Line) -> tuple[Any, ...]:
        sizes = [int(size) for size in line.shape.split("x") if size.isdecimal()]
        at = (line.target == INTERPRETER, line.target, line.partition or "", evidences.index(line.evidence))
        return (line.kernel, line.direction, sizes, line.dtype, line.variant, *at)

    return sorted(found, key=place)


def _line(rows: Sequence[Row], choice: Choice) -> Line:
    first = rows[-1]
    figure = FIGURES[choice.figure] if choice.figure else _own_figure(rows)
    points = tuple(_points(rows, figure))
    return Line(
        kernel=first["case"],
        direction=Direction(first["direction"]),
        shape=first["shape"],
        dtype=first["dtype"],
        variant=first["variant"],
        target=first["target"],
        partition=first["partition"],
        evidence=Evidence(first["evidence"]),
        figure=figure,
        points=points[-choice.last :] if choice.last else points,
    )


def _own_figure(rows: Sequence[Row]) -> Figure:
    """A time where there is one: on the trace if all that were timed have it; else registers."""
    timed = [row for row in rows if row["timed"]]
    if not timed:
        return FIGURES["registers"]
    return FIGURES["trace" if all(row["trace_median_ms"] is not None for row in timed) else "events"]


def _points(rows: Sequence[Row], figure: Figure) -> Iterator[Point]:
    before: dict[str | None, Row] = {}  # by board: hosts of one SKU may have versions of their own
    for row in rows:
        board = _board(row)
        last = before.get(board)
        yield Point(
            run_id=row["run_id"],
            started=row["started"],
            status=Status(row["status"]),
            value=figure.value(row),
            low=figure.low(row),
            high=figure.high(row),
            node=row["node"],
            ratio=_ratio(figure.value(row), figure.value(last)) if last else None,
            changes=tuple(_changes(last or next(reversed(before.values()), None), row, known=last is not None)),
            remarks=tuple(_remarks(row)),
        )
        before.pop(board, None)
        before[board] = row  # the newest last


def _board(row: Row) -> str | None:
    """The device of a measured row; nothing else depends on where it was made."""
    return row["node"] if row["evidence"] == Evidence.MEASURED.value else None


def _ratio(now: float | None, before: float | None) -> float | None:
    return now / before if now is not None and before else None


def _changes(before: Row | None, now: Row, *, known: bool) -> Iterator[str]:
    """What differs from the night before, on the same board where there is one."""
    if before is None:
        return
    if not known:
        yield "another device"
    on_device = now["evidence"] == Evidence.MEASURED.value
    for column, word in VERSIONS.items():
        if (on_device or column not in _OF_THE_DEVICE) and before[column] != now[column]:
            yield f"{word} {before[column] or 'unknown'} → {now[column] or 'unknown'}"
    if before["source_hash"] != now["source_hash"]:
        yield "another source"


def _remarks(row: Row) -> Iterator[str]:
    if row["throttled"]:
        yield "throttled"
    if row["flushed"] is False:
        yield "caches not flushed"
