"""Replaces the functions of ``torch.cuda`` that need a driver.

HIP serves the same names, so this file knows no vendor.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from portkit.run.shim.answers import Answers, DeviceProperties


class _Null(contextlib.AbstractContextManager[Any]):
    """Stands for a stream, an event or a device guard: does nothing, in order."""

    cuda_stream = 0
    device = torch.device("cuda", 0)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> _Null:
        return self

    def __exit__(self, *args: object) -> None:
        return None

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        return None

    record = wait = synchronize = wait_event = wait_stream = record_event = _nothing

    def query(self) -> bool:
        """Work on an absent device is always done."""
        return True


def patch_torch_cuda(answers: Answers) -> None:
    """Make ``torch.cuda`` and ``torch.accelerator`` answer for the target."""
    for name, function in _replacements(answers).items():
        setattr(torch.cuda, name, function)
    if hasattr(torch, "accelerator"):
        torch.accelerator.is_available = lambda: True
        torch.accelerator.device_count = lambda: 1
        torch.accelerator.current_accelerator = lambda check_available=False: torch.device("cuda")


def _replacements(answers: Answers) -> dict[str, Any]:
    def capability(device: Any = None) -> tuple[int, int]:
        return answers["major"], answers["minor"]

    def memory(device: Any = None) -> tuple[int, int]:
        return answers["total_memory"], answers["total_memory"]

    # A function of its own for each name: torch._dynamo refuses one object under two names.
    constants = {
        "is_available": True,
        "is_initialized": True,
        "device_count": 1,
        "current_device": 0,
        "is_bf16_supported": True,
        "is_current_stream_capturing": False,
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        **dict.fromkeys(_SILENT),
    }
    return {
        **{name: _constant(value) for name, value in constants.items()},
        **{name: type(name, (_Null,), {}) for name in ("device", "stream", "device_of", "Stream", "Event")},
        **{name: type(name, (_Null,), {}) for name in ("current_stream", "default_stream")},
        "get_device_properties": lambda device=None: DeviceProperties(answers),
        "get_device_name": lambda device=None: answers["name"],
        "get_device_capability": capability,
        "mem_get_info": memory,
    }


_SILENT = (
    "init",
    "_lazy_init",
    "set_device",
    "set_stream",
    "synchronize",
    "empty_cache",
    "manual_seed",
    "manual_seed_all",
    "reset_peak_memory_stats",
)
"""Functions that do something to a device and answer nothing."""


def _constant(value: Any) -> Any:
    return lambda *args, **kwargs: value
