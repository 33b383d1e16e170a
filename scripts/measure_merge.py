#!/usr/bin/env python3
"""Wall time and peak memory of large merges, against the project's budget.

    .venv/bin/python scripts/measure_merge.py [--records 200000] [--rows 5000000] [--keep FOLDER]

Two measurements, each of a process of its own under ``portkit merge``:

- reports: a history of nights on ten hosts, 2,000 records a report, each line as the real writer makes it:
  those of the kept report's records, measured and compiled in equal number, with other cells and times.
- summary: rows of such a history in Parquet, 20 runs a cell, merged into Parquet.

A script to run by hand, not a test: it writes about a gigabyte. The time for which a process waited for a core that
others had is shown beside its own, and does not count; a busy machine slows the rest down, too.
The exit code is 1 where a budget is exceeded.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from tabulate import tabulate

from portkit.model import End, Evidence, Header, Record, cell_key
from portkit.store.fit import encode_fitting
from portkit.store.journal import Report, read_report
from portkit.store.merge import merge
from portkit.store.schema import encode, sealed
from portkit.store.summary import summary

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "reports" / "h200-2026-11-29"
PER_REPORT = 2000
HOSTS = 10
SECONDS, GIB = 60.0, 4.0
"""Budget of each measurement; no memory is promised for the summary, but it is shown."""

FIGURES = ("s", "CPU s", "s without a core", "peak GiB", "exit code")


@dataclass(frozen=True)
class Measured:
    """One command."""

    what: str
    seconds: float
    cpu_seconds: float
    waited_seconds: float  # for a core that other processes had, of the seconds; 0 where the system does not tell
    peak_gib: float
    exit_code: int

    @property
    def alone_seconds(self) -> float:
        """What it would have taken on a machine that does nothing else; this is held against the budget."""
        return self.seconds - self.waited_seconds


def kept_report() -> Report:
    """The report that the repository keeps."""
    (path,) = KEPT.glob("*.jsonl")
    return read_report(path)


def kept_records() -> list[Record]:
    """Its measured and compiled records by turns."""
    every = kept_report().records
    of = {kind: [x for x in every if x.evidence is kind] for kind in (Evidence.MEASURED, Evidence.COMPILED)}
    return [of[kind][i % len(of[kind])] for i in range(max(map(len, of.values()))) for kind in of]


def runs(count: int) -> Iterator[tuple[Header, int, int]]:
    """Headers of a history with the number of the night and of the host, oldest first."""
    header = kept_report().header
    for number in range(count):
        night, machine = divmod(number, HOSTS)
        started = f"2026-{1 + night // 28 % 12:02}-{1 + night % 28:02}T0{machine % 10}:00:00+00:00"
        host = dataclasses.replace(header.host, host_id=f"host{machine:04}")
        run_id = f"run-{number:05}"
        yield (
            dataclasses.replace(header, run_id=run_id, started=started, cells=PER_REPORT, host=host, failures={}),
            night,
            machine,
        )


@dataclass(frozen=True)
class Template:
    """A record of the kept report, and its fields as the real writer has them in a line."""

    record: Record
    fields: dict[str, Any]

    @classmethod
    def of(cls, record: Record) -> Template:
        """The template that a record makes."""
        line = json.loads(encode_fitting(record, lambda _name, _content: "0" * 64)[1])
        return cls(record, {name: value for name, value in line.items() if name not in ("kind", "sum")})

    def line(self, header: Header, night: int, machine: int, number: int) -> bytes:
        """The line of another cell, a little slower or faster by the night."""
        cell = dataclasses.replace(self.record.cell, variant=f"v{number}", target=f"target{machine}")
        fields = self.fields | {
            "run_id": header.run_id,
            "host_id": header.host.host_id,
            "cell": self.fields["cell"] | {"variant": cell.variant, "target": cell.target},
            "keys": self.fields["keys"] | {"cell_key": cell_key(cell, self.record.variant_params)},
        }
        if "timing" in fields:
            timing = fields["timing"]
            events = {name: _moved(name, value, night) for name, value in timing["fused"]["events"].items()}
            fields["timing"] = timing | {"fused": timing["fused"] | {"events": events}}
            fields["device_id"] = f"device{machine}"
        return sealed("record", fields)


def _moved(name: str, value: float, night: int) -> float:
    return value * (1 + 0.001 * (night * 7 % 11)) if name.endswith("_ms") else value


def write_reports(folder: Path, count: int) -> int:
    """Reports of so many records, as the real writer makes them but for its fsync; their bytes."""
    written = 0
    templates = [Template.of(record) for record in kept_records()]
    for header, night, machine in runs(-(-count // PER_REPORT)):
        path = folder / f"{header.run_id}.jsonl"
        written += path.write_bytes(content(header, templates, night, machine))
    return written


def content(header: Header, templates: Sequence[Template], night: int, machine: int) -> bytes:
    """A report with as many records as its header says."""
    every = [templates[number % len(templates)] for number in range(header.cells)]
    lines = [each.line(header, night, machine, number) for number, each in enumerate(every)]
    statuses = collections.Counter(each.record.outcome.status.value for each in every)
    end = End(header.run_id, header.cells, dict(statuses), header.started)
    return b"".join([encode(header), *lines, encode(end)])


def write_summary(path: Path, rows: int) -> int:
    """A summary of so many rows: one real night, with other cells and 20 runs of each; its bytes."""
    with tempfile.TemporaryDirectory() as folder:
        write_reports(Path(folder), PER_REPORT * HOSTS)
        night = summary(merge([Path(folder)]))
    cells = pl.concat(
        night.with_columns(pl.concat_str("cell_key", pl.lit(f"-{copy}")).alias("cell_key"))
        for copy in range(-(-rows // 20 // night.height))
    )
    parts = [_of_run(cells, number) for number in itertools.takewhile(lambda n: n * cells.height < rows, range(20))]
    pl.concat(parts).head(rows).write_parquet(path)
    return path.stat().st_size


def _of_run(cells: pl.DataFrame, number: int) -> pl.DataFrame:
    return cells.with_columns(
        pl.concat_str("run_id", pl.lit(f"-{number}")).alias("run_id"),
        pl.lit(f"2026-03-{1 + number:02}T00:00:00+00:00").alias("started"),
        pl.col("events_median_ms", "trace_median_ms") * (1 + 0.001 * number),
    )


def measure(what: str, arguments: Sequence[str]) -> Measured:
    """Run ``portkit`` in a process of its own; what it prints is not shown."""
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "portkit", *arguments], stdout=subprocess.DEVNULL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    seconds, waited = time.perf_counter() - begin, _waited(process.pid)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Measured(what, seconds, used.ru_utime + used.ru_stime, waited, used.ru_maxrss / 2**20, process.returncode)


def _waited(pid: int) -> float:
    """Seconds for which a process's first thread could have run and had no core (proc(5), ``schedstat``)."""
    try:
        return int(Path("/proc", str(pid), "schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def figures(found: Measured) -> tuple[str, ...]:
    """Its figures as a table shows them under :data:`FIGURES`."""
    times = (found.seconds, found.cpu_seconds, found.waited_seconds)
    return *(f"{time:.1f}" for time in times), f"{found.peak_gib:.2f}", str(found.exit_code)


def measurements(folder: Path, count: int, rows: int) -> Iterator[Measured]:
    """Both."""
    table = folder / "summary.parquet"
    if rows:
        size = write_summary(table, rows)
        yield measure(
            f"{rows} rows of a summary, {size >> 20} MiB", ["merge", str(table), "-o", str(folder / "merged.parquet")]
        )
    if count:
        reports = folder / "reports"
        reports.mkdir(exist_ok=True)
        size = write_reports(reports, count)
        yield measure(f"{count} records, {size >> 20} MiB", ["merge", str(reports), "-o", str(folder / "merged.md")])


@contextlib.contextmanager
def place(keep: Path | None) -> Iterator[Path]:
    """Where to write: a folder that goes, or one that stays."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def main() -> int:
    """Print the table and whether the budget is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000, help="in reports; 0 leaves them out")
    parser.add_argument("--rows", type=int, default=5_000_000, help="in the summary; 0 leaves it out")
    parser.add_argument("--keep", type=Path, help="folder for what is written; by default it is removed")
    options = parser.parse_args()
    with place(options.keep) as folder:
        found = list(measurements(folder, options.records, options.rows))
    print(tabulate([(x.what, *figures(x)) for x in found], ["merge of", *FIGURES], disable_numparse=True))
    within = all(each.exit_code == 0 and each.alone_seconds <= SECONDS for each in found)
    return 0 if within and (not options.records or found[-1].peak_gib <= GIB) else 1


if __name__ == "__main__":
    sys.exit(main())
