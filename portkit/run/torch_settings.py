"""PyTorch's settings of the whole process: who changes one changes every later call of all others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch


@dataclass(frozen=True)
class Setting:
    """One of them."""

    name: str  # as PyTorch's users know it
    get: Callable[[], Any]
    put: Callable[[Any], None]


def _attribute(owner: Any, path: str, name: str) -> Setting:
    return Setting(
        f"torch.backends.{path}.{name}", lambda: getattr(owner, name), lambda value: setattr(owner, name, value)
    )


def _default_device() -> torch.device | None:
    device = torch.get_default_device()
    return None if device.type == "cpu" else device  # a CPU that was chosen costs each call a detour


def _precision() -> tuple[str | None, str | None]:
    """Of float32 products: by the older interface, and what torch 2.9's says that is not IEEE's.

    The older one raises where the newer was used beside it.
    """
    newer = getattr(torch.backends.cuda.matmul, "fp32_precision", None)
    older = None
    with contextlib.suppress(RuntimeError):
        older = torch.get_float32_matmul_precision()
    return older, None if newer in ("none", "ieee") else newer


def _put_precision(before: tuple[str | None, str | None]) -> None:
    older, newer = before
    if older is not None:
        torch.set_float32_matmul_precision(older)  # sets the newer, too
    if older is None or newer is not None:
        torch.backends.cuda.matmul.fp32_precision = newer or "ieee"


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _put_deterministic(before: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


_CUDA, _CUDNN = torch.backends.cuda, torch.backends.cudnn

SETTINGS: Final = (
    Setting("torch.set_default_dtype", torch.get_default_dtype, torch.set_default_dtype),
    Setting("torch.set_default_device", _default_device, torch.set_default_device),
    Setting("precision of float32 products (tf32)", _precision, _put_precision),
    Setting("torch.use_deterministic_algorithms", _deterministic, _put_deterministic),
    _attribute(_CUDA.matmul, "cuda.matmul", "allow_fp16_reduced_precision_reduction"),
    _attribute(_CUDA.matmul, "cuda.matmul", "allow_bf16_reduced_precision_reduction"),
    _attribute(_CUDNN, "cudnn", "enabled"),
    _attribute(_CUDNN, "cudnn", "benchmark"),
    _attribute(_CUDNN, "cudnn", "deterministic"),
    Setting("torch.backends.cuda.enable_flash_sdp", _CUDA.flash_sdp_enabled, _CUDA.enable_flash_sdp),
    Setting("torch.backends.cuda.enable_math_sdp", _CUDA.math_sdp_enabled, _CUDA.enable_math_sdp),
    Setting(
        "torch.backends.cuda.enable_mem_efficient_sdp",
        _CUDA.mem_efficient_sdp_enabled,
        _CUDA.enable_mem_efficient_sdp,
    ),
)
"""Those that change numerics, speed or the place of what others compute."""


def settings_now() -> list[Any]:
    """Values of all settings, to compare."""
    return [setting.get() for setting in SETTINGS]


@dataclass
class Kept:
    """What was put back."""

    changed: tuple[str, ...] = ()  # names of settings


@contextlib.contextmanager
def kept_settings() -> Iterator[Kept]:
    """Put settings back that change within, whatever happens there; which, is known afterwards."""
    before = settings_now()
    kept = Kept()
    try:
        yield kept
    finally:
        changed = [pair for pair in zip(SETTINGS, before, strict=True) if pair[0].get() != pair[1]]
        for setting, value in changed:
            setting.put(value)
        kept.changed = tuple(setting.name for setting, _ in changed)
