"""Liger-Kernel's fused operations, forward and backward.

Source: https://github.com/linkedin/Liger-Kernel, ``ops/`` (0.8.5 read).
"""

from __future__ import annotations

from typing import Any

from portkit.baselines.library import LIGER

__all__ = ["LIGER", "add_rms_norm", "linear_cross_entropy", "silu_and_mul", "softmax"]


@LIGER.call()
def softmax(x: Any) -> Any:
    """Softmax over the last dimension."""
    from liger_kernel.ops.softmax import LigerSoftmaxFunction  # noqa: PLC0415 - where it is installed

    return LigerSoftmaxFunction.apply(x)


@LIGER.call()
def silu_and_mul(gate: Any, up: Any) -> Any:
    """silu(gate) * up. Its gradient overwrites both inputs."""
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction  # noqa: PLC0415 - where it is installed

    return LigerSiLUMulFunction.apply(gate, up)


@LIGER.call()
def add_rms_norm(x: Any, residual: Any, weight: Any, eps: float = 1e-6) -> Any:
    """RMS norm of ``x + residual``, and that sum; casts as Llama does, which rounds once before the weight."""
    from liger_kernel.ops.fused_add_rms_norm import (  # noqa: PLC0415 - where it is installed
        LigerFusedAddRMSNormFunction,
    )

    return LigerFusedAddRMSNormFunction.apply(x, residual, weight, eps)


@LIGER.call()
def linear_cross_entropy(hidden: Any, weight: Any, target: Any) -> Any:
    """Cross-entropy of hidden weightᵀ (rows, classes) with a class in each row, by row; 0 where it is -100.

    The logits are made in chunks of rows. Where a gradient is wanted it is made in the same pass.
    """
    from liger_kernel.ops.fused_linear_cross_entropy import (  # noqa: PLC0415 - where it is installed
        LigerFusedLinearCrossEntropyFunction,
    )

    bias = class_weights = None
    options = (-100, 0.0, 0.0, "none")  # ignored class, z-loss, smoothing, reduction
    return LigerFusedLinearCrossEntropyFunction.apply(hidden, weight, target, bias, class_weights, *options)[0]
