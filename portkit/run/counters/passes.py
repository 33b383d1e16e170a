"""Joins the passes of a profiler that can't count all that is asked in one run of the program.

Each pass is the same program on the same tasks, so the kernels of a range are alike, one by
one. A pass in which nothing can be counted costs its own metrics; one under which the
program dies is the last: what is left is for another attempt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from portkit.run.counters import Kernel, Profiler, Table
from portkit.run.counters.child import Begun, Progress, Ran, run_profiler
from portkit.run.counters.orders import Orders
from portkit.run.jobs import Limits


def run_passes(
    profiler: Profiler,
    orders: Orders,
    limits: Limits,
    stop: Callable[[], bool] = lambda: False,
    told: Callable[[Progress], None] = lambda progress: None,
    begun: Begun | None = None,
) -> Ran:
    """Run all passes over tasks; parameters as of :func:`~portkit.run.counters.child.run_profiler`.

    Returns:
        What they left, as if one run had: the table has the metrics of all passes.
    """
    runs: list[Ran] = []
    for number in range(profiler.passes):
        is_last = number + 1 == profiler.passes
        ran = run_profiler(profiler, orders, limits, stop, told if is_last else lambda progress: None, number, begun)
        if profiler.passes == 1:
            return ran
        if not (ran.good or _unusable(ran)) or (stop() and not is_last):
            return replace(ran, table=None, good=False)
        runs.append(ran)
    return joined(runs, profiler)


def _unusable(ran: Ran) -> bool:
    """Whether nothing can be counted in this pass, through no fault of a task."""
    return ran.trouble is not None or not ran.came_to_a_task


def joined(runs: Sequence[Ran], profiler: Profiler) -> Ran:
    """Runs of all passes as one; of none that counted, the first."""
    counted = [ran for ran in runs if not _unusable(ran)]
    if not counted:
        return replace(runs[0], table=None)
    lacking: dict[str, str] = {}
    for number, ran in enumerate(runs):
        if _unusable(ran):
            lacking |= profiler.without(number, str(ran.trouble or ran.ending))
    progress = replace(
        counted[-1].progress,
        counted=set.intersection(*(ran.progress.counted for ran in counted)),
        failed={key: why for ran in counted for key, why in ran.progress.failed.items()},
    )
    return replace(counted[-1], progress=progress, table=joined_tables([ran.table for ran in counted], lacking))


def joined_tables(tables: Sequence[Table | None], lacking: Mapping[str, str]) -> Table | None:
    """One table with the kernels of the first and the metrics of all; None where one is missing."""
    known = [table for table in tables if table is not None]
    if len(known) < len(tables):
        return None
    kernels = known[0].kernels
    for table in known[1:]:
        kernels = _with_metrics(kernels, table.kernels)
    reasons = {metric: why for table in known for metric, why in table.lacking.items()}
    return Table(kernels, all(table.whole for table in known), {**reasons, **lacking})


def _with_metrics(kernels: Sequence[Kernel], others: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """Kernels with what another pass has of them; where that ran other kernels in a range, without."""
    mine, theirs = _by_range(kernels), _by_range(others)
    extra: dict[int, Mapping[str, float | str]] = {}
    for name, group in mine.items():
        same = theirs.get(name, [])
        if [kernels[place].name for place in group] == [others[place].name for place in same]:
            extra |= {place: others[other].metrics for place, other in zip(group, same, strict=True)}
    return tuple(
        replace(kernel, metrics={**extra.get(place, {}), **kernel.metrics}) for place, kernel in enumerate(kernels)
    )


def _by_range(kernels: Sequence[Kernel]) -> Mapping[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for place, kernel in enumerate(kernels):
        places[kernel.range].append(place)
    return places
