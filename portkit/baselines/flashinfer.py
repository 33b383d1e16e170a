"""FlashInfer's fused operations: NVIDIA only, forward only, float16 and bfloat16.

Source: https://docs.flashinfer.ai, ``flashinfer.norm`` and ``flashinfer.activation``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portkit.baselines.library import FLASHINFER

__all__ = ["FLASHINFER", "add_rms_norm", "silu_and_mul"]


@FLASHINFER.call()
def add_rms_norm(x: Any, residual: Any, weight: Any, eps: float = 1e-6) -> Any:
    """RMS norm of ``x + residual``, and that sum; in place of ``x`` and ``residual``."""
    from flashinfer import fused_add_rmsnorm  # noqa: PLC0415 - where it is installed

    fused_add_rmsnorm(x, residual, weight, eps)
    return x, residual


def _packed(gate: Any, up: Any) -> Mapping[str, Any]:
    """Side by side, as one projection of both leaves them."""
    import torch  # noqa: PLC0415 - so that this module imports without it

    return {"gate_up": torch.cat([gate, up], dim=-1)}


@FLASHINFER.call(prepare=_packed)
def silu_and_mul(gate_up: Any) -> Any:
    """silu(gate) * up, from one tensor that holds both."""
    from flashinfer import silu_and_mul as fused  # noqa: PLC0415 - where it is installed

    return fused(gate_up)
