"""Summaries: one row a record in Parquet, for histories too long to read as reports.

A row has what a merge ranks, compares and shows; what a record holds beyond it stays in the
report. A summary has no checksums: it is made of reports, and can be made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import polars as pl
from polars.exceptions import PanicException, PolarsError

from portkit.errors import ReportError
from portkit.model import Clock, Header, Record
from portkit.store.alike import by_toolchain, sm_clock_mhz, version_set
from portkit.store.figures import LEAST, MOST
from portkit.store.merge import Dataset

ENDING: Final = ".parquet"

LAYOUT: Final = 1
"""Version of the columns; it stands in each row."""

Getter = Callable[[Record], Any]


def _cell(name: str) -> Getter:
    return lambda record: getattr(record.cell, name)


def _key(name: str) -> Getter:
    return lambda record: getattr(record.keys, name)


def _build(name: str) -> Getter:
    return lambda record: getattr(record.build, name) if record.build else None


def _occupancy(record: Record) -> float | None:
    worst = record.build.worst_occupancy if record.build else None
    return worst.percent if worst else None


def _clock(name: str, figure: str) -> Getter:
    def get(record: Record) -> float | None:
        clock: Clock | None = getattr(record.timing.fused, name) if record.timing else None
        return getattr(clock, figure) if clock else None

    return get


def _speedup(name: str) -> Getter:
    def get(record: Record) -> float | None:
        ratio = getattr(record.timing, name).get("eager") if record.timing else None
        return ratio.value if ratio else None

    return get


_COLUMNS: Final[Mapping[str, tuple[type[pl.DataType], Getter]]] = {
    "cell_key": (pl.String, _key("cell_key")),
    "source_hash": (pl.String, _key("source_hash")),
    "build_key": (pl.String, _key("build_key")),
    "version_set": (pl.String, version_set),
    "by_toolchain": (pl.Boolean, by_toolchain),
    "case": (pl.String, _cell("case")),
    "direction": (pl.String, lambda record: record.cell.direction.value),
    "shape": (pl.String, _cell("shape_text")),
    "dtype": (pl.String, _cell("dtype")),
    "variant": (pl.String, _cell("variant")),
    "target": (pl.String, _cell("target")),
    "partition": (pl.String, _cell("partition")),
    "evidence": (pl.String, lambda record: record.evidence.value),
    "status": (pl.String, lambda record: record.outcome.status.value),
    "skipped": (pl.Boolean, lambda record: record.outcome.status.skipped),
    "triton": (pl.String, lambda record: record.triton),
    "node": (pl.String, lambda record: record.device_id or record.host_id),
    "registers_per_thread": (pl.Int64, _build("registers_per_thread")),
    "spill_bytes_per_thread": (pl.Int64, _build("spill_bytes_per_thread")),
    "shared_bytes_per_block": (pl.Int64, _build("shared_bytes_per_block")),
    "occupancy_pct": (pl.Float64, _occupancy),
    **{
        f"{name}_{figure}": (pl.Float64, _clock(name, figure))
        for name in ("events", "trace")
        for figure in ("median_ms", "low_ms", "high_ms")
    },
    "speedup": (pl.Float64, _speedup("speedup")),
    "speedup_kernel": (pl.Float64, _speedup("speedup_kernel")),
    "timed": (pl.Boolean, lambda record: record.timing is not None),
    "flushed": (pl.Boolean, lambda record: record.timing.flush_bytes > 0 if record.timing else None),
    "throttled": (pl.Boolean, lambda record: bool(record.timing.throttled) if record.timing else None),
    "sm_clock_mhz": (pl.Float64, lambda record: sm_clock_mhz(record.timing) if record.timing else None),
}

SCHEMA: Final[Mapping[str, type[pl.DataType]]] = {
    "layout": pl.Int64,
    "run_id": pl.String,
    "started": pl.String,
    "partial": pl.Boolean,
    **{name: kind for name, (kind, _) in _COLUMNS.items()},
}
"""Column → type; names and units are those of the record."""

_KNOWN: Final = ("layout", "run_id", "started", "partial", "cell_key", "source_hash", "case", "target", "evidence")
"""Columns that no row may lack."""


def summary(dataset: Dataset) -> pl.DataFrame:
    """One row for every record of the merged reports, in the order of run, cell and evidence."""
    headers = {header.run_id: header for header in dataset.headers}
    every = (record for row in (*dataset.rows, *dataset.drift) for record in row.records)
    records = sorted(every, key=lambda record: (record.run_id, record.keys.cell_key, record.evidence.value))
    return summary_of(records, headers, dataset.partial)


def summary_of(records: Sequence[Record], headers: Mapping[str, Header], partial: Mapping[str, str]) -> pl.DataFrame:
    """The summary of these records.

    Args:
        records: of any runs.
        headers: run id → its header.
        partial: run id → why it is partial.
    """
    columns: dict[str, Iterable[Any]] = {
        "layout": [LAYOUT] * len(records),
        "run_id": [record.run_id for record in records],
        "started": [headers[record.run_id].started for record in records],
        "partial": [record.run_id in partial for record in records],
        **{name: [get(record) for record in records] for name, (_, get) in _COLUMNS.items()},
    }
    return pl.DataFrame(columns, schema=dict(SCHEMA))


MOST_ROWS: Final = 20_000_000
"""Rows of all summaries of a merge together: it holds them in some 14 GiB. Equal rows shrink to nothing in Parquet,
so that the size of a file says little of what it unpacks to."""


def scan(paths: Sequence[Path]) -> pl.LazyFrame:
    """Summaries of some files, judged but not yet read into memory.

    Raises:
        ReportError: a file is no summary, of a newer layout, has a row or a figure that can't be, or together
            they have more rows than :data:`MOST_ROWS`.
    """
    rows = 0
    for path in paths:
        with damage_named([path]):
            rows += pl.scan_parquet(path).select(pl.len()).collect().item()
        if rows > MOST_ROWS:
            raise _refused(path, f"makes {rows} rows with those before it, {MOST_ROWS} are the most", "merge fewer")
    return pl.concat([_scan_one(path) for path in paths])


def _scan_one(path: Path) -> pl.LazyFrame:
    with damage_named([path]):
        return judged(pl.scan_parquet(path), path, SCHEMA)


def judged(frame: pl.LazyFrame, place: Path | str, schema: Mapping[str, type[pl.DataType]]) -> pl.LazyFrame:
    """The columns of a schema, where they are there and every value can be.

    Args:
        frame: of one file or several.
        place: where it comes from, for messages.
        schema: column → type; those of :data:`SCHEMA` at least.

    Raises:
        ReportError: a column is missing, of another type or of a newer layout, or has a value that can't be.
    """
    if wrong := misfits(frame.collect_schema(), schema):
        raise _refused(place, f"has no column {wrong[0]!r} of a summary, or one of another type")
    chosen = frame.select(*schema)
    _judge(place, chosen)
    return chosen


def misfits(found: Mapping[str, pl.DataType], schema: Mapping[str, type[pl.DataType]]) -> list[str]:
    """Columns of a schema that are missing, or of another type."""
    return [name for name, kind in schema.items() if found.get(name) != kind]


@contextmanager
def damage_named(paths: Iterable[Path]) -> Iterator[None]:
    """A damaged file is one error, wherever Polars meets the damage: pages are read when they are asked for.

    Raises:
        ReportError: the block met damage.
    """
    try:
        yield
    except (PolarsError, OSError, PanicException) as error:  # a panic is a fault of Polars that damage brought about
        told = next(iter(str(error).splitlines()), "")[:200]
        raise _refused(", ".join(map(str, paths)), f"can't be read as Parquet: {told}") from error


def _judge(path: Path | str, frame: pl.LazyFrame) -> None:
    """Refuse what no record can have given."""
    facts = frame.select(*_facts()).collect(engine="streaming").row(0, named=True)
    if facts["layout"] is not None and facts["layout"] > LAYOUT:
        raise _refused(path, f"has layout {facts['layout']}, this portkit reads up to {LAYOUT}", "upgrade portkit")
    for name, wrong in facts.items():
        if name != "layout" and wrong:
            raise _refused(path, f"column {name}: {wrong} rows have a value that no record can have")


def _facts() -> Iterator[pl.Expr]:
    yield pl.col("layout").max()
    for name, kind in SCHEMA.items():
        column = pl.col(name)
        if kind is pl.Float64:
            tiny = (column > 0) & (column < LEAST)
            yield ((column < 0) | (column > MOST) | tiny | ~column.is_finite()).sum().alias(name)
        elif kind is pl.Int64 and name != "layout":
            yield (column < 0).sum().alias(name)
        elif name in _KNOWN and name != "layout":
            yield column.is_null().sum().alias(name)


def _refused(path: Path | str, why: str, remedy: str = "make it anew with `portkit merge --summary`") -> ReportError:
    return ReportError(f"the summary {why}", place=str(path), remedy=remedy)
