"""Tensors that claim to live on a GPU while they live on meta or the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode

CLAIMED = torch.device("cuda", 0)
_DEVICE_TEXT = re.compile(r"cuda(:\d+)?")

_CLAIMS: Mapping[Any, Any] = {
    torch.Tensor.device.__get__: CLAIMED,
    torch.Tensor.is_cuda.__get__: True,
    torch.Tensor.is_cpu.__get__: False,
    torch.Tensor.is_meta.__get__: False,
    torch.Tensor.get_device: CLAIMED.index,
}


class ClaimDevice(TorchFunctionMode):
    """Answers ``cuda:0`` for every tensor and allocates on ``backing`` instead.

    Covers attribute reads, factories with ``device=``, ``.to`` and ``.cuda``.
    """

    def __init__(self, backing: str) -> None:
        super().__init__()
        self.backing = torch.device(backing)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run ``func`` with every mention of a GPU replaced by the backing device."""
        if func in _CLAIMS:
            return _CLAIMS[func]
        if func is torch.Tensor.cuda:
            return args[0]
        named = dict(kwargs or {})
        if func is torch.device:  # naming a device allocates nothing
            return func(*args, **named)
        if isinstance(named.get("device"), int):
            named["device"] = self.backing
        named.pop("pin_memory", None)  # pinning needs a driver
        return func(*(self._real(a) for a in args), **{k: self._real(v) for k, v in named.items()})

    def _real(self, value: Any) -> Any:
        if isinstance(value, torch.device) and value.type == "cuda":
            return self.backing
        if isinstance(value, str) and _DEVICE_TEXT.fullmatch(value):
            return self.backing
        return value


def patch_backward(mode: ClaimDevice) -> None:
    """Run the backward of every autograd.Function under ``mode``.

    The engine calls it with no mode active, so a TorchFunctionMode alone does
    not reach it.
    """
    original = BackwardCFunction.apply

    def apply(self: Any, *args: Any) -> Any:
        with mode:
            return original(self, *args)

    BackwardCFunction.apply = apply
