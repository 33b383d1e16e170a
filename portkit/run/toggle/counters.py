"""Bytes that each way moves over the device's memory, by the vendor's profiler.

The profiler runs a process of its own for the model with its modes, and one for each variant.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from portkit.errors import HostError
from portkit.model import Counted, Target
from portkit.plan.baselines import EAGER
from portkit.plan.toggle import Subject, ToggleRequest
from portkit.run.counters import SAID, Kernel, Profiler, Table, text_of
from portkit.run.counters.child import profiled_environment
from portkit.run.counters.passes import joined_tables
from portkit.run.counters.taking import open_profiler
from portkit.run.scrub import tail
from portkit.run.toggle.inductor import way_of
from portkit.run.toggle.profiled import FAILED, FAILED_FILE, ORDERS, ORDERS_FILE, ProfileOrders, range_of

PROGRAM = "portkit.run.toggle.profiled"


@dataclass(frozen=True)
class CountedWay:
    """What the counters say of one call of a way; with ``why`` where they say nothing."""

    kernels: int | None = None
    dram_bytes: int | None = None
    why: str = ""


def count_ways(request: ToggleRequest, target: Target, stage: Callable[[str], None]) -> Mapping[str, CountedWay]:
    """Count every way of an experiment.

    Args:
        request: the experiment.
        target: the device's.
        stage: hears what is done next.
    """
    parts: list[tuple[Subject, tuple[str, ...]]] = [(request.model, request.modes)]
    parts += [(variant, ()) for variant in request.variants]
    orders = [ProfileOrders(request, subject, modes, target.name) for subject, modes in parts]
    try:
        profiler = open_profiler(target)
    except HostError as error:
        return uncounted(request, error.message)
    found: dict[str, CountedWay] = {}
    for each in orders:
        stage(f"counting bytes under {profiler.tool}: {', '.join(each.ways)}")
        found |= dict(_counted(each, profiler))
    return found


def uncounted(request: ToggleRequest, why: str) -> Mapping[str, CountedWay]:
    """Every way of an experiment without counters."""
    names = (EAGER, *map(way_of, request.modes), *(variant.name for variant in request.variants))
    return dict.fromkeys(names, CountedWay(why=why))


def _counted(orders: ProfileOrders, profiler: Profiler) -> Iterator[tuple[str, CountedWay]]:
    with tempfile.TemporaryDirectory(prefix="portkit-toggle-counters-") as name:
        folder = Path(name)
        (folder / ORDERS_FILE).write_bytes(ORDERS.dump_json(orders))
        tables = [_pass(profiler, folder, number) for number in range(profiler.passes)]
        why = _why(profiler, folder)
        failed = FAILED.validate_json((folder / FAILED_FILE).read_bytes()) if (folder / FAILED_FILE).exists() else {}
    table = joined_tables(tables, {})
    for position, way in enumerate(orders.ways):
        kernels = [] if table is None else [each for each in table.kernels if each.range == range_of(position)]
        yield way, _figures(profiler, table, kernels) if kernels and table else CountedWay(why=failed.get(way, why))


def _pass(profiler: Profiler, folder: Path, number: int) -> Table | None:
    program = [sys.executable, "-m", PROGRAM, str(folder)]
    with (folder / SAID).open("wb") as said:
        subprocess.run(
            profiler.command(program, folder, number),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env=profiled_environment(os.environ),
            check=False,
        )
    return profiler.read(folder, number)


def _why(profiler: Profiler, folder: Path) -> str:
    """Why a way has no kernels in the table."""
    output = text_of(folder / profiler.log)
    told = profiler.trouble(output) or profiler.last_words(output) or tail(text_of(folder / SAID)).strip()
    return f"the profiler saw no kernel of it: {told}" if told else "the profiler saw no kernel of it"


def _figures(profiler: Profiler, table: Table, kernels: list[Kernel]) -> CountedWay:
    counted, unknown = profiler.count(kernels, (), table.lacking)
    moved = _moved(counted)
    if moved is None:
        return CountedWay(counted.kernels, None, next(iter(unknown.values()), "the profiler has no bytes of it"))
    return CountedWay(counted.kernels, moved)


def _moved(counted: Counted) -> int | None:
    if counted.dram_read_bytes is None or counted.dram_write_bytes is None:
        return None
    return counted.dram_read_bytes + counted.dram_write_bytes
