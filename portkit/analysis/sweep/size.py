"""From which tensor size fusion wins by bytes, and below which by launches.

Two gains of one call, in ms:

    by bytes     (unfused_bytes - fused_bytes) ÷ copy bandwidth: grows with the tensor
    by launches  launches saved × what a launch costs the host: the same at every size

Both rest on measurements of that device: its copy bandwidth and its launch cost, in a row or as a node of a
graph, and the launches that the device trace counted. Beside them stands the gain that was measured on
events, which keeps the host's cost out and has the gaps that the device itself leaves between kernels.
They meet at one size, interpolated between two measured ones in the work model's bytes. Where they meet beyond the
measured sizes it is only said beyond which: another size may save other launches. Both gains rest on the best of
several batches, which has no interval. The gain that was measured has one, and so has the size from which it is above
what the launches cost: where the ends of the gains' intervals meet that cost.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from portkit.analysis.estimate import Estimate
from portkit.analysis.functions import FUSED, FunctionRow
from portkit.analysis.rows import Comparison
from portkit.analysis.usable import why_unusable
from portkit.model import Clock, DeviceProbe, Direction, Ratio, Work
from portkit.plan.baselines import EAGER
from portkit.store.merge import Dataset

Key = tuple[str, Direction, str, str, str, str | None, int]
"""Case, direction, dtype, variant, target, partition, launches saved."""


@dataclass(frozen=True)
class Step:
    """One measured size."""

    shape: tuple[int, ...]
    fused_bytes: int  # of one call, by the work model
    bytes_saved: int
    bytes_ms: float  # what they take at copy bandwidth
    wins_by: str  # bytes or launches: the greater of the two gains
    saved_ms: Estimate  # measured, on events
    speedup: Ratio


class Side(StrEnum):
    """Where a size lies that was looked for."""

    BELOW = "below"  # all sizes that were measured
    AMONG = "among"  # them
    ABOVE = "above"  # all of them


@dataclass(frozen=True)
class Crossover:
    """The size from which fusion gains more than its launches cost."""

    side: Side
    fused_bytes: float  # that one fused call moves there; of the smallest or largest measured size where it is beyond


@dataclass(frozen=True)
class MeasuredCrossover:
    """The same by the gain that was measured, with its 95 % interval."""

    value: Crossover
    low: Crossover
    high: Crossover


@dataclass(frozen=True)
class Sizes:
    """One variant of an operation on one target, at several sizes."""

    kernel: str
    direction: Direction
    dtype: str
    variant: str
    target: str
    partition: str | None
    launches_saved: int  # of one call
    launch_us: float  # the least of the devices that the sizes were measured on
    graph_launch_us: float | None  # likewise
    copy_gbs: float  # the most of them
    steps: tuple[Step, ...]  # by size
    crossover: Crossover | None  # None where fusion saves no bytes
    graph_crossover: Crossover | None  # where calls are replayed from a graph
    measured_crossover: MeasuredCrossover | None  # by the gain on events; None where fusion saves no launches

    @property
    def label(self) -> str:
        """Direction, dtype and variant."""
        return f"{self.direction} {self.dtype} {self.variant}"

    @property
    def launch_ms(self) -> float:
        """What the launches that one call saves cost the host."""
        return self.launches_saved * self.launch_us / 1e3


@dataclass(frozen=True)
class _Timed:
    """What one measured row tells."""

    key: Key
    shape: tuple[int, ...]
    work: Work
    saved_ms: Estimate
    speedup: Ratio
    probe: DeviceProbe
    copy_gbs: float
    launch_us: float


def sizes(comparison: Comparison, dataset: Dataset) -> tuple[Sizes, ...]:
    """Every operation that was measured against the chain of single operations, at each of its sizes.

    Sizes whose calls save another number of launches, such as chains of another depth, are apart. Rows of a
    device without a measured bandwidth or launch cost are left out.
    """
    works = {(row.record.run_id, row.record.keys.cell_key): row.record.work for row in dataset.rows}
    probes = {(each.run_id, each.device_id): each for each in comparison.probes}
    found: dict[Key, list[_Timed]] = collections.defaultdict(list)
    for each in _timed(comparison, works, probes):
        found[each.key].append(each)
    return tuple(_sizes(key, sorted(each, key=lambda one: one.work.fused_bytes)) for key, each in found.items())


def _timed(
    comparison: Comparison,
    works: Mapping[tuple[str, str], Work | None],
    probes: Mapping[tuple[str, str], DeviceProbe],
) -> Iterable[_Timed]:
    for row in comparison.rows:
        if row.device_id is None or why_unusable(row, EAGER):
            continue
        probe, work = probes.get((row.run_id, row.device_id)), works.get((row.run_id, row.cell_key))
        functions = {each.name: each for each in row.functions}
        chain, fused = functions.get(EAGER), functions.get(FUSED)
        if probe is None or not probe.copy_gbs or not probe.launch_us or work is None or not (chain and fused):
            continue
        launches, saved = _launches(chain, fused), _saved(chain.events, fused.events)
        if launches is None or saved is None or chain.speedup is None:
            continue
        key = (row.kernel, row.direction, row.dtype, row.variant, row.target, row.partition, launches)
        yield _Timed(key, row.shape, work, saved, chain.speedup, probe, probe.copy_gbs, probe.launch_us)


def _launches(chain: FunctionRow, fused: FunctionRow) -> int | None:
    return None if chain.kernels is None or fused.kernels is None else chain.kernels - fused.kernels


def _saved(chain: Clock | None, fused: Clock | None) -> Estimate | None:
    if chain is None or fused is None:
        return None
    before, after = (Estimate(each.median_ms, each.low_ms, each.high_ms) for each in (chain, fused))
    return before - after


def _sizes(key: Key, timed: Sequence[_Timed]) -> Sizes:
    launches = key[-1]
    copy_gbs, launch_us = max(each.copy_gbs for each in timed), min(each.launch_us for each in timed)
    graph_us = min((x for each in timed if (x := each.probe.graph_launch_us) is not None), default=None)
    launch_ms = launches * launch_us / 1e3
    steps = tuple(_step(each, copy_gbs, launch_ms) for each in timed)
    return Sizes(
        *key,
        launch_us=launch_us,
        graph_launch_us=graph_us,
        copy_gbs=copy_gbs,
        steps=steps,
        crossover=crossover(steps, launch_ms),
        graph_crossover=None if graph_us is None else crossover(steps, launches * graph_us / 1e3),
        measured_crossover=measured_crossover(steps, launch_ms),
    )


def _step(each: _Timed, copy_gbs: float, launch_ms: float) -> Step:
    saved = each.work.unfused_bytes - each.work.fused_bytes
    bytes_ms = saved / copy_gbs / 1e6
    wins_by = "bytes" if bytes_ms >= launch_ms else "launches"
    return Step(each.shape, each.work.fused_bytes, saved, bytes_ms, wins_by, each.saved_ms, each.speedup)


def crossover(steps: Sequence[Step], launch_ms: float) -> Crossover | None:
    """Where what bytes save equals what launches save.

    Args:
        steps: of rising size, one at least.
        launch_ms: what the launches of one call save.

    Returns:
        None where there are no bytes or no launches to save.
    """
    if launch_ms <= 0 or any(step.bytes_ms <= 0 for step in steps):
        return None
    return _reached(steps, [step.bytes_ms for step in steps], launch_ms)


def measured_crossover(steps: Sequence[Step], launch_ms: float) -> MeasuredCrossover | None:
    """Where the gain that was measured equals what launches save, and where the ends of its interval do.

    Args:
        steps: of rising size, one at least.
        launch_ms: what the launches of one call save.
    """
    if launch_ms <= 0:
        return None
    gains = [step.saved_ms for step in steps]
    columns = ([each.value for each in gains], [each.high for each in gains], [each.low for each in gains])
    return MeasuredCrossover(*(_reached(steps, column, launch_ms) for column in columns))


def _reached(steps: Sequence[Step], gains: Sequence[float], level: float) -> Crossover:
    """The size from which on all gains are at a level at least."""
    under = [position for position, gain in enumerate(gains) if gain < level]
    if not under:
        return Crossover(Side.BELOW, steps[0].fused_bytes)
    last = under[-1]
    if last == len(steps) - 1:
        return Crossover(Side.ABOVE, steps[last].fused_bytes)
    below, above = steps[last], steps[last + 1]
    part = (level - gains[last]) / (gains[last + 1] - gains[last])
    return Crossover(Side.AMONG, below.fused_bytes + part * (above.fused_bytes - below.fused_bytes))
