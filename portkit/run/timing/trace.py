"""Kernel time of a call: the sum of its kernels' durations in the device trace.

The trace is that of torch.profiler, which has it from CUPTI on NVIDIA and from roctracer
or rocprofiler on AMD; copies and fills count like kernels, and how much they are is told, since a
profiler of kernels does not see them. Each traced call lies between two launches of a marker kernel
of portkit's own, and what belongs to it is decided by the order of launches (correlation numbers
count the calls into the driver), not by times: work on other streams, or that still runs when the
next call is launched, is told apart all the same. A trace whose markers do not add up is refused.

Tracing is a pass of its own, since it makes launches dearer.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch.autograd.profiler import profile
from torch.profiler import DeviceType

from portkit.run.kernel_names import plain_name
from portkit.run.timing.events import Functions

MARKER = "portkit_marks_a_traced_call"
"""Name of the marker kernel in the trace."""

_COPY = re.compile(r"(Memcpy|Memset)\b|Copy(Device|Host)To|FillBuffer\b")
"""How names of copies and fills begin, CUPTI's and roctracer's; no kernel of theirs or ours begins so."""


class TraceError(Exception):
    """The device gave no trace that can be read; the message says why."""


@dataclass(frozen=True)
class Traced:
    """One traced call."""

    milliseconds: float
    kernels: int  # with copies and fills
    copies: int = 0  # how many of them are copies and fills that the driver makes, and no kernels
    copied_ms: float = 0.0  # time of these


@dataclass(frozen=True)
class Activity:
    """One kernel, copy or fill in a device trace."""

    name: str
    launch: int  # number of the driver call that launched it; equal for all kernels of a graph
    start_ns: int
    nanoseconds: int


def trace_rounds(rounds: Sequence[Functions], before: Callable[[], object]) -> list[dict[str, Traced]]:
    """Trace the functions of each round once, in order.

    Args:
        rounds: name → call; called before, so that nothing is compiled here.
        before: cools the caches; its kernels do not count.

    Raises:
        TraceError: tracing is not to be had here, or the trace is not whole.
    """
    activities = traced_activities(lambda: _run(rounds, before))
    calls = iter(split(activities, sum(map(len, rounds))))
    return [{name: _sum(next(calls)) for name in functions} for functions in rounds]


def traced_activities(run: Callable[[], object]) -> list[Activity]:
    """What the device did for ``run``, in the order of launches.

    Raises:
        TraceError: tracing is not to be had here.
    """
    torch.cuda.synchronize()
    try:
        with profile(use_cpu=False, use_device="cuda", use_kineto=True) as profiler:
            run()
            torch.cuda.synchronize()
    except (AssertionError, RuntimeError) as error:
        raise TraceError(f"torch.profiler gave no device trace: {error}") from error
    events = profiler.kineto_results.events()
    return sorted(map(_activity, filter(_on_device, events)), key=lambda each: (each.launch, each.start_ns))


def split(activities: Iterable[Activity], calls: int) -> list[list[Activity]]:
    """Activities of each call, those between the markers around it.

    Raises:
        TraceError: there are not two markers a call.
    """
    parts: list[list[Activity]] = [[]]
    for activity in activities:
        if activity.name == MARKER:
            parts.append([])
        else:
            parts[-1].append(activity)
    if len(parts) == 1:
        raise TraceError("the device trace is empty: another profiler may hold the device, or torch was built without")
    if len(parts) != 2 * calls + 1:
        raise TraceError(f"the device trace is not whole: {len(parts) - 1} markers where {2 * calls} were launched")
    return parts[1::2]


def _run(rounds: Sequence[Functions], before: Callable[[], object]) -> None:
    for call in itertools.chain.from_iterable(functions.values() for functions in rounds):
        before()
        _mark()
        call()
        _mark()


def _mark() -> None:
    _marker[(1,)](num_warps=1)


def _on_device(event: Any) -> bool:
    return event.device_type() != DeviceType.CPU and not event.is_user_annotation()


def _activity(event: Any) -> Activity:
    return Activity(plain_name(event.name()), event.correlation_id(), event.start_ns(), event.duration_ns())


def _sum(activities: Sequence[Activity]) -> Traced:
    copies = [each for each in activities if _COPY.match(each.name)]
    return Traced(_milliseconds(activities), len(activities), len(copies), _milliseconds(copies))


def _milliseconds(activities: Iterable[Activity]) -> float:
    return sum(each.nanoseconds for each in activities) / 1e6


def portkit_marks_a_traced_call() -> None:
    """An empty kernel; its name is the marker's."""


_marker = triton.jit(portkit_marks_a_traced_call)
