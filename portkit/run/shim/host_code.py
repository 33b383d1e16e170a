"""What host code does with torch beyond ``torch.cuda`` and tensors.

Custom operators, generators, the default device, threads, and ``torch.compile``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef

from portkit.run.shim.device import CLAIMED, ClaimDevice
from portkit.run.shim.refusals import CompiledHostError
from portkit.run.shim.torch_cuda import random_state

_TRITON_OPS = "torch._library.triton"
"""Where ``torch.library.triton_op`` wraps a user's function."""


def patch_host_code(mode: ClaimDevice) -> None:
    """Patch all of it, for good."""
    _patch_generator(mode)
    _patch_default_device(mode)
    _patch_threads(mode)
    _patch_custom_ops()
    _patch_libraries()
    torch.compile = _refuse_compiled
    torch.Tensor.record_stream = lambda tensor, stream: None  # reads the stream before any mode is asked


def _patch_generator(mode: ClaimDevice) -> None:
    """A generator of the GPU is one of the CPU that says otherwise: meta has no numbers."""
    original = torch.Generator

    class Generator(original):  # type: ignore[valid-type, misc]
        def __new__(cls, device: Any = "cpu") -> Any:
            self = original.__new__(cls, device="cpu")
            self.claimed = CLAIMED if mode.real(device) is mode.backing or isinstance(device, int) else device
            return self

        @property
        def device(self) -> torch.device:
            return torch.device(self.claimed)

        def get_state(self) -> torch.Tensor:
            own: torch.Tensor = original.get_state(self)
            return own if self.device.type == "cpu" else random_state()

        def set_state(self, state: torch.Tensor) -> Any:
            return original.set_state(self, state) if self.device.type == "cpu" else self

    torch.Generator = Generator
    torch.cuda.default_generators = (Generator("cuda"),)


def _patch_default_device(mode: ClaimDevice) -> None:
    """Factories without ``device=`` follow a default that is a GPU, whatever backs it then."""
    original, original_get = torch.set_default_device, torch.get_default_device
    default: list[bool] = [False]

    def set_default_device(device: Any) -> None:
        default[0] = device is not None and torch.device(device).type == "cuda"
        original(mode.backing if default[0] else device)

    def get_default_device() -> torch.device:
        return CLAIMED if default[0] else original_get()

    mode.on_move.append(lambda: original(mode.backing) if default[0] else None)
    torch.set_default_device, torch.get_default_device = set_default_device, get_default_device


def _patch_threads(mode: ClaimDevice) -> None:
    """Function modes belong to a thread; threads that host code starts enter ours."""
    start = threading.Thread.start

    def started(self: threading.Thread) -> None:
        run = self.run

        def run_under_mode() -> None:
            with mode:
                run()

        self.run = run_under_mode  # type: ignore[method-assign]
        start(self)

    threading.Thread.start = started  # type: ignore[method-assign]


def _patch_custom_ops() -> None:
    """On meta the dispatcher calls an operator's fake; let that be the real implementation."""

    def fake(self: CustomOpDef) -> Callable[..., Any] | None:
        own: Callable[..., Any] | None = self.__dict__.get("_abstract_fn")
        real: Callable[..., Any] | None = self._backend_fns.get("cuda") or self._backend_fns.get(None)
        torchs = _is_torchs(self._init_fn.__module__) and self._init_fn.__module__ != _TRITON_OPS
        return own if torchs else real or own

    def set_fake(self: CustomOpDef, own: Callable[..., Any] | None) -> None:
        self.__dict__["_abstract_fn"] = own

    CustomOpDef._abstract_fn = property(fake, set_fake)


def _is_torchs(module: object) -> bool:
    return str(module).split(".")[0] == "torch"


def _patch_libraries() -> None:
    """Implementations for CUDA serve meta and the CPU as well, and no fake stands before them."""
    impl, fake = torch.library.Library.impl, torch.library.Library._register_fake
    real: set[tuple[str, str]] = set()

    def implement(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> Any:
        result = impl(self, op_name, fn, dispatch_key, **options)
        users = not _is_torchs(sys._getframe(1).f_globals.get("__name__"))
        if users and dispatch_key == "CUDA" and isinstance(op_name, str):
            real.add((self.ns, op_name.removeprefix(f"{self.ns}::")))
            for key in ("Meta", "CPU"):
                impl(self, op_name, fn, key, **options)
        return result

    def register_fake(self: Any, op_name: str, *args: Any, **options: Any) -> Any:
        if (self.ns, op_name) not in real:
            return fake(self, op_name, *args, **options)
        return None

    torch.library.Library.impl, torch.library.Library._register_fake = implement, register_fake


def _refuse_compiled(model: Any = None, **options: Any) -> Any:
    """``torch.compile`` as a call or a decorator; the function is refused when it is called."""
    if model is None:
        return _refuse_compiled
    if isinstance(model, torch.nn.Module):
        model.forward = _refuse_compiled(model.forward)
        return model
    name = getattr(model, "__qualname__", type(model).__name__)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise CompiledHostError(
            f"{name} is compiled by torch.compile, whose own kernels are not known for an absent GPU; "
            "let the case call the function without it"
        )

    refuse.__wrapped__ = model  # type: ignore[attr-defined]
    return refuse
