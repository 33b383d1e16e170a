"""What only a GPU tells: kernels of each way on the device trace, and the device's ceilings."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from portkit.errors import HostError
from portkit.run.ceilings.bandwidth import bandwidths
from portkit.run.ceilings.matmul import matmul_rate
from portkit.run.host import probe_host
from portkit.run.timing.order import Functions
from portkit.run.timing.trace import trace_rounds
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


def measure_roofs(dtype: str) -> Roofs:
    """Memory bandwidth, and the rate of matrix products of a dtype; about a second.

    Raises:
        HostError: the GPU was not recognised, so that the sizes of its caches are unknown.
        Exception: whatever a measurement raises.
    """
    devices = probe_host().devices
    if not devices:
        raise HostError("this host's GPU was not recognised")
    target = load_catalog().get(devices[torch.cuda.current_device()].target)
    rates = [measure().value for measure in bandwidths(target).values()]
    return Roofs(max(rates), matmul_rate(dtype).value, dtype)
