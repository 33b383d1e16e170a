"""The merge of summaries as text; formats only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import polars as pl
from tabulate import tabulate

from portkit.render.columns import NONE, Column, Notes, escaped, milliseconds, plain_table, whole
from portkit.store.schema import clean

MOST_ROWS: Final = 5000
"""Rows of a text; JSON and Parquet have all."""

Line = Mapping[str, Any]


def render_summary(rows: pl.DataFrame, layout: str, width: int | None = None) -> str:
    """The rows in a layout of :data:`LAYOUTS`, with a newline at its end.

    Args:
        rows: of a merge of summaries.
        layout: name of the layout.
        width: characters of the terminal that the plain layout is for; None: as wide as it is.
    """
    return LAYOUTS[layout](rows, width) + "\n"


def _github(rows: pl.DataFrame, width: int | None) -> str:
    del width  # a page has room
    columns = {**_OPERATION, **_COLUMNS}
    body = [[escaped(clean(cell(line))) for cell in columns.values()] for line in _lines(rows)]
    return tabulate(body, list(columns), tablefmt="github", disable_numparse=True) + _more(rows)


def _plain(rows: pl.DataFrame, width: int | None) -> str:
    return plain_table(_PLAIN, _lines(rows), _group, Notes(), width) + _more(rows)


def _json(rows: pl.DataFrame, width: int | None) -> str:
    del width
    return json.dumps({"rows": rows.to_dicts()}, indent=1, allow_nan=False)


def _lines(rows: pl.DataFrame) -> list[Line]:
    return list(rows.head(MOST_ROWS).iter_rows(named=True))


def _more(rows: pl.DataFrame) -> str:
    left = rows.height - MOST_ROWS
    return f"\n\nand {left} more rows, which JSON and Parquet have" if left > 0 else ""


def _group(line: Line) -> str:
    return clean(" ".join(cell(line) for cell in _OPERATION.values()))


def _text(name: str) -> Callable[[Line], str]:
    return lambda line: line[name] if line[name] is not None else NONE


def _figure(name: str, form: Callable[[float], str]) -> Callable[[Line], str]:
    return lambda line: form(line[name]) if line[name] is not None else NONE


def _target(line: Line) -> str:
    return f"{line['target']} {line['partition'] or ''}".strip()


def _evidence(line: Line) -> str:
    return str(line["evidence"]) + (" †" if line["older_source"] else "")


def _spread(kind: str) -> Callable[[Line], str]:
    """Half of what lies between the least and the most, in percent of their middle."""

    def cell(line: Line) -> str:
        low, high, count = line[f"{kind}_low_ms"], line[f"{kind}_high_ms"], line[f"{kind}s"]
        if low is None or count < 2 or low + high == 0:
            return NONE
        return f"{100 * (high - low) / (high + low):.1f}"

    return cell


_OPERATION: Final[Mapping[str, Callable[[Line], str]]] = {
    "kernel": _text("case"),
    "shape": _text("shape"),
    "dtype": _text("dtype"),
    "variant": _text("variant"),
    "direction": _text("direction"),
}
"""What the rows of one group have alike."""

_COLUMNS: Final[Mapping[str, Callable[[Line], str]]] = {
    "target": _target,
    "evidence": _evidence,
    "status": _text("status"),
    "registers": _figure("registers_per_thread", whole),
    "spills B": _figure("spill_bytes_per_thread", whole),
    "shared B": _figure("shared_bytes_per_block", whole),
    "occupancy %": _figure("occupancy_pct", whole),
    "events ms": _figure("events_median_ms", milliseconds),
    "trace ms": _figure("trace_median_ms", milliseconds),
    "runs": _figure("runs", whole),
    "± % of runs": _spread("run"),
    "nodes": _figure("nodes", whole),
    "± % of nodes": _spread("node"),
    "apart": _figure("apart", whole),
    "Triton": _text("triton"),
}

_SPARE: Final = ("± % of runs", "apart", "runs", "nodes", "shared B", "± % of nodes", "Triton", "trace ms", "spills B")
"""Columns that a narrow terminal goes without, the first of them first."""


def _plain_column(name: str, cell: Callable[[Line], str]) -> Column[Line]:
    spare = len(_SPARE) - _SPARE.index(name) if name in _SPARE else 0
    right = name not in ("target", "evidence", "status", "Triton")
    return Column(("", "", name), lambda line, _: clean(cell(line)), right, spare)


_PLAIN: Final = tuple(_plain_column(name, cell) for name, cell in _COLUMNS.items())

LAYOUTS: Final[Mapping[str, Callable[[pl.DataFrame, int | None], str]]] = {
    "github": _github,
    "plain": _plain,
    "json": _json,
}
