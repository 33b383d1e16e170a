"""AITER's fused operations: AMD only, forward only, float16 and bfloat16.

Source: https://github.com/ROCm/aiter, ``aiter/ops/rmsnorm.py`` and ``aiter/ops/activation.py``. Written
after its source; not yet run on AMD hardware.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portkit.baselines.library import AITER

__all__ = ["AITER", "add_rms_norm", "rms_norm", "silu_and_mul"]


@AITER.call()
def rms_norm(x: Any, weight: Any, eps: float = 1e-6) -> Any:
    """RMS norm over the last dimension."""
    import aiter  # noqa: PLC0415 - where it is installed

    return aiter.rms_norm(x, weight, eps)


@AITER.call()
def add_rms_norm(x: Any, residual: Any, weight: Any, eps: float = 1e-6) -> Any:
    """RMS norm of ``x + residual``, and that sum."""
    import aiter  # noqa: PLC0415 - where it is installed
    import torch  # noqa: PLC0415 - so that this module imports without it

    out, total = torch.empty_like(x), torch.empty_like(x)
    aiter.rmsnorm2d_fwd_with_add(out, x, residual, total, weight, eps)
    return out, total


def _packed(gate: Any, up: Any) -> Mapping[str, Any]:
    """Side by side, as one projection of both leaves them."""
    import torch  # noqa: PLC0415 - so that this module imports without it

    return {"gate_up": torch.cat([gate, up], dim=-1)}


@AITER.call(prepare=_packed)
def silu_and_mul(gate_up: Any) -> Any:
    """silu(gate) * up, from one tensor that holds both."""
    import aiter  # noqa: PLC0415 - where it is installed
    import torch  # noqa: PLC0415 - so that this module imports without it

    out = torch.empty(*gate_up.shape[:-1], gate_up.shape[-1] // 2, dtype=gate_up.dtype, device=gate_up.device)
    aiter.silu_and_mul(out, gate_up)
    return out
