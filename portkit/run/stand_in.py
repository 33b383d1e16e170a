"""The platform that kernel files see on a host without a GPU where no target is meant.

Many files fail at import there, on ``torch.cuda.current_device()`` or on Triton's active
driver, and many functions allocate with ``device="cuda"``. When declarations are read, and in
Triton's interpreter, they see the platform of an H200. What depends on it (a grid from
the unit count) is as on that GPU; no kernel is built for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import triton.runtime
from triton.runtime.autotuner import Autotuner

from portkit.model import KernelCase
from portkit.run.absent import AbsentDriver
from portkit.run.capture import Recorder, capture
from portkit.run.shim import install
from portkit.run.tuning import timer_of_nothing
from portkit.targets.catalog import load_catalog

STAND_IN = "h200"

Mode = contextlib.AbstractContextManager[Any]


def for_reading() -> Mode:
    """Let kernel files be imported; launches that they make are dropped."""
    if torch.cuda.is_available():
        return contextlib.nullcontext()
    target = load_catalog().get(STAND_IN)
    answers, mode = install(target)
    capture(Recorder(target), answers, mode)
    return mode


def for_interpreting() -> Mode:
    """Let functions run in Triton's interpreter, on tensors of the CPU that claim a GPU."""
    if torch.cuda.is_available():
        return contextlib.nullcontext()
    target = load_catalog().get(STAND_IN)
    answers, mode = install(target, backing="cpu")
    triton.runtime.driver.set_active(AbsentDriver(target, answers, timer_of_nothing(Recorder(target))))
    Autotuner._bench = lambda tuner, *args, config, **meta: [1.0] * 3  # the first: any is as right as another
    return mode


def under(mode: Mode, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, run inside the mode."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with mode:
            return function(*args, **kwargs)

    return run


def claimed(mode: Mode, case: KernelCase) -> KernelCase:
    """The case, whose every function that gets tensors finds them on the target, as on a device.

    An unfused chain may ask, too: which 8-bit format there is, say.
    """
    margins = {
        place: replace(rule, margin=rule.margin and under(mode, rule.margin)) for place, rule in case.discrete.items()
    }
    return replace(case, fused=under(mode, case.fused), reference=under(mode, case.reference), discrete=margins)
