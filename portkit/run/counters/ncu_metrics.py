"""Names of Nsight Compute's metrics, what is made of them, and which chips have which.

Source of the names by chip: the counter tables in NVIDIA's libnvperf_host (CUPTI 13.5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from portkit.model import Counted
from portkit.run.counters import BuiltKernel, Kernel, short_name

DURATION: Final = "gpu__time_duration.sum"  # ns
ACTIVE: Final = "sm__warps_active.avg.pct_of_peak_sustained_active"
ELAPSED: Final = "sm__warps_active.avg.pct_of_peak_sustained_elapsed"
THEORETICAL: Final = "sm__maximum_warps_per_active_cycle_pct"
LOCAL: Final = ("l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum")
REGISTERS: Final = "launch__registers_per_thread"
SHARED: Final = ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic")  # not the driver's part
WAVES: Final = "launch__waves_per_multiprocessor"
CYCLES: Final = "sm__cycles_elapsed.max"
BUSY: Final = "sm__cycles_active.max"  # of the SM that had work for longest
NO_LOCAL: Final = (
    "not counted by default, since it takes the profiler half as long again: with --portkit-count-all,"
    " and where a measured kernel has local memory"
)
"""Why the local traffic is not known of kernels whose binary portkit has not seen."""

PASSES: Final = "profiler__replayer_passes"  # always in the table

LIMITS: Final[Mapping[str, str]] = {
    "waves": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "barriers": "launch__occupancy_limit_barriers",
}
"""Resource → blocks that it allows on a unit; of those that limit alike the first is named, as in the theory."""


@dataclass(frozen=True)
class Dram:
    """How a chip counts what crosses its memory bus."""

    read: str | None
    write: str | None
    instead: tuple[str, ...] = ()  # what is counted where it can't
    why_not: str = ""


_PLAIN: Final = Dram("dram__bytes_read.sum", "dram__bytes_write.sum")
_BY_OPERATION: Final = Dram("dram__bytes_op_read.sum", "dram__bytes_op_write.sum")
_NONE: Final = Dram(
    None,
    None,
    ("lts__t_bytes.sum",),
    "this chip has no counters of its memory bus; lts__t_bytes, all traffic of its L2 cache, is with the kernels' rows",
)

DRAM: Final[Mapping[str, Dram]] = {
    "sm_101": _NONE,  # GB10B, Thor, as CUDA 12 numbers it
    "sm_110": _NONE,  # GB10B, Thor, as CUDA 13 does
    "sm_120": _BY_OPERATION,  # GB202 to GB207
    "sm_121": _NONE,  # GB20B, DGX Spark
}
"""Architecture → counters of its memory bus, where they are not ``dram__bytes_read`` and ``_write``."""


@dataclass(frozen=True)
class Metrics:
    """What is counted on one architecture."""

    dram: Dram
    local: bool = True  # traffic of local memory, too; else it is known of kernels that have none, by their binary

    @classmethod
    def of(cls, architecture: str, *, local: bool = True) -> Metrics:
        """Those of an architecture such as ``sm_90``, with or without the traffic of local memory."""
        return cls(DRAM.get(architecture, _PLAIN), local)

    @property
    def names(self) -> tuple[str, ...]:
        """What the profiler is asked for; on Hopper it takes one pass."""
        dram = [name for name in (self.dram.read, self.dram.write, *self.dram.instead) if name]
        launch = (THEORETICAL, REGISTERS, *SHARED, WAVES, *LIMITS.values())
        return (DURATION, ACTIVE, ELAPSED, CYCLES, BUSY, *dram, *(LOCAL if self.local else ()), *launch)

    def count(self, kernels: Sequence[Kernel], built: Sequence[BuiltKernel] = ()) -> tuple[Counted, dict[str, str]]:
        """One call's figures from its kernels, and why others are unknown, by the figure's name."""
        reading = _Reading(kernels)
        longest = max(kernels, key=lambda kernel: _number(kernel, DURATION) or 0.0)
        duration = reading.total("duration_ms", DURATION)
        counted = Counted(
            kernels=len(kernels),
            duration_ms=None if duration is None else duration / 1e6,
            dram_read_bytes=self._dram(reading, "dram_read_bytes", self.dram.read),
            dram_write_bytes=self._dram(reading, "dram_write_bytes", self.dram.write),
            local_bytes=self._local(reading, {kernel.name for kernel in kernels}, built),
            kernel=short_name(longest.name),
            occupancy_achieved_pct=reading.of(longest, "occupancy_achieved_pct", ACTIVE),
            occupancy_achieved_elapsed_pct=reading.of(longest, "occupancy_achieved_elapsed_pct", ELAPSED),
            occupancy_theoretical_pct=reading.of(longest, "occupancy_theoretical_pct", THEORETICAL),
            occupancy_limiter=reading.limiter(longest),
            registers_per_thread=_whole(reading.of(longest, "registers_per_thread", REGISTERS)),
            shared_bytes_per_block=_whole(reading.of(longest, "shared_bytes_per_block", *SHARED)),
            waves_per_unit=reading.of(longest, "waves_per_unit", WAVES),
            idle_ms=reading.idle_ms(),
        )
        return counted, reading.nulls

    def _local(self, reading: _Reading, names: set[str], built: Sequence[BuiltKernel]) -> int | None:
        if self.local:
            return _whole(reading.total("local_bytes", *LOCAL))
        if names <= {kernel.name for kernel in built if kernel.local_bytes_per_thread == 0}:
            return 0
        reading.unknown("local_bytes", NO_LOCAL)
        return None

    def _dram(self, reading: _Reading, figure: str, metric: str | None) -> int | None:
        if metric is None:
            reading.unknown(figure, self.dram.why_not)
            return None
        if passes := reading.passes:
            reading.unknown(figure, f"the kernels ran {passes} times to be counted, all but once from warm caches")
            return None
        return _whole(reading.total(figure, metric))


class _Reading:
    """Figures of one call's kernels; notes why one is unknown."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self._kernels = kernels
        self.nulls: dict[str, str] = {}

    @property
    def passes(self) -> int | None:
        """Runs that a kernel took to be counted, where it took more than one."""
        most = max((_number(kernel, PASSES) or 1.0 for kernel in self._kernels), default=1.0)
        return int(most) if most > 1 else None

    def unknown(self, figure: str, why: str) -> None:
        """Note why a figure is unknown."""
        self.nulls[figure] = why

    def of(self, kernel: Kernel, figure: str, *metrics: str) -> float | None:
        """Sum of metrics of one kernel."""
        values = [_number(kernel, metric) for metric in metrics]
        if None in values:
            self.unknown(figure, f"ncu has no value of {metrics[values.index(None)]} for {short_name(kernel.name)}")
            return None
        return sum(value for value in values if value is not None)

    def total(self, figure: str, *metrics: str) -> float | None:
        """Sum of metrics over all kernels; unknown as soon as one of them is."""
        values = [self.of(kernel, figure, *metrics) for kernel in self._kernels]
        return None if None in values else sum(value for value in values if value is not None)

    def idle_ms(self) -> float | None:
        """Time of all kernels in which no SM had work."""
        times = [self._idle_ms(kernel) for kernel in self._kernels]
        return None if None in times else sum(time for time in times if time is not None)

    def _idle_ms(self, kernel: Kernel) -> float | None:
        duration, cycles, busy = (self.of(kernel, "idle_ms", metric) for metric in (DURATION, CYCLES, BUSY))
        if duration is None or not cycles or busy is None:
            return None
        return duration / 1e6 * max(0.0, 1 - busy / cycles)

    def limiter(self, kernel: Kernel) -> str | None:
        """The resource that allows the fewest blocks."""
        limits = {name: _number(kernel, metric) for name, metric in LIMITS.items()}
        known = {name: value for name, value in limits.items() if value is not None}
        if len(known) < len(limits):
            missing = next(LIMITS[name] for name in limits if name not in known)
            self.unknown("occupancy_limiter", f"ncu has no value of {missing} for {short_name(kernel.name)}")
            return None
        return min(known, key=lambda name: known[name])


def _number(kernel: Kernel, metric: str) -> float | None:
    value = kernel.metrics.get(metric)
    return value if isinstance(value, float) and value >= 0 else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
