"""Memory that a call would hold at most, found by calling it on tensors that have none.

Tensors of PyTorch's device ``meta`` have shapes and storages but no memory, so a call on
them costs microseconds an operation. What an operation holds within itself is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from portkit.run.tree import map_tensors


class _Live(TorchDispatchMode):
    """Follows the storages that operations make, until they are gone."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._live: dict[StorageWeakRef, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            if isinstance(each, torch.Tensor):
                storage = each.untyped_storage()
                self._live[StorageWeakRef(storage)] = storage.nbytes()
        self._live = {storage: size for storage, size in self._live.items() if not storage.expired()}
        self.peak = max(self.peak, sum(self._live.values()))
        return made


def without_memory(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The same inputs as tensors of the device ``meta``."""
    moved: dict[str, Any] = map_tensors(lambda tensor: tensor.to("meta"), dict(inputs))
    return moved


def peak_bytes(call: Callable[[], object]) -> int | None:
    """Bytes that a call on tensors without memory would hold at once, beside its inputs.

    Args:
        call: calls a function on tensors of the device ``meta``.

    Returns:
        The most bytes at once; None where the function asks for values, which such tensors have not.
    """
    live = _Live()
    try:
        with live:
            call()
    except Exception:  # whatever it asks for is not there
        return None
    return live.peak
