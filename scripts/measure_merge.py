#!/usr/bin/env python3
"""Wall time and peak memory of large merges, against the project's budget.

    .venv/bin/python scripts/measure_merge.py [--records 200000] [--rows 5000000] [--keep FOLDER]

Two measurements, each of a process of its own under ``portkit merge``:

- reports: a history of nights on ten hosts, 2,000 records a report, each line as the real writer makes it
  (``encode_fitting``): of the kept report's records, measured and compiled in equal number, with other
  cells, times and registers. Each target's cells are measured anew each night.
- summary: rows of such a history in Parquet, 20 runs a cell, merged into Parquet.

A script to run by hand, not a test: it writes about a gigabyte, and times on a busy machine mean nothing.
The exit code is 1 where a budget is exceeded.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from tabulate import tabulate

from portkit.model import Clock, End, Evidence, Header, Record, cell_key
from portkit.store.fit import encode_fitting
from portkit.store.journal import read_report
from portkit.store.merge import merge
from portkit.store.schema import encode
from portkit.store.summary import summary

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "reports" / "h200-2026-11-29"
PER_REPORT = 2000
HOSTS = 10
SECONDS, GIB = 60.0, 4.0
"""Budget of each measurement; no memory is promised for the summary, but it is shown."""


@dataclass(frozen=True)
class Measured:
    """One command."""

    what: str
    seconds: float
    cpu_seconds: float  # what the seconds would be at least on a machine that does nothing else
    peak_gib: float
    exit_code: int


def templates() -> tuple[Header, list[Record]]:
    """Header of the kept report, and its measured and compiled records by turns."""
    (path,) = KEPT.glob("*.jsonl")
    report = read_report(path)
    of = {kind: [x for x in report.records if x.evidence is kind] for kind in (Evidence.MEASURED, Evidence.COMPILED)}
    longest = range(max(map(len, of.values())))
    return report.header, [of[kind][i % len(of[kind])] for i in longest for kind in of]


def runs(count: int) -> Iterator[tuple[Header, int, int]]:
    """Headers of a history with the number of the night and of the host, oldest first."""
    header, _ = templates()
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


def records(header: Header, night: int, machine: int, sources: Sequence[Record]) -> Iterator[Record]:
    """Records of one run: cells of this machine, a little slower or faster by the night."""
    for number in range(PER_REPORT):
        source = sources[number % len(sources)]
        cell = dataclasses.replace(source.cell, variant=f"v{number}", target=f"target{machine}")
        keys = dataclasses.replace(source.keys, cell_key=cell_key(cell, source.variant_params))
        yield dataclasses.replace(
            source,
            run_id=header.run_id,
            host_id=header.host.host_id,
            cell=cell,
            keys=keys,
            timing=_moved(source, 1 + 0.001 * (night * 7 % 11)),
            device_id=f"device{machine}" if source.device_id else None,
        )


def _moved(record: Record, by: float) -> object:
    if record.timing is None:
        return None
    fused = record.timing.fused
    return dataclasses.replace(record.timing, fused=dataclasses.replace(fused, events=_times(fused.events, by)))


def _times(clock: Clock, by: float) -> Clock:
    return dataclasses.replace(
        clock, median_ms=clock.median_ms * by, low_ms=clock.low_ms * by, high_ms=clock.high_ms * by
    )


def write_reports(folder: Path, count: int) -> int:
    """Reports of so many records, as the real writer makes them but for its fsync; their bytes."""
    _, sources = templates()
    written = 0
    for header, night, machine in runs(-(-count // PER_REPORT)):
        path = folder / f"{header.run_id}.jsonl"
        statuses: dict[str, int] = {}
        with path.open("wb") as file:
            file.write(encode(header))
            for record in records(header, night, machine, sources):
                file.write(encode_fitting(record, lambda _name, _content: "0" * 64)[1])
                status = record.outcome.status.value
                statuses[status] = statuses.get(status, 0) + 1
            file.write(encode(End(header.run_id, PER_REPORT, statuses, header.started)))
        written += path.stat().st_size
    return written


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
    """Run ``portkit merge`` in a process of its own."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "portkit", "merge", *arguments], check=False, cwd=ROOT)
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(what, seconds, cpu, after.ru_maxrss / 2**20, done.returncode)


def measurements(folder: Path, count: int, rows: int) -> Iterator[Measured]:
    """Both, the smaller process first, since the system keeps the largest peak of all children alone."""
    table = folder / "summary.parquet"
    if rows:
        size = write_summary(table, rows)
        yield measure(f"{rows} rows of a summary, {size >> 20} MiB", [str(table), "-o", str(folder / "merged.parquet")])
    if count:
        reports = folder / "reports"
        reports.mkdir(exist_ok=True)
        size = write_reports(reports, count)
        yield measure(f"{count} records, {size >> 20} MiB", [str(reports), "-o", str(folder / "merged.md")])


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
    rows = [(x.what, f"{x.seconds:.1f}", f"{x.cpu_seconds:.1f}", f"{x.peak_gib:.2f}", x.exit_code) for x in found]
    heads = ["merge of", "s", "CPU s", "peak GiB of the largest so far", "exit code"]
    print(tabulate(rows, heads, disable_numparse=True))
    within = all(each.exit_code == 0 and each.seconds <= SECONDS for each in found)
    return 0 if within and (not options.records or found[-1].peak_gib <= GIB) else 1


if __name__ == "__main__":
    sys.exit(main())
