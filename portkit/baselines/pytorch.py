"""PyTorch's own fused operators, and what its libraries expose through it.

``torch`` as the name of a baseline is PyTorch's own operator for the whole case, or the
shortest chain of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from portkit.baselines.library import TORCH, LibraryCall

__all__ = [
    "add_rms_norm",
    "attention",
    "compiled",
    "cross_entropy",
    "layer_norm",
    "linear_gelu",
    "rms_norm",
    "softmax",
    "sum_abs",
]


@TORCH.call()
def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension, one operator."""
    return torch.softmax(x, dim=-1)


@TORCH.call()
def sum_abs(x: torch.Tensor) -> torch.Tensor:
    """Sum of |x| in float32: the 1-norm of the flattened tensor, one operator."""
    norm: torch.Tensor = torch.linalg.vector_norm(x, ord=1, dtype=torch.float32)
    return norm


@TORCH.call()
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """RMS norm over the last dimension, one operator."""
    return functional.rms_norm(x, weight.shape, weight, eps)


@TORCH.call()
def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Layer norm over the last dimension, one operator."""
    return functional.layer_norm(x, weight.shape, weight, bias, eps)


@TORCH.call()
def cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean over rows of the cross-entropy of logits (rows, classes) with a class in each row, one operator."""
    return functional.cross_entropy(logits, target)


@TORCH.call()
def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """RMS norm of ``x + residual``, and that sum: an addition and ``rms_norm``, two operators."""
    h = x + residual
    return functional.rms_norm(h, weight.shape, weight, eps), h


def attention(backend: str, *, causal: bool = False) -> LibraryCall:
    """``scaled_dot_product_attention`` of ``query``, ``key`` and ``value``, held to one backend.

    Operands are (…, heads, length, dim); keys and values may have fewer heads, shared evenly (PyTorch 2.5 and later).

    Args:
        backend: a name of ``torch.nn.attention.SDPBackend``: ``FLASH_ATTENTION``,
            ``EFFICIENT_ATTENTION``, ``CUDNN_ATTENTION`` or ``MATH``. One that refuses the
            inputs fails by itself; nothing else takes its place.
        causal: whether a query sees earlier keys only.
    """

    @TORCH.call()
    def call(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: PLC0415 - PyTorch 2.3 and later

        grouped = {"enable_gqa": True} if query.shape[-3] != key.shape[-3] else {}
        with sdpa_kernel(getattr(SDPBackend, backend)):
            out: torch.Tensor = functional.scaled_dot_product_attention(query, key, value, is_causal=causal, **grouped)
        return out

    return call


@TORCH.call()
def linear_gelu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """gelu(x weightᵀ + bias), on CUDA one product with cuBLASLt's epilogue for bias and GELU.

    PyTorch reaches the epilogue through ``torch._addmm_activation`` alone, which has no gradient. The
    epilogue's GELU is the tanh form; on a CPU the same call takes the exact one.

    Args:
        x: (rows, in).
        weight: (out, in).
        bias: (out,).
    """
    out: torch.Tensor = torch._addmm_activation(bias, x, weight.t(), use_gelu=True)
    return out


def compiled(function: Callable[..., Any], *, mode: str | None = None, **options: Any) -> LibraryCall:
    """``torch.compile`` of a function, in a mode or with options of Inductor, at its first call.

    ``compiled(reference, max_autotune=True, max_autotune_gemm_backends="CUTLASS,ATEN")`` lets it
    choose CUTLASS templates for products with an epilogue; these need CUTLASS's sources and
    ``nvcc`` on the host (``TORCHINDUCTOR_CUTLASS_DIR``).
    """

    @functools.cache
    def made() -> Callable[..., Any]:
        call: Callable[..., Any] = torch.compile(function, mode=mode, options=options or None)
        return call

    @TORCH.call()
    def call(**inputs: Any) -> Any:
        return made()(**inputs)

    return call
