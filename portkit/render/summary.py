"""The merge of summaries as text; formats only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import polars as pl
from tabulate import tabulate

from portkit.render.columns import NONE, escaped, milliseconds, one_line, whole
from portkit.store.schema import clean

MOST_ROWS: Final = 5000
"""Rows of a text; JSON and Parquet have all."""

Line = Mapping[str, Any]


def render_summary(rows: pl.DataFrame, layout: str) -> str:
    """The rows in a layout of :data:`LAYOUTS`, with a newline at its end."""
    return LAYOUTS[layout](rows) + "\n"


def _github(rows: pl.DataFrame) -> str:
    return _table(rows, "github", escaped)


def _plain(rows: pl.DataFrame) -> str:
    return _table(rows, "simple", one_line)


def _json(rows: pl.DataFrame) -> str:
    return json.dumps({"rows": rows.to_dicts()}, indent=1, allow_nan=False)


def _table(rows: pl.DataFrame, layout: str, form: Callable[[str], str]) -> str:
    lines = rows.head(MOST_ROWS).iter_rows(named=True)
    body = [[form(clean(cell(line))) for cell in _COLUMNS.values()] for line in lines]
    more = (
        f"\n\nand {rows.height - MOST_ROWS} more rows, which JSON and Parquet have" if rows.height > MOST_ROWS else ""
    )
    return tabulate(body, list(_COLUMNS), tablefmt=layout, disable_numparse=True) + more


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


_COLUMNS: Final[Mapping[str, Callable[[Line], str]]] = {
    "kernel": _text("case"),
    "shape": _text("shape"),
    "dtype": _text("dtype"),
    "variant": _text("variant"),
    "direction": _text("direction"),
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

LAYOUTS: Final[Mapping[str, Callable[[pl.DataFrame], str]]] = {"github": _github, "plain": _plain, "json": _json}
