"""What a record holds of a cell's samples."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from portkit.model import Clock, Ratio, Timed, Timing
from portkit.run.timing.readings import named, throttle_reasons
from portkit.run.timing.samples import EVENTS, FUSED, TRACE, Samples, Series
from portkit.run.timing.statistics import DIGITS, of_rounds

LEAST_KERNEL_MS = 0.005
"""Kernel time below which no speedup of it is claimed: the trace's own spread is too large a part of it."""


def summarize(samples: Samples) -> tuple[Timing, dict[str, str]]:
    """Medians with intervals and the fused function's speedup over each baseline; nulls, and why.

    Raises:
        ValueError: fewer than six rounds.
    """
    clocks: dict[str, dict[str, Clock]] = {}
    ratios: dict[str, dict[str, Ratio]] = {}
    for mode, series in samples.milliseconds.items():
        clocks[mode], ratios[mode] = _of(series)
    kernel, too_short = _kernel_speedups(clocks.get(TRACE, {}), ratios.get(TRACE, {}))
    kernels, varying = _kernels(samples.kernels)
    timed = {name: _timed(name, clocks, kernels, samples) for name in clocks[EVENTS]}
    timing = Timing(
        flush_bytes=samples.flush_bytes,
        warmup=samples.warmup,
        fused=timed.pop(FUSED),
        baselines=timed,
        speedup=ratios[EVENTS],
        speedup_kernel=kernel,
        settled=samples.settled,
        states=named(samples.states),
        throttled=throttle_reasons(samples.states),
    )
    return timing, {**samples.nulls, **too_short, **varying}


def _of(series: Series) -> tuple[dict[str, Clock], dict[str, Ratio]]:
    """Without the fused function, as where no graph of it could be captured, there is no ratio."""
    if FUSED in series:
        return of_rounds(series, FUSED)
    return of_rounds(series, next(iter(series)))[0], {}


def _timed(name: str, clocks: Mapping[str, Mapping[str, Clock]], kernels: Mapping[str, int], samples: Samples) -> Timed:
    copies, copied = set(samples.copies.get(name, ())), samples.copied_ms.get(name)
    return Timed(
        kernels=kernels.get(name),
        copies=copies.pop() if len(copies) == 1 else None,
        copied_ms=round(statistics.median(copied), DIGITS) if copied else None,
        **{mode: of[name] for mode, of in clocks.items() if name in of},
    )


def _kernel_speedups(
    clocks: Mapping[str, Clock], ratios: Mapping[str, Ratio]
) -> tuple[dict[str, Ratio], dict[str, str]]:
    """Speedups on the trace, but where one of both is too short to claim any; and why."""
    short = {
        name: f"{each} takes {clocks[each].median_ms * 1e3:.2f} µs: no speedup of kernel time is claimed under 5 µs"
        for name in ratios
        for each in (name, FUSED)
        if clocks[each].median_ms < LEAST_KERNEL_MS
    }
    claimed = {name: ratio for name, ratio in ratios.items() if name not in short}
    return claimed, {f"speedup_kernel.{name}": why for name, why in short.items()}


def _kernels(counts: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, int], dict[str, str]]:
    """Kernels of one call, and of which function they differ from call to call."""
    constant = {name: each[0] for name, each in counts.items() if len(set(each)) == 1}
    varying = {
        f"timing.{name}.kernels": f"{min(each)} to {max(each)} from call to call"
        for name, each in counts.items()
        if name not in constant
    }
    return constant, varying
