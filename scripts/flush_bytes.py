#!/usr/bin/env python3
"""What a kernel reads from memory after each way to cool the caches, by hardware counters of this host's NVIDIA GPU.

    .venv/bin/python scripts/flush_bytes.py

Before each call a kernel asked the L2 cache to keep what it loaded: nothing, the very buffer of the call, or
more of another one than the cache holds. Then the caches are cooled: by reads alone, by reads that
ask to be kept themselves and then by plain ones, or by the flush of the timing, which lets go of what was to be
kept and reads. A flush is good where a read of 8 MiB finds none of them, and ``torch.softmax``, which reads its
rows twice, reads as much whatever was kept before it. Figures are medians of three calls under Nsight Compute.
The exit code is 2 where nothing can be counted.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tabulate import tabulate

from portkit.errors import HostError
from portkit.run.counters.child import profiled_environment
from portkit.run.counters.ncu import Ncu, open_ncu

CALLS = 3
MIB = 1 << 20
SMALL_MIB, LARGE_MIB = 8, 128
ROWS, COLUMNS = 1024, 32768

KEPT = ("nothing", "the buffer read", f"{LARGE_MIB} MiB of another")
FLUSHES = ("reads", "reads to be kept, reads", "the timing's")
FUNCTIONS = (f"read of {SMALL_MIB} MiB", "torch.softmax")
CASES = tuple(itertools.product(KEPT, FLUSHES, FUNCTIONS))

Calls = Mapping[str, Callable[[], object]]
"""By name."""


@dataclass(frozen=True)
class Trial:
    """What can be done before a call, and the calls."""

    kept: Calls
    flushes: Calls
    functions: Calls
    clean: Callable[[], object]  # forgets what earlier calls had kept


def run_all() -> None:
    """Make all calls, each in a range named after its case; what is profiled."""
    import torch  # noqa: PLC0415 (the process that prints needs none)

    from portkit.run.counters.nvtx_ranges import counted, discarded  # noqa: PLC0415

    trial = _trial()
    for warm_up in (*trial.kept.values(), *trial.flushes.values(), *trial.functions.values()):
        warm_up()
    with discarded():
        torch.zeros(1, device="cuda")
    for (number, (kept, flush, function)), call in itertools.product(enumerate(CASES), range(CALLS)):
        for prepare in (trial.clean, trial.kept[kept], trial.flushes[flush]):
            prepare()
            torch.cuda.synchronize()
        with counted(f"0.{number}.{call}"):
            trial.functions[function]()
            torch.cuda.synchronize()


def _trial() -> Trial:
    import torch  # noqa: PLC0415

    from portkit.run.timing.flush import MIN_FLUSH_BYTES, make_flush, read_to_be_kept  # noqa: PLC0415

    small, large = (torch.zeros(mib * MIB // 4, dtype=torch.int32, device="cuda") for mib in (SMALL_MIB, LARGE_MIB))
    other = torch.zeros(MIN_FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    rows = torch.rand(ROWS, COLUMNS, device="cuda")
    flush = make_flush(MIN_FLUSH_BYTES)

    def reads_to_be_kept() -> None:
        read_to_be_kept(other)
        flush.read()

    return Trial(
        dict(zip(KEPT, (lambda: None, partial(read_to_be_kept, small), partial(read_to_be_kept, large)), strict=True)),
        dict(zip(FLUSHES, (flush.read, reads_to_be_kept, flush), strict=True)),
        dict(zip(FUNCTIONS, (partial(read_to_be_kept, small), partial(torch.softmax, rows, -1)), strict=True)),
        clean=flush,
    )


def counted_cases(profiler: Ncu) -> dict[int, list[tuple[float, float]]]:
    """Number of a case → MiB read from memory and µs of each of its calls.

    Raises:
        HostError: the profiler can't count here.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = profiler.command([sys.executable, __file__, "--calls"], Path(folder))
        done = subprocess.run(
            command, env=profiled_environment(os.environ), capture_output=True, text=True, check=False
        )
        output = (Path(folder) / profiler.log).read_text() if (Path(folder) / profiler.log).is_file() else ""
        table = profiler.read(Path(folder))
    if trouble := profiler.trouble(output):
        raise HostError(trouble.message, remedy=trouble.remedy)
    found = defaultdict(list)
    for kernel in table.kernels if table else ():
        if kernel.range:
            counted, _ = profiler.count([kernel])
            figures = (counted.dram_read_bytes or 0) / MIB, 1e3 * (counted.duration_ms or 0.0)
            found[int(kernel.range.split(".")[1])].append(figures)
    if not found:
        raise HostError(f"nothing was counted: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return found


def main() -> int:
    """Print the table; under the profiler, make the calls."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", action="store_true", help=argparse.SUPPRESS)  # what is profiled
    if parser.parse_args().calls:
        run_all()
        return 0
    try:
        found = counted_cases(open_ncu(_architecture()))
    except HostError as error:
        print(error.render(), file=sys.stderr)
        return 2
    rows = []
    for number, case in enumerate(CASES):
        mib, us = (statistics.median(values) for values in zip(*found[number], strict=True))
        rows.append((case[2], case[0], case[1], mib, us))
    rows.sort(key=lambda row: FUNCTIONS.index(row[0]))
    print(tabulate(rows, ["counted", "kept before", "flush", "MiB read", "µs"], floatfmt=("", "", "", ".1f", ".1f")))
    return 0


def _architecture() -> str:
    from portkit.run.host import probe_host  # noqa: PLC0415

    devices = [device for device in probe_host().devices if device.architecture.startswith("sm_")]
    if not devices:
        raise HostError("no NVIDIA GPU is here")
    return devices[0].architecture


if __name__ == "__main__":
    sys.exit(main())
