"""rocprofv3's derived counters, what is made of them, and what they do not tell.

Each counter has a pass of its own: sets of derived counters go beyond what some chips count
at once, and rocprofv3 then ends the program.

================== ==================================================================== ====
counter            is                                                                   unit
================== ==================================================================== ====
OccupancyPercent   resident waves ÷ most waves, over the busy time and all CUs          %
MeanOccupancyPerCU resident waves of a CU, over the same                                waves
FETCH_SIZE         bytes that the L2 cache asked the fabric for                         KiB
WRITE_SIZE         bytes that it wrote to the fabric                                    KiB
================== ==================================================================== ====

An Infinity Cache lies behind the fabric, so where there is one, what it serves is counted,
and the bytes are an upper bound of those that crossed the memory bus.

Source: ROCm/rocm-systems, projects/rocprofiler-sdk, ``counter_defs.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from portkit.model import Counted, Target
from portkit.run.counters import BuiltKernel, Kernel, short_name
from portkit.targets.caches import may_have_infinity_cache

DURATION: Final = "duration"  # ns, of the trace
LDS: Final = "lds_size"  # bytes, of the launch
BLOCKS: Final = "blocks"  # of the grid
THREADS: Final = "threads"  # of a block

OCCUPANCY: Final = "OccupancyPercent"
MEAN_WAVES: Final = "MeanOccupancyPerCU"
FETCHED: Final = "FETCH_SIZE"
WRITTEN: Final = "WRITE_SIZE"

COUNTERS: Final = (OCCUPANCY, FETCHED, WRITTEN, MEAN_WAVES)
"""One a pass."""

WAVES_PER_CU: Final = 32
"""Most waves of a CU, of CDNA and of RDNA alike."""

_UPPER_BOUND = (
    "an upper bound: {counter} counts what L2 asks of the fabric, and what the Infinity Cache serves is among it"
)
_NO_ACTIVE = "AMD's counters have no figure over the cycles in which a unit has work; the one over all cycles is known"
_NO_LOCAL = "no counter tells scratch from other traffic; the build has its bytes a thread"
_NO_THEORY = "rocprofv3 tells none; the build has that of portkit's rules"


@dataclass(frozen=True)
class RocprofMetrics:
    """What is made of the counters of one device."""

    target: Target

    def count(
        self, kernels: Sequence[Kernel], built: Sequence[BuiltKernel], lacking: Mapping[str, str]
    ) -> tuple[Counted, dict[str, str]]:
        """One call's figures from its kernels, and why others are unknown, by the figure's name."""
        reading = _Reading(kernels, lacking)
        longest = max(kernels, key=lambda kernel: number(kernel, DURATION) or 0.0)
        duration = reading.total("duration_ms", DURATION)
        known = reading.build_of(longest, built)
        counted = Counted(
            kernels=len(kernels),
            duration_ms=None if duration is None else duration / 1e6,
            dram_read_bytes=self._bytes(reading, "dram_read_bytes", FETCHED),
            dram_write_bytes=self._bytes(reading, "dram_write_bytes", WRITTEN),
            local_bytes=None,
            kernel=short_name(longest.name),
            occupancy_achieved_pct=None,
            occupancy_achieved_elapsed_pct=_occupancy(reading, longest),
            occupancy_theoretical_pct=None,
            occupancy_limiter=None,
            registers_per_thread=known.registers_per_thread if known else None,
            shared_bytes_per_block=_shared(reading, longest, known),
            waves_per_unit=self._waves(reading, longest, known),
        )
        return counted, reading.nulls

    def _bytes(self, reading: _Reading, figure: str, counter: str) -> int | None:
        kib = reading.total(figure, counter)
        if kib is None:
            return None
        if may_have_infinity_cache(self.target.architecture):
            reading.unknown(figure, _UPPER_BOUND.format(counter=counter))
        return round(kib * 1024)

    def _waves(self, reading: _Reading, kernel: Kernel, known: BuiltKernel | None) -> float | None:
        """Blocks of the grid ÷ blocks that are resident on the whole device."""
        units, blocks = self.target.runtime_unit_count, number(kernel, BLOCKS)
        if known is None or not known.blocks_per_unit or units is None or blocks is None:
            reading.nulls.setdefault("waves_per_unit", "resident blocks or units of the device are not known")
            return None
        return blocks / (known.blocks_per_unit * units)


def _occupancy(reading: _Reading, kernel: Kernel) -> float | None:
    """The counter in per cent, else that in waves, whose denominators are the same."""
    figure = "occupancy_achieved_elapsed_pct"
    percent, waves = number(kernel, OCCUPANCY), number(kernel, MEAN_WAVES)
    if percent:
        return percent
    if waves:
        reading.unknown(figure, f"from {MEAN_WAVES} ÷ {WAVES_PER_CU}: {reading.why(kernel, OCCUPANCY)}")
        return 100 * waves / WAVES_PER_CU
    reading.unknown(figure, reading.why(kernel, OCCUPANCY))
    return None


def _shared(reading: _Reading, kernel: Kernel, known: BuiltKernel | None) -> int | None:
    """LDS of the launch; the table of text has only that of the binary, which is 0 in Triton's kernels."""
    told = number(kernel, LDS)
    if told is not None:
        return round(told)
    if known is None:
        reading.unknown("shared_bytes_per_block", "the table has no LDS of the launch, and portkit did not build it")
        return None
    return known.shared_bytes_per_block


_NEVER_TOLD: Final[Mapping[str, str]] = {
    "local_bytes": _NO_LOCAL,
    "occupancy_achieved_pct": _NO_ACTIVE,
    "occupancy_theoretical_pct": _NO_THEORY,
    "occupancy_limiter": _NO_THEORY,
    "idle_ms": "rocprofv3 times a kernel from its own start to its end, without what lies around it",
}
"""Figures that rocprofv3 has nothing for, and why."""


class _Reading:
    """Figures of one call's kernels; notes why one is unknown or not what its name says."""

    def __init__(self, kernels: Sequence[Kernel], lacking: Mapping[str, str]) -> None:
        self._kernels = kernels
        self._lacking = lacking
        self.nulls = dict(_NEVER_TOLD)

    def unknown(self, figure: str, why: str) -> None:
        """Note why a figure is unknown."""
        self.nulls[figure] = why

    def total(self, figure: str, metric: str) -> float | None:
        """Sum over all kernels; unknown as soon as one of them is."""
        values = [number(kernel, metric) for kernel in self._kernels]
        if None in values:
            self.unknown(figure, self.why(self._kernels[values.index(None)], metric))
            return None
        return sum(value for value in values if value is not None)

    def why(self, kernel: Kernel, metric: str) -> str:
        """Why a metric of a kernel is unknown."""
        if metric in self._lacking:
            return self._lacking[metric]
        if number(kernel, metric) == 0:
            return f"{metric} is 0 for {short_name(kernel.name)}, which ran: {GATED}"
        return f"rocprofv3 has no value of {metric} for {short_name(kernel.name)}"

    def build_of(self, kernel: Kernel, built: Sequence[BuiltKernel]) -> BuiltKernel | None:
        """What portkit built under that name and shape; None where it did not, or several builds differ."""
        threads, blocks = number(kernel, THREADS), number(kernel, BLOCKS)
        same = [each for each in built if each.name == kernel.name and each.threads_per_block == threads]
        same = [each for each in same if each.grid == blocks] or same
        figures = {(each.registers_per_thread, each.shared_bytes_per_block) for each in same}
        if len(figures) == 1:
            return same[0]
        why = "several builds of that name differ" if figures else "portkit did not build it"
        for figure in ("registers_per_thread", "waves_per_unit"):
            self.unknown(figure, f"{why}, and rocprofv3 decodes registers from the descriptor: rounded, or wrong")
        return None


GATED: Final = (
    "its clock may be off between kernels, as on Radeon with the performance level auto;"
    " `amd-smi set -g 0 --perf-level stable_std` (root) keeps it on"
)
"""Why a counter that can't be 0 is."""


def number(kernel: Kernel, metric: str) -> float | None:
    """A metric of a kernel, where it has a value of 0 or more."""
    value = kernel.metrics.get(metric)
    return value if isinstance(value, float) and value >= 0 else None
