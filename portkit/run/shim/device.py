"""Tensors that claim to live on a GPU while they live on meta or the CPU.

On meta, a tensor that host code puts on the CPU stays there and says so. On the CPU, where
a call is made again when host code reads values, nothing tells the two apart, and every
tensor claims the GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode

from portkit.run.shim.autocast import cast_for_autocast
from portkit.run.shim.wider import widen_operands

CLAIMED = torch.device("cuda", 0)
_DEVICE_TEXT = re.compile(r"cuda(:\d+)?")

Arguments = tuple[Any, ...]


class ClaimDevice(TorchFunctionMode):
    """Answers ``cuda:0`` for tensors of the GPU and allocates them on ``backing`` instead.

    Covers attribute reads, factories with ``device=``, ``.to``, ``.cuda`` and the casts that
    autocast makes on a GPU.
    """

    def __init__(self, backing: str) -> None:
        super().__init__()
        self.backing = torch.device(backing)
        self.on_move: list[Callable[[], None]] = []  # called after the backing has changed

    def move_to(self, backing: str) -> None:
        """From now on hold tensors on another device."""
        self.backing = torch.device(backing)
        for call in self.on_move:
            call()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Arguments = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run ``func`` with every mention of a GPU replaced by the backing device."""
        if func in _ANSWERS:
            return _ANSWERS[func](self, *args, **(kwargs or {}))
        named = dict(kwargs or {})
        if func is torch.device:  # naming a device allocates nothing
            return CLAIMED if args and type(args[0]) is int else func(*args, **named)
        if type(named.get("device")) is int:
            named["device"] = self.backing
        pinned = named.pop("pin_memory", None)  # pinning needs a driver
        args, named = widen_operands(func, *cast_for_autocast(func, args, named, self.holds))
        result = func(*(self.real(a) for a in args), **{k: self.real(v) for k, v in named.items()})
        return _pin(result) if pinned else result

    def real(self, value: Any) -> Any:
        """The backing device in place of a GPU; anything else as it is."""
        if isinstance(value, torch.device) and value.type == "cuda":
            return self.backing
        if isinstance(value, str) and _DEVICE_TEXT.fullmatch(value):
            return self.backing
        return value

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor claims to be on the GPU; asked outside the mode."""
        return bool(tensor.device.type == self.backing.type)

    def readable(self, tensor: torch.Tensor) -> bool:
        """Whether a kernel could read it: on the GPU, or pinned memory of the host."""
        return self.holds(tensor) or hasattr(tensor, "_portkit_pinned")

    def _device(self, tensor: torch.Tensor) -> torch.device:
        return CLAIMED if self.holds(tensor) else tensor.device

    def _cuda(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return tensor if self.holds(tensor) else tensor.to(self.backing)

    def _to(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if args and type(args[0]) is int:  # an ordinal
            args = (self.backing, *args[1:])
        return tensor.to(*(self.real(a) for a in args), **{k: self.real(v) for k, v in kwargs.items()})


def _pin(tensor: torch.Tensor) -> torch.Tensor:
    tensor._portkit_pinned = True
    return tensor


_ANSWERS: Mapping[Any, Callable[..., Any]] = {
    torch.Tensor.device.__get__: ClaimDevice._device,
    torch.Tensor.is_cuda.__get__: ClaimDevice.holds,
    torch.Tensor.is_cpu.__get__: lambda mode, tensor: not mode.holds(tensor),
    torch.Tensor.is_meta.__get__: lambda mode, tensor: False,
    torch.Tensor.get_device: lambda mode, tensor: CLAIMED.index if mode.holds(tensor) else -1,
    torch.Tensor.cuda: ClaimDevice._cuda,
    torch.Tensor.to: ClaimDevice._to,
    torch.Tensor.pin_memory: lambda mode, tensor, *args: _pin(tensor),
    torch.Tensor.is_pinned: lambda mode, tensor, *args: hasattr(tensor, "_portkit_pinned"),
}


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
