#!/usr/bin/env python3
"""Registers of kernels that a device has loaded beside those of the binaries built without one.

    .venv/bin/python scripts/compare_registers.py REPORT...

Every launch of each measured cell: what the driver says of the loaded kernel, what the binary
says that was loaded, and what the binary says that a compiled cell of the same source, shape,
variant and Triton has, in any of the reports. Of an autotuned kernel a compiled cell has every
configuration, and the one that ran is looked for among them. All must be equal; the last column
says whether the binaries are so bit by bit, which is told and not asked for. The exit code is 1
where registers differ, and 2 where no measured cell has a compiled one beside it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from pydantic import TypeAdapter
from tabulate import tabulate
from told import told

from portkit.model import Evidence, Launch, Record
from portkit.store.journal import Report, blob_path, read_blob
from portkit.store.sources import Sources

Key = tuple[str, str, str | None]
"""Cell, source and Triton."""


@dataclass(frozen=True)
class Line:
    """One launch of a measured cell."""

    cell: str
    kernel: str
    driver: int | None  # registers a thread; None: the driver was not asked
    loaded: int  # of the binary that ran
    built: tuple[int, ...]  # of the compiled cell's binaries that it may be
    same_binary: bool

    @property
    def agrees(self) -> bool:
        """Whether all three say the same."""
        return self.driver in (None, self.loaded) and self.loaded in self.built


def records_of(report: Report) -> Iterator[Record]:
    """Records of a report, with all of their launches, those in the side folder too.

    A report that is kept without that folder has some whose launches are not all there: these are left out.
    """
    left_out = 0
    for record in report.records:
        if record.build and (address := record.blobs.get("launches")):
            if not blob_path(Path(report.path), address).is_file():
                left_out += 1
                continue
            launches = _LAUNCHES.validate_json(read_blob(Path(report.path), address))
            yield replace(record, build=replace(record.build, launches=launches, omitted_launches=0))
        else:
            yield record
    if left_out:
        print(f"{report.path}: {left_out} records left out, whose launches are in no side folder here", file=sys.stderr)


_LAUNCHES = TypeAdapter(tuple[Launch, ...])


def lines(records: Sequence[Record], others: Sequence[Record] = ()) -> Iterator[Line]:
    """Launches of all measured cells that have a compiled one beside them.

    Args:
        records: of one report, whose own compiled cells go before those of others.
        others: records of other reports.
    """
    compiled = {_key(each): each for each in (*others, *records) if each.evidence is Evidence.COMPILED and each.build}
    for record in records:
        if record.evidence is Evidence.MEASURED and record.build and (other := compiled.get(_key(record))):
            yield from _of_cell(record, other)


def _of_cell(measured: Record, compiled: Record) -> Iterator[Line]:
    assert measured.build is not None
    assert compiled.build is not None
    for launch in measured.build.counted:
        candidates = [each for each in compiled.build.candidates if _alike(launch, each)]
        same = any(each.binary_hash == launch.binary_hash for each in candidates)
        yield Line(
            measured.cell.label(measured.evidence),
            launch.kernel,
            launch.loaded.registers_per_thread if launch.loaded else None,
            launch.resources.registers_per_thread,
            tuple(each.resources.registers_per_thread for each in candidates),
            same,
        )


def _alike(one: Launch, other: Launch) -> bool:
    """Whether both are the same kernel with the same constants and options."""
    names = ("kernel", "num_warps", "num_stages", "constants", "specialization")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _key(record: Record) -> Key:
    return record.keys.cell_key, record.keys.source_hash, record.triton


def _row(line: Line) -> tuple[object, ...]:
    built = ", ".join(map(str, dict.fromkeys(line.built))) or "none"
    driver = "?" if line.driver is None else line.driver
    same = "yes" if line.same_binary else "no"
    return line.cell, line.kernel, driver, line.loaded, built, "yes" if line.agrees else "no", same


def main() -> int:
    """Print the table and how many agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path, help="reports, folders or archives of them")
    sources = Sources()
    for path in parser.parse_args().reports:
        sources.add(path)
    reports = [list(records_of(report)) for report in sources.read()]
    every = list(chain.from_iterable(reports))
    found = [line for records in reports for line in lines(records, every)]
    if not found:
        print("no measured cell has a compiled one of the same Triton beside it", file=sys.stderr)
        return 2
    headers = ["cell", "kernel", "driver", "loaded binary", "built without a GPU", "agree", "same bits"]
    print(tabulate(map(_row, found), headers))
    agreeing, cells = sum(line.agrees for line in found), len({line.cell for line in found})
    print(f"{agreeing} of {len(found)} launches of {cells} cells agree, {sum(x.same_binary for x in found)} bit by bit")
    return 0 if agreeing == len(found) else 1


if __name__ == "__main__":
    sys.exit(told(main))
