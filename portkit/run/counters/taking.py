"""Takes the counters of a run's measured cells, device by device, and has them written.

They come after all cells of the run, since a profiler slows down and is not let near a clock.
"""

from __future__ import annotations

import contextlib
import enum
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from portkit.errors import HostError
from portkit.model import (
    CaseSource,
    Counted,
    Counters,
    Device,
    Evidence,
    Platform,
    Record,
    Status,
    Target,
    Timed,
)
from portkit.plan.baselines import EAGER
from portkit.run.counters import BuiltKernel, Profiler, Task, plain
from portkit.run.counters.child import Begun
from portkit.run.counters.counting import FUNCTIONS, Figures, Place, count_tasks
from portkit.run.counters.ncu import open_ncu
from portkit.run.counters.rocprof import open_rocprof
from portkit.run.jobs import Limits
from portkit.run.timing.samples import FUSED

COUNTERS_OPTION: Final = "--portkit-counters"

KERNELS: Final = "kernels"
"""Name of the blob with the rows of all kernels."""

CHEAP: Final = (EAGER, "torch")
"""Baselines that need nothing loaded under the profiler but PyTorch."""

MOST_CALLS: Final = 3
"""Calls of a function that are counted at most; the one of median duration is told of."""

MOST_KERNELS: Final = 6
"""Kernels of one function that are counted at most, but for those of its first call."""

NOTABLE_COPIES: Final = 0.01
"""Share of a call's time on the trace from which copies and fills that are not counted are told of."""

EVERYTHING_OPTION: Final = "--portkit-count-all"

_NOT_ASKED = f"not counted by default, since it takes seconds to load its compiler or library: {EVERYTHING_OPTION}"

_OPEN: Final[Mapping[Platform, Callable[[Target, bool], Profiler]]] = {
    Platform.CUDA: lambda target, local: open_ncu(target.architecture.name, local=local),
    Platform.ROCM: lambda target, local: open_rocprof(target),  # which has no such counter
}


class Choice(enum.StrEnum):
    """Whether a run takes counters."""

    AUTO = "auto"  # where profiler and permission are there; elsewhere the reason is written
    OFF = "off"
    REQUIRE = "require"  # a run without them is refused, or fails at its end


@dataclass(frozen=True)
class Counting:
    """What the counters of a run need beside its records."""

    sources: Mapping[str, CaseSource]
    targets: Mapping[str, Target]
    devices: Sequence[Device]
    limits: Limits
    everything: bool  # baselines of compilers and libraries, too
    store: Callable[[str, bytes], str]  # name and content of a blob → its address
    load: Callable[[str], bytes]  # address of a blob → its content
    stop: Callable[[], bool]
    told: Callable[[int, int], None]  # done, of how many
    begun: Begun | None = None  # the profiler, whose program waits for its orders


def open_profiler(target: Target, *, local: bool = True) -> Profiler:
    """The profiler for a target's devices.

    Args:
        target: the SKU.
        local: whether the traffic of local memory is counted where it can be.

    Raises:
        HostError: there is none here, or it can't be used.
    """
    return _OPEN[target.architecture.platform](target, local)


def begin_early(targets: Iterable[Target], *, local: bool = False) -> Begun | None:
    """Start the profiler while cells are yet measured, of the first target whose profiler lets their device alone.

    Few kernels have local memory. Cells where one does have another run.
    """
    for target in targets:
        with contextlib.suppress(HostError, OSError):
            if (profiler := open_profiler(target, local=local)).early:
                return Begun(profiler)
    return None


def is_counted(record: Record) -> bool:
    """Whether a cell has counters: one that was measured and right."""
    return record.evidence is Evidence.MEASURED and record.outcome.status is Status.PASSED


def take_counters(records: Collection[Record], counting: Counting) -> Iterator[Counters]:
    """Counters of the cells, each as soon as it is known; fewer where it is stopped.

    Cells whose kernels may have local memory come last on their device, in a run of the profiler of their own:
    its traffic takes the profiler longer, for every kernel of the run.
    """
    groups: dict[tuple[str, bool], list[tuple[int, Record]]] = {}
    for number, record in enumerate(sorted(filter(is_counted, records), key=_order)):
        local = counting.everything or _may_spill(record)
        groups.setdefault((_device_of(record, counting).device_id, local), []).append((number, record))
    total, done = sum(map(len, groups.values())), 0
    for (_, local), group in sorted(groups.items()):
        yield from _of_device(dict(group), local, counting, partial(_tell, counting, done, total))
        done += len(group)


def _tell(counting: Counting, before: int, total: int, done: int) -> None:
    counting.told(before + done, total)


def _order(record: Record) -> tuple[str, str]:
    return record.cell.target, record.cell.case


def _device_of(record: Record, counting: Counting) -> Device:
    """The device that measured the cell, or another of its SKU where that is not of this host."""
    same = [device for device in counting.devices if device.target == record.cell.target]
    return next((device for device in same if device.device_id == record.device_id), same[0])


def _of_device(
    records: Mapping[int, Record], local: bool, counting: Counting, told: Callable[[int], None]
) -> Iterator[Counters]:
    first = next(iter(records.values()))
    target, device = counting.targets[first.cell.target], _device_of(first, counting)
    try:
        profiler = open_profiler(target, local=local)
    except HostError as error:
        why = f"{error.message}; {error.remedy}"
        nothing = Figures(nulls={FUNCTIONS: why})
        yield from (_counters(record, error.message, device, nothing, counting) for record in records.values())
        return
    tasks = [_task(number, record, counting) for number, record in records.items()]
    place = Place(target, device.index, counting.limits)
    for task, figures in count_tasks(tasks, profiler, place, counting.stop, told, counting.begun):
        yield _counters(records[task.number], profiler.tool, device, figures, counting)


def _may_spill(record: Record) -> bool:
    """Whether a kernel of the cell has local memory, as far as its build is known."""
    return record.build is None or any(launch.resources.spill_bytes_per_thread for launch in record.build.candidates)


def _task(number: int, record: Record, counting: Counting) -> Task:
    baselines = [name for name in _timed_baselines(record, counting) if counting.everything or name in CHEAP]
    functions = (FUSED, *baselines)
    calls = tuple(calls_for(_kernels(record, name)) for name in functions)
    source = counting.sources[record.cell.case]
    return Task(number, record.cell, source, functions, calls, built=tuple(_built(record)))


def _built(record: Record) -> Iterator[BuiltKernel]:
    """Kernels of the fused function; none where the record had no room for its build."""
    for launch in record.build.candidates if record.build else ():
        needs = launch.resources
        yield BuiltKernel(
            launch.kernel,
            needs.registers_per_thread,
            needs.shared_bytes_per_block,
            needs.threads_per_block,
            math.prod(launch.grid),
            launch.occupancy.blocks_per_unit or None,
            needs.spill_bytes_per_thread,
        )


def calls_for(kernels: int | None) -> int:
    """How often a function of so many kernels is counted: each kernel takes the profiler's time anew."""
    return min(MOST_CALLS, max(1, MOST_KERNELS // (kernels or 1)))


def _kernels(record: Record, function: str) -> int | None:
    timed = _timed(record, function)
    return timed.kernels if timed else MOST_KERNELS


def _timed(record: Record, function: str) -> Timed | None:
    """Times of a function; None where the record had no room for any."""
    if record.timing is None:
        return None
    return record.timing.fused if function == FUSED else record.timing.baselines[function]


def _short_of_copies(record: Record, functions: Mapping[str, Counted]) -> dict[str, str]:
    """Functions whose bytes are too few, since the driver copies or fills without a kernel: figure → why."""
    found: dict[str, str] = {}
    for name, counted in functions.items():
        timed = _timed(record, name)
        if timed and _lacks_copies(timed, counted):
            why = f"a lower bound: {timed.copies} of {timed.kernels} launches copy or fill without a kernel, uncounted"
            found |= dict.fromkeys((f"{name}.dram_read_bytes", f"{name}.dram_write_bytes"), why)
    return found


def _lacks_copies(timed: Timed, counted: Counted) -> bool:
    """Whether the profiler saw all but the copies, and these take some of the time."""
    if not (timed.copies and timed.kernels and timed.copied_ms and timed.trace):
        return False
    uncounted = timed.kernels - counted.kernels >= timed.copies
    return uncounted and timed.copied_ms >= NOTABLE_COPIES * timed.trace.median_ms


def _left_out(record: Record, counting: Counting) -> dict[str, str]:
    names = () if counting.everything else _timed_baselines(record, counting)
    return dict.fromkeys((name for name in names if name not in CHEAP), _NOT_ASKED)


def _timed_baselines(record: Record, counting: Counting) -> Iterable[str]:
    if record.timing:
        return record.timing.baselines
    if address := record.blobs.get("timing"):  # the record had no room for it
        return tuple(json.loads(counting.load(address)).get("baselines", ()))
    return ()


def _counters(record: Record, tool: str, device: Device, figures: Figures, counting: Counting) -> Counters:
    rows: list[dict[str, Any]] = plain(figures.kernels)
    blobs = {KERNELS: counting.store(KERNELS, json.dumps(rows).encode())} if rows else {}
    nulls = {**_short_of_copies(record, figures.functions), **figures.nulls}
    return Counters(
        run_id=record.run_id,
        cell_key=record.keys.cell_key,
        evidence=record.evidence,
        tool=tool,
        functions=figures.functions,
        seconds=figures.seconds,
        device_id=device.device_id,
        nulls=nulls if FUNCTIONS in nulls else {**nulls, **_left_out(record, counting)},
        blobs=blobs,
    )
