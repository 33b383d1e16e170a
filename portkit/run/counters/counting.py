"""Takes tasks through the profiler until each has its figures, or the reason why it has none.

A task under which the profiled program dies or hangs costs itself: another run goes on with
the others. What was counted before such a death and did not reach the table is counted again,
once.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from portkit.model import Counted, Target
from portkit.run.counters import Kernel, Profiler, Task
from portkit.run.counters.child import Begun, Progress, Ran
from portkit.run.counters.orders import Orders
from portkit.run.counters.passes import run_passes
from portkit.run.jobs import Limits
from portkit.run.timing.samples import FUSED

FUNCTIONS: Final = "functions"
"""Name under which a reason stands that holds for all functions of a cell."""

MOST_TASKS: Final = 100
"""Tasks of one run of the profiler: what a death of the profiler itself costs at most, twice its start."""

_MOST_ATTEMPTS = 2
_MOST_FRUITLESS = 3  # runs in a row in which no call was made: the device is gone, say


@dataclass(frozen=True)
class Figures:
    """What was counted of a task."""

    functions: Mapping[str, Counted] = field(default_factory=dict)
    nulls: Mapping[str, str] = field(default_factory=dict)  # functions, function or function.figure → why unknown
    kernels: tuple[Kernel, ...] = ()
    seconds: float | None = None  # of the profiler's runs, shared out evenly; None: none was begun


@dataclass(frozen=True)
class Place:
    """Where tasks are counted."""

    target: Target
    device_index: int
    limits: Limits


def count_tasks(
    tasks: Sequence[Task],
    profiler: Profiler,
    place: Place,
    stop: Callable[[], bool] = lambda: False,
    told: Callable[[int], None] = lambda done: None,
    begun: Begun | None = None,
) -> Iterator[tuple[Task, Figures]]:
    """Count tasks on one device; each is yielded once it is known, unless it is stopped before.

    Args:
        tasks: of one device, those of a case one after the other.
        profiler: of its vendor.
        place: the device, and the limits of time.
        stop: asked now and then whether to break off.
        told: told how many tasks are done.
        begun: a run of the profiler that waits for its orders.
    """
    left = {task.number: task for task in tasks}
    attempts: Counter[int] = Counter()
    fruitless = 0  # runs in a row
    since = time.monotonic()
    while left and not stop():
        now = tuple(islice(left.values(), MOST_TASKS))
        before = len(tasks) - len(left)

        def tell(progress: Progress, before: int = before) -> None:
            told(before + len(progress.ended))

        orders = Orders(now, place.target, place.device_index)
        ran = run_passes(profiler, orders, place.limits, stop, tell, begun)
        if ran.progress.task is None:  # else the task under way is settled, and the rest is worth another attempt
            attempts.update(ran.progress.ended)
        stopped = stop()
        known = dict(_settled(now, ran, profiler, attempts, stopped=stopped))
        fruitless = 0 if ran.progress.counted else fruitless + 1
        if not stopped and (why := _hopeless(ran, fruitless)):
            known |= {number: Figures(nulls={FUNCTIONS: why}) for number in left if number not in known}
        share = (time.monotonic() - since) / max(1, len(known))
        for number, figures in known.items():
            yield left.pop(number), replace(figures, seconds=round(share, 3))
        if known:  # else the next run answers for the time of this one, too
            since = time.monotonic()


def _hopeless(ran: Ran, fruitless: int) -> str | None:
    """Why no further run of the profiler would count anything."""
    if ran.trouble:
        return str(ran.trouble)
    if ran.came_to_a_task and fruitless < _MOST_FRUITLESS:
        return None
    return f"nothing was counted: {ran.ending}"


def _settled(
    tasks: Sequence[Task], ran: Ran, profiler: Profiler, attempts: Mapping[int, int], *, stopped: bool
) -> Iterator[tuple[int, Figures]]:
    """Tasks that this run of the profiler answers for."""
    seen = _by_range(ran)
    for task in tasks:
        reading = _Reading(task, ran, seen)
        dead = ran.progress.task == task.number
        if not (task.number in ran.progress.ended or (dead and not stopped)):
            continue
        again = not dead and not ran.good and attempts[task.number] < _MOST_ATTEMPTS
        if not (reading.lost and again):
            yield task.number, reading.figures(profiler)


def _by_range(ran: Ran) -> Mapping[str, list[Kernel]]:
    """Kernels of each range; without the last of a table that is cut off, since kernels of it may be missing."""
    seen: dict[str, list[Kernel]] = defaultdict(list)
    if ran.table is None:
        return seen
    for kernel in ran.table.kernels:
        seen[kernel.range].append(kernel)
    if not ran.table.whole and ran.table.kernels:
        del seen[ran.table.kernels[-1].range]
    return seen


@dataclass(frozen=True)
class _Call:
    """One counted call of a function."""

    kernels: tuple[Kernel, ...]
    counted: Counted
    unknown: Mapping[str, str]  # figure → why


def _median(calls: Sequence[_Call]) -> _Call:
    """The call of median duration, of an even number the shorter: figures of one call belong together."""
    ordered = sorted(calls, key=lambda call: call.counted.duration_ms or 0.0)
    call = ordered[(len(ordered) - 1) // 2]
    return replace(call, counted=replace(call.counted, calls=len(calls)))


class _Reading:
    """One task as a run of the profiler left it."""

    def __init__(self, task: Task, ran: Ran, seen: Mapping[str, list[Kernel]]) -> None:
        self._task = task
        self._ran = ran
        self._calls = {name: [tuple(seen[r]) for r in task.ranges_of(name) if r in seen] for name in task.functions}

    @property
    def lost(self) -> bool:
        """Whether a function was called and its kernels are not in a table that is whole."""
        return not self._whole and any(
            len(self._calls[name]) < len(self._task.ranges_of(name)) for name in self._called
        )

    def figures(self, profiler: Profiler) -> Figures:
        """Figures of each function, or why there are none."""
        told: dict[str, _Call] = {}
        nulls: dict[str, str] = {}
        for name in self._task.functions:
            if name in self._called and (calls := self._calls[name]):
                told[name] = _median([_Call(kernels, *self._count(profiler, name, kernels)) for kernels in calls])
                nulls |= {f"{name}.{figure}": why for figure, why in told[name].unknown.items()}
            else:
                nulls[name] = self._why_not(name)
        if not told and len(reasons := set(nulls.values())) == 1:
            nulls = {FUNCTIONS: reasons.pop()}
        kernels = tuple(kernel for call in told.values() for kernel in call.kernels)
        return Figures({name: call.counted for name, call in told.items()}, nulls, kernels)

    def _count(self, profiler: Profiler, name: str, kernels: Sequence[Kernel]) -> tuple[Counted, dict[str, str]]:
        built = self._task.built if name == FUSED else ()
        return profiler.count(kernels, built, self._ran.table.lacking if self._ran.table else {})

    @property
    def _whole(self) -> bool:
        return self._ran.table is not None and self._ran.table.whole

    @property
    def _called(self) -> tuple[str, ...]:
        number, counted = self._task.number, self._ran.progress.counted
        return tuple(name for name in self._task.functions if (number, name) in counted)

    def _why_not(self, name: str) -> str:
        failed, number = self._ran.progress.failed, self._task.number
        if why := failed.get((number, name)) or failed.get((number, "")):
            return why
        if name not in self._called:
            return f"the profiled process did not survive the cell: {self._ran.ending}"
        if self._whole:
            return "the profiler saw no kernel of it"
        what = "wrote no table" if self._ran.table is None else "did not write its table to the end"
        return f"the profiler {what}: {self._ran.ending}"
