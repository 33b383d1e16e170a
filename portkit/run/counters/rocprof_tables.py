"""Reads what rocprofv3 leaves in its folder: tables of text, or a database.

=================================== =================================================
file                                has
=================================== =================================================
``*_kernel_trace.csv``              a row a dispatch, in no certain order
``*_counter_collection.csv``        a row a dispatch and counter
``*_results.db`` (from ROCm 7.0)    both, in SQLite's views ``kernels`` and
                                    ``counters_collection``
=================================== =================================================

Columns are read by name: older versions lack ``Stream_Id``, ``Accum_VGPR_Count`` or the
timestamps of counters, and later ones add some. Of dispatches the trace decides, since it has
the grid side by side. Registers are not read at all: the trace decodes them from the kernel's
descriptor, rounded to the granule, and wrongly on gfx950. LDS of the text is what the binary
asks for, 0 in every kernel of Triton's; that of the database includes what the launch adds.

Source: ROCm/rocm-systems, projects/rocprofiler-sdk, ``source/lib/output/generateCSV.cpp`` and
``source/share/rocprofiler-sdk-rocpd/data_views.sql``.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from portkit.run.counters.markers import Grid
from portkit.run.kernel_names import plain_name

_AXES = ("X", "Y", "Z")

_TRACE_COLUMNS: Final = frozenset(
    {
        *("Kernel_Name", "Dispatch_Id", "Start_Timestamp", "End_Timestamp"),
        *(f"{what}_Size_{axis}" for what in ("Workgroup", "Grid") for axis in _AXES),
    }
)
_COUNTER_COLUMNS: Final = frozenset({"Dispatch_Id", "Counter_Name", "Counter_Value"})


@dataclass(frozen=True)
class Dispatch:
    """One kernel that ran."""

    number: int  # in the order in which kernels were enqueued
    name: str
    blocks: Grid
    threads: Grid  # of a block
    duration_ns: int
    lds_bytes: int | None = None  # of the launch; None where only that of the binary is told
    counters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Dispatches:
    """All kernels of one run, in the order in which they were enqueued."""

    rows: tuple[Dispatch, ...]
    whole: bool = True  # False where an end is cut off


def read_folder(folder: Path) -> Dispatches | None:
    """What a run left: of the database where there is one that can be read, else of the tables of text.

    Several processes may have left a file each: one that launched nothing adds nothing.
    """
    databases = [found for path in sorted(folder.rglob("*_results.db")) if (found := read_database(path))]
    return _joined(databases) or _from_text(folder)


def _joined(found: Sequence[Dispatches]) -> Dispatches | None:
    kernels = [each for each in found if each.rows]
    if not kernels:
        return found[0] if found else None
    most = max(kernels, key=lambda each: len(each.rows))  # dispatches count anew in each process
    return Dispatches(most.rows, all(each.whole for each in kernels))


def _from_text(folder: Path) -> Dispatches | None:
    found = []
    for path in sorted(folder.rglob("*_kernel_trace.csv")):
        counters = path.with_name(path.name.replace("_kernel_trace.csv", "_counter_collection.csv"))
        found.append(read_text(_text(path), _text(counters)))
    return _joined([each for each in found if each is not None])


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


# --------------------------------------------------------------------------
# Text


def read_text(trace: str, counters: str) -> Dispatches | None:
    """Dispatches of the two tables of one process.

    Args:
        trace: of the dispatches.
        counters: of their counters, empty where there is none.

    Returns:
        None where the trace is no such table. A row that is cut off, or has no number where
        one must be, is left out, and the whole is then not whole.
    """
    rows = _rows(trace, _TRACE_COLUMNS)
    if rows is None:
        return None
    values, values_whole = _counters(counters)
    dispatches, whole = [], rows.whole and values_whole
    for row in rows.full:
        try:
            dispatches.append(_dispatch(row, values))
        except ValueError:
            whole = False
    return Dispatches(tuple(sorted(dispatches, key=lambda each: each.number)), whole)


@dataclass(frozen=True)
class _Rows:
    full: Sequence[Mapping[str, str]]
    whole: bool


def _rows(text: str, needed: Iterable[str]) -> _Rows | None:
    """Rows by the names of their columns; None without a first line that has those needed."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a quote that nothing closes takes in all the rest
    header, *rows = csv.reader(io.StringIO(text[: text.rfind("\n") + 1])) if "\n" in text else [[]]
    if not set(needed) <= set(header):
        return None
    full = [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]
    return _Rows(full, text.endswith("\n") and len(full) == sum(map(bool, rows)))


def _counters(text: str) -> tuple[Mapping[int, Mapping[str, float]], bool]:
    """Dispatch → counter → value, and whether the table is whole; an empty one is."""
    rows = _rows(text, _COUNTER_COLUMNS)
    if rows is None:
        return {}, not text
    found: dict[int, dict[str, float]] = {}
    whole = rows.whole
    for row in rows.full:
        try:
            _add(found, int(row["Dispatch_Id"]), row["Counter_Name"], float(row["Counter_Value"]))
        except ValueError:
            whole = False
    return found, whole


def _add(found: dict[int, dict[str, float]], number: int, counter: str, value: float) -> None:
    if math.isfinite(value):
        found.setdefault(number, {})[counter] = value


def _dispatch(row: Mapping[str, str], values: Mapping[int, Mapping[str, float]]) -> Dispatch:
    """One row of the trace.

    Raises:
        ValueError: something is no number.
    """
    threads = _grid([int(row[f"Workgroup_Size_{axis}"]) for axis in _AXES])
    items = _grid([int(row[f"Grid_Size_{axis}"]) for axis in _AXES])
    number = int(row["Dispatch_Id"])
    return Dispatch(
        number,
        plain_name(row["Kernel_Name"]),
        _blocks(items, threads),
        threads,
        int(row["End_Timestamp"]) - int(row["Start_Timestamp"]),
        counters=values.get(number, {}),
    )


def _grid(sides: Sequence[int]) -> Grid:
    x, y, z = sides
    return x, y, z


def _blocks(items: Grid, threads: Grid) -> Grid:
    """Work-items → blocks: the tables have a grid in work-items."""
    return _grid([-(-side // max(size, 1)) for side, size in zip(items, threads, strict=True)])


# --------------------------------------------------------------------------
# Database


def read_database(path: Path) -> Dispatches | None:
    """Dispatches of a database; None where it is none, is damaged or has other views."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            return _from_database(database)
    except (sqlite3.Error, KeyError, TypeError, ValueError):
        return None


def _from_database(database: sqlite3.Connection) -> Dispatches:
    found: dict[int, dict[str, float]] = {}
    for row in _all(database, "counters_collection"):
        _add(found, int(row["dispatch_id"]), str(row["counter_name"]), float(row["value"]))
    rows = (_of_view(row, found) for row in _all(database, "kernels"))
    return Dispatches(tuple(sorted(rows, key=lambda each: each.number)))


def _all(database: sqlite3.Connection, view: str) -> Iterator[Mapping[str, Any]]:
    cursor = database.execute(f"SELECT * FROM {view}")
    names = [column[0] for column in cursor.description]
    for row in cursor:
        yield dict(zip(names, row, strict=True))


def _of_view(row: Mapping[str, Any], values: Mapping[int, Mapping[str, float]]) -> Dispatch:
    threads = _grid([int(row[f"workgroup_{axis.lower()}"]) for axis in _AXES])
    items = _grid([int(row[f"grid_{axis.lower()}"]) for axis in _AXES])
    number = int(row["dispatch_id"])
    return Dispatch(
        number,
        plain_name(str(row["name"])),
        _blocks(items, threads),
        threads,
        int(row["end"]) - int(row["start"]),
        None if row.get("lds_size") is None else int(row["lds_size"]),
        values.get(number, {}),
    )
