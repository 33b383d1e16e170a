"""Replaces the functions of ``torch.cuda`` that need a driver.

HIP serves the same names, so this file knows no vendor. Functions that only put
answers of others together (``is_bf16_supported``, ``get_device_name``) stay torch's own.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from portkit.run.shim.answers import Answers, DeviceProperties
from portkit.run.shim.refusals import UnknownTime

DEVICE = torch.device("cuda", 0)


class _Null(contextlib.AbstractContextManager[Any]):
    """Stands for a stream, an event, a graph or a device guard: does nothing, in order.

    A graph's launches are recorded as it is captured; replaying it adds none.
    """

    cuda_stream = 0
    device = DEVICE

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> _Null:
        return self

    def __exit__(self, *args: object) -> None:
        return None

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        return None

    record = wait = synchronize = wait_event = wait_stream = _nothing
    replay = reset = capture_begin = capture_end = _nothing

    def record_event(self, event: Any = None) -> Any:
        """The event that marks this point of the stream."""
        return event or torch.cuda.Event()

    def pool(self) -> tuple[int, int]:
        """Handle of a graph's memory pool."""
        return (0, 0)

    def query(self) -> bool:
        """Work on an absent device is always done."""
        return True

    def elapsed_time(self, end: Any) -> UnknownTime:
        """Nothing ran, so there is no time."""
        return UnknownTime()


def patch_torch_cuda(answers: Answers) -> None:
    """Make ``torch.cuda`` and ``torch.accelerator`` answer for the target."""
    for name, function in _replacements(answers).items():
        setattr(torch.cuda, name, function)
    torch._C._cuda_getCurrentRawStream = _constant(0)
    torch.backends.cuda.is_built = _constant(True)
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(torch.cuda.nvtx, name, _constant(0))
    if hasattr(torch, "accelerator"):
        _patch_accelerator()


def _patch_accelerator() -> None:
    for name, function in _ACCELERATOR.items():
        setattr(torch.accelerator, name, function)


def _replacements(answers: Answers) -> dict[str, Any]:
    def capability(device: Any = None) -> tuple[int, int]:
        return answers["major"], answers["minor"]

    def memory(device: Any = None) -> tuple[int, int]:
        return answers["total_memory"], answers["total_memory"]

    # A function of its own for each name: torch._dynamo refuses one object under two names.
    return {
        **{name: _constant(value) for name, value in _CONSTANTS.items()},
        **{name: type(name, (_Null,), {}) for name in _OBJECTS},
        "get_rng_state": lambda device="cuda": random_state(),
        "get_rng_state_all": lambda: [random_state()],
        "get_device_properties": lambda device=None: DeviceProperties(answers),
        "get_device_name": lambda device=None: answers["name"],
        "get_device_capability": capability,
        "mem_get_info": memory,
    }


def random_state() -> torch.Tensor:
    """Seed and offset of a generator, 8 bytes each; tensors without values need no numbers."""
    return torch.zeros(16, dtype=torch.uint8, device="cpu")


def _constant(value: Any) -> Any:
    return lambda *args, **kwargs: value


_OBJECTS = (
    *("device", "stream", "device_of", "StreamContext", "Stream", "ExternalStream", "Event"),
    *("current_stream", "default_stream", "CUDAGraph", "graph"),
)
"""Classes and functions that give something to hold or to enter."""

_SILENT = (
    *("init", "_lazy_init", "set_device", "set_stream", "synchronize", "empty_cache", "ipc_collect"),
    *("manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all"),
    *("reset_peak_memory_stats", "reset_accumulated_memory_stats", "reset_max_memory_allocated"),
    *("set_per_process_memory_fraction", "set_sync_debug_mode"),
)
"""Functions that do something to a device and answer nothing."""

_MEMORY = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
"""Bytes in use on a device that holds nothing."""

_CONSTANTS = {
    "is_available": True,
    "is_initialized": True,
    "device_count": 1,
    "current_device": 0,
    "_check_bf16_tensor_supported": True,
    "is_current_stream_capturing": False,
    "can_device_access_peer": False,
    "graph_pool_handle": (0, 0),
    "initial_seed": 0,
    **dict.fromkeys(_MEMORY, 0),
    **dict.fromkeys(_SILENT),
}

_ACCELERATOR = {
    "is_available": _constant(True),
    "device_count": _constant(1),
    "current_accelerator": _constant(torch.device("cuda")),
    "current_device_index": _constant(0),
    "current_device_idx": _constant(0),
    "set_device_index": _constant(None),
    "set_device_idx": _constant(None),
    "synchronize": _constant(None),
    "empty_cache": _constant(None),
    "set_stream": _constant(None),
    "current_stream": lambda device=None: torch.cuda.current_stream(),
    "get_device_capability": lambda device=None: torch.cuda.get_device_capability(),
    "get_memory_info": lambda device=None: torch.cuda.mem_get_info(),
    **{name: type(name, (_Null,), {}) for name in ("device_index", "Graph")},
    **{name: _constant(0) for name in _MEMORY},
}
