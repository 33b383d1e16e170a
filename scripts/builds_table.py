#!/usr/bin/env python3
"""What builds of AMD's architectures need: a row a launch as CSV, and a summary an architecture.

    pytest --benchmark suite.yaml --portkit-tier variants --portkit-emulate off --portkit-target \
        mi250x,mi300x,mi355x,rx7900xtx,rx7800xt,strixpoint,strixhalo,rx9060xt,rx9070xt
    .venv/bin/python scripts/builds_table.py reports/local/RUN.jsonl … -o builds.csv

The summary goes to standard output. ``waves`` is LLVM's own line, waves of a SIMD by registers;
``waves_rules`` is that of portkit's rules, and the exit code is 1 where the two differ.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from given import reports
from pydantic import TypeAdapter
from told import output, told

from portkit.model import Evidence, Launch, Platform, Record, Status
from portkit.run.binaries.amdgcn_text import DOT, MFMA, WAVES, WMMA, allocated_registers
from portkit.store.journal import read_blob, read_report
from portkit.targets.catalog import load_catalog
from portkit.targets.occupancy import waves_per_simd

Row = dict[str, Any]

_LAUNCHES = TypeAdapter(tuple[Launch, ...])

COLUMNS = (
    *("architecture", "target", "kernel_case", "direction", "variant", "dtype", "shape", "status", "why"),
    *("kernel", "trial", "num_warps", "vgpr", "vgpr_allocated", "agpr", "sgpr", "vgpr_spilled"),
    *("sgpr_spilled", "scratch_bytes", "lds_bytes", "waves", "waves_rules", "occupancy_pct"),
    *("path", "mfma", "wmma", "dot"),
)


def rows(path: Path) -> Iterator[Row]:
    """Rows of a report's compiled cells on AMD's targets; a cell that did not build has one without figures."""
    catalog = load_catalog()
    for record in read_report(path).records:
        if record.evidence is not Evidence.COMPILED:
            continue
        architecture = catalog.get(record.cell.target).architecture
        if architecture.platform is not Platform.ROCM:
            continue
        cell = record.cell
        head = {
            "architecture": architecture.name,
            "target": cell.target,
            "kernel_case": cell.case,
            "direction": cell.direction.value,
            "variant": cell.variant,
            "dtype": cell.dtype,
            "shape": cell.shape_text,
            "status": record.outcome.status.value,
            "why": record.outcome.message or "",
        }
        launches = [each for each in launches_of(path, record) if not each.forward]
        for launch in launches:
            needs = launch.resources
            rules = waves_per_simd(architecture, allocated_registers(needs), needs.raw["sgpr_count"])
            yield head | figures(launch) | {"waves_rules": rules}
        if not launches:
            yield head


def of_newest(reports: Iterable[Iterable[Row]]) -> list[Row]:
    """Rows of several reports; of a cell that is in several those of the last of them."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for report in reports:
        cells: dict[tuple[Any, ...], list[Row]] = {}
        for row in report:
            cells.setdefault(cell_of(row), []).append(row)
        found |= cells
    return [row for own in found.values() for row in own]


def cell_of(row: Row) -> tuple[Any, ...]:
    """The cell that a row is of."""
    return tuple(row[name] for name in ("target", "kernel_case", "direction", "variant", "dtype", "shape"))


def launches_of(path: Path, record: Record) -> tuple[Launch, ...]:
    """Launches of a record with all their figures, from its blob where the line had no room for them."""
    if address := record.blobs.get("launches"):
        return _LAUNCHES.validate_json(read_blob(path, address))
    return record.build.launches if record.build else ()


def figures(launch: Launch) -> Row:
    """Figures of one launch, by the columns' names."""
    raw = launch.resources.raw
    products = {"mfma": raw.get(MFMA, 0), "wmma": raw.get(WMMA, 0), "dot": raw.get(DOT, 0)}
    return {
        "kernel": launch.kernel,
        "trial": int(launch.trial),
        "num_warps": launch.num_warps,
        "vgpr": launch.resources.registers_per_thread,
        "vgpr_allocated": allocated_registers(launch.resources),
        "agpr": raw.get("agpr_count", ""),
        "sgpr": raw["sgpr_count"],
        "vgpr_spilled": raw["vgpr_spill_count"],
        "sgpr_spilled": raw["sgpr_spill_count"],
        "scratch_bytes": launch.resources.spill_bytes_per_thread,
        "lds_bytes": launch.resources.shared_bytes_per_block,
        "waves": raw[WAVES],
        "occupancy_pct": round(launch.occupancy.percent, 2),
        "path": next((name for name, count in products.items() if count), "none"),
        **products,
    }


def summary(found: Sequence[Row]) -> str:
    """A table in Markdown, a row an architecture."""
    head = ("", "cells", "built", "over a limit", "other", "launches", "spill registers", "scratch", "MFMA", "WMMA")
    head += ("fewest and most VGPRs", "waves/SIMD", "waves as by the rules")
    names = dict.fromkeys(row["architecture"] for row in found)
    rows_of = {name: [row for row in found if row["architecture"] == name] for name in names}
    lines = [head, ("---",) * len(head), *(_of_architecture(name, own) for name, own in rows_of.items())]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _of_architecture(name: str, found: Sequence[Row]) -> tuple[Any, ...]:
    cells = {cell_of(row): row for row in found}
    status = Counter(row["status"] for row in cells.values())
    built, over = status[Status.BUILT.value], status[Status.OUT_OF_RESOURCES.value]
    launched = [row for row in found if "vgpr" in row]

    def count(key: str) -> int:
        return sum(bool(row[key]) for row in launched)

    def span(key: str) -> str:
        values = [row[key] for row in launched]
        return f"{min(values)} to {max(values)}" if values else ""

    return (
        *(name, len(cells), built, over, len(cells) - built - over, len(launched)),
        *(count("vgpr_spilled"), count("scratch_bytes"), count("mfma"), count("wmma")),
        *(span("vgpr"), span("waves"), sum(row["waves"] == row["waves_rules"] for row in launched)),
    )


def main() -> int:
    """Write the rows and print the summary; 1 where LLVM's waves are not those of the rules."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path, help="reports, folders or archives of them")
    parser.add_argument("-o", "--output", type=output, help="CSV file of all rows")
    arguments = parser.parse_args()
    found = of_newest(rows(path) for path in reports(arguments.reports))
    if arguments.output:
        with arguments.output.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)
    print(summary(found))
    other = [row for row in found if row.get("waves") != row.get("waves_rules")]
    for row in other:
        print(f"LLVM {row['waves']}, rules {row['waves_rules']}: {row}", file=sys.stderr)
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(told(main))
