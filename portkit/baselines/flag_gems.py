"""FlagGems' fused operations.

Source: https://github.com/flagos-ai/FlagGems, ``src/flag_gems/fused`` and ``ops/softmax.py``.
"""

from __future__ import annotations

from typing import Any

from portkit.baselines.library import FLAG_GEMS

__all__ = ["FLAG_GEMS", "add_rms_norm", "silu_and_mul", "softmax"]


@FLAG_GEMS.call()
def softmax(x: Any) -> Any:
    """Softmax over the last dimension."""
    import flag_gems  # noqa: PLC0415 - where it is installed

    return flag_gems.softmax(x, -1)


@FLAG_GEMS.call()
def silu_and_mul(gate: Any, up: Any) -> Any:
    """silu(gate) * up."""
    import flag_gems  # noqa: PLC0415 - where it is installed

    return flag_gems.silu_and_mul(gate, up)


@FLAG_GEMS.call()
def add_rms_norm(x: Any, residual: Any, weight: Any, eps: float = 1e-6) -> Any:
    """RMS norm of ``x + residual``, and that sum; in place of ``x`` and ``residual``. It has no gradient."""
    import flag_gems  # noqa: PLC0415 - where it is installed

    return flag_gems.fused_add_rms_norm(x, residual, list(weight.shape), weight, eps)
