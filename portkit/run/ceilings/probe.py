"""All that is measured of a device before its cells: one figure that fails costs itself alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from portkit.model import DeviceProbe, Target
from portkit.run.ceilings.bandwidth import bandwidths
from portkit.run.ceilings.fastest import Reached
from portkit.run.ceilings.launches import graph_launch_us, launch_us
from portkit.run.ceilings.matmul import KINDS, matmul_rate
from portkit.run.classify import describe
from portkit.run.scrub import scrub
from portkit.run.timing.flush import evicts, flush_size, make_flush
from portkit.run.timing.overhead import event_overhead_us
from portkit.store.journal import utc_now


def probe_device(target: Target, device_id: str) -> DeviceProbe:
    """Measure the current device; about three seconds on an H200.

    Args:
        target: the SKU of the device; its caches size the buffers.
        device_id: of the device.

    Returns:
        Figures, and for each that could not be measured the reason. ``run_id`` is empty,
        and ``other_processes`` unknown: that is for the run to say.
    """
    found = _Findings()
    for name, measure in {**bandwidths(target), "launch_us": launch_us, "graph_launch_us": graph_launch_us}.items():
        found.figure(name, measure)
        torch.cuda.empty_cache()
    for kind in KINDS:
        found.rate(kind)
    torch.cuda.empty_cache()
    found.value("event_overhead_us", lambda: _event_overhead(target))
    found.value("evicted", lambda: _evicted(target))
    return DeviceProbe(
        "",
        device_id,
        target.name,
        utc_now(),
        matmul_tflops=found.rates,
        reached_by=found.reached_by,
        nulls=found.nulls,
        **found.figures,
    )


def _event_overhead(target: Target) -> float:
    return event_overhead_us(make_flush(flush_size(target)))


def _evicted(target: Target) -> bool:
    """Whether the flush evicts.

    Raises:
        UnclearError: cold and warm caches can't be told apart.
    """
    answer = evicts(make_flush(flush_size(target)))
    if answer is None:
        raise UnclearError("reads from cold and from warm caches take as long here")
    return answer


class UnclearError(Exception):
    """A measurement that does not tell."""


@dataclass
class _Findings:
    figures: dict[str, Any] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    reached_by: dict[str, str] = field(default_factory=dict)
    nulls: dict[str, str] = field(default_factory=dict)

    def figure(self, name: str, measure: Callable[[], Reached]) -> None:
        if reached := self._try(name, measure):
            self.figures[name], self.reached_by[name] = reached.value, reached.by

    def rate(self, kind: str) -> None:
        name = f"matmul_tflops.{kind}"
        if reached := self._try(name, lambda: matmul_rate(kind)):
            self.rates[kind], self.reached_by[name] = reached.value, reached.by

    def value(self, name: str, measure: Callable[[], Any]) -> None:
        self.figures[name] = self._try(name, measure)

    def _try(self, name: str, measure: Callable[[], Any]) -> Any:
        try:
            return measure()
        except Exception as error:  # whatever torch, Triton or the driver raise: it is a null, not a lost run
            self.nulls[name] = scrub(describe(error))
            return None
