#!/usr/bin/env python3
"""Wall time and peak memory of the common commands, against the project's budget.

    .venv/bin/python scripts/measure_speed.py [--tier quick] [--json FILE]

Cold means an empty Triton cache of its own; the user's cache is not touched. Peak
memory is the largest sum of proportional set sizes (PSS: shared pages are counted
once) over a command and all its children, sampled. A script to run by hand, not a
test: times on a busy machine mean nothing. Needs Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil
from tabulate import tabulate
from told import output, told

from portkit.model import End, Header, Record
from portkit.store.journal import read_report
from portkit.store.schema import encode

ROOT = Path(__file__).resolve().parent.parent
GIB = 2**30
SAMPLE_SECONDS = 0.05
REPORTS = 10


@dataclass(frozen=True)
class Measured:
    """One command against its budget; None where the budget says nothing."""

    what: str
    seconds: float
    budget_seconds: float | None
    peak_gib: float
    budget_gib: float | None
    exit_code: int

    @property
    def within(self) -> bool:
        """Whether both budgets are kept."""
        return self.seconds <= (self.budget_seconds or self.seconds) and self.peak_gib <= (
            self.budget_gib or self.peak_gib
        )


def main() -> int:
    """Measure all, print the table; exit code 1 where a budget is broken."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tier", default="quick", help="tier of the matrix (%(default)s)")
    parser.add_argument("--json", type=output, help="also write the figures here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure_all(Path(folder), options.tier)
    rows = [
        (each.what, each.seconds, each.budget_seconds, each.peak_gib, each.budget_gib, each.exit_code, each.within)
        for each in figures
    ]
    headers = ("command", "s", "budget s", "peak GiB", "budget GiB", "exit", "within")
    print(tabulate(rows, headers=headers, floatfmt=".2f", missingval="–"))
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in figures], indent=2) + "\n", encoding="utf-8")
    return 0 if all(each.within for each in figures) else 1


def measure_all(folder: Path, tier: str) -> list[Measured]:
    """The matrix cold and warm, the help text, and the merge of ten reports."""
    reports = folder / "reports"
    portkit, pytest = [sys.executable, "-m", "portkit"], [sys.executable, "-m", "pytest"]
    run = [*pytest, "-q", "--benchmark", "--portkit-tier", tier, "--portkit-report", str(reports)]
    own_caches = {"TRITON_CACHE_DIR": str(folder / "triton"), "XDG_CACHE_HOME": str(folder / "cache")}
    cold = measure(f"{tier} tier, cold cache", run, 60, 3, own_caches)
    warm = measure(f"{tier} tier, warm cache", run, 10, 3, own_caches)
    help_text = measure("portkit --help", [*portkit, "--help"], 0.5)
    merge = measure(f"merge of {REPORTS} reports", [*portkit, "merge", *copies(reports, folder)], 1)
    return [cold, warm, help_text, merge]


def measure(
    what: str,
    command: Sequence[str],
    budget_seconds: float | None = None,
    budget_gib: float | None = None,
    variables: Mapping[str, str] | None = None,
) -> Measured:
    """Run a command to its end, its output in a file that is shown where it fails to start."""
    with tempfile.TemporaryFile("w+") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **(variables or {})}, stdout=output, stderr=subprocess.STDOUT
        )
        peak = watch(process)
        seconds = time.perf_counter() - started
        if process.returncode > 1:  # 1 is pytest's for red cells, which are no matter here
            output.seek(0)
            sys.exit(f"{' '.join(command)} ended with code {process.returncode}:\n{output.read()[-3000:]}")
    return Measured(what, seconds, budget_seconds, peak / GIB, budget_gib, process.returncode)


def watch(process: subprocess.Popen[bytes]) -> int:
    """Largest memory of a process and its children, in bytes, until it ends."""
    peak, root = 0, psutil.Process(process.pid)
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):
            peak = max(peak, sum(memory(each) for each in [root, *root.children(recursive=True)]))
        time.sleep(SAMPLE_SECONDS)
    return peak


def memory(process: psutil.Process) -> int:
    """Proportional set size; 0 for a process that has just ended."""
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


def copies(reports: Path, folder: Path) -> list[str]:
    """Ten reports with run ids of their own, made from the newest."""
    report = read_report(max(reports.glob("*.jsonl"), key=lambda path: path.stat().st_mtime))
    if report.end is None:
        sys.exit(f"the report is not whole: {report.partial}")
    values: list[Header | Record | End] = [report.header, *report.records, report.end]
    made = []
    for number in range(REPORTS):
        path = folder / f"{report.header.run_id}-{number}.jsonl"
        path.write_bytes(b"".join(encode(replace(value, run_id=path.stem)) for value in values))
        made.append(str(path))
    return made


if __name__ == "__main__":
    sys.exit(told(main))
