"""What only a GPU tells: kernels of each way on the device trace, and the device's ceilings."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from portkit.errors import HostError
from portkit.model import Target
from portkit.plan.toggle import ToggleRequest
from portkit.run.ceilings.bandwidth import bandwidths
from portkit.run.ceilings.matmul import matmul_rate
from portkit.run.host import probe_host
from portkit.run.timing.order import Functions
from portkit.run.timing.trace import trace_rounds
from portkit.run.toggle.counters import CountedWay, count_ways, uncounted
from portkit.store.toggled import Roofs
from portkit.targets.catalog import load_catalog

TRACED = 10
"""Rounds on the trace."""


@dataclass(frozen=True)
class OnDevice:
    """One way on the device trace."""

    kernel_ms: float  # median of the sum over its kernels
    launches: int | None  # kernels, copies and fills; None where they differ from call to call


def traced(functions: Functions) -> Mapping[str, OnDevice]:
    """Kernel time and kernels of each function.

    Raises:
        TraceError: the device gives no trace that can be read.
    """
    rounds = trace_rounds([functions] * TRACED, lambda: None)
    return {name: _on_device([each[name].milliseconds for each in rounds], {each[name].kernels for each in rounds})
            for name in functions}  # fmt: skip


def _on_device(milliseconds: list[float], kernels: set[int]) -> OnDevice:
    return OnDevice(statistics.median(milliseconds), kernels.pop() if len(kernels) == 1 else None)


def count_here(request: ToggleRequest, stage: Callable[[str], None]) -> Mapping[str, CountedWay]:
    """Bytes of every way by hardware counters, or why there are none.

    Args:
        request: the experiment.
        stage: hears what is done next.
    """
    try:
        target = _target()
    except HostError as error:
        return uncounted(request, error.message)
    return count_ways(request, target, stage)


def _target() -> Target:
    devices = probe_host().devices
    if not devices:
        raise HostError("this host's GPU was not recognised")
    return load_catalog().get(devices[torch.cuda.current_device()].target)


def measure_roofs(dtype: str) -> Roofs:
    """Memory bandwidth, and the rate of matrix products of a dtype; about a second.

    Raises:
        HostError: the GPU was not recognised, so that the sizes of its caches are unknown.
        Exception: whatever a measurement raises.
    """
    rates = [measure().value for measure in bandwidths(_target()).values()]
    return Roofs(max(rates), matmul_rate(dtype).value, dtype)
