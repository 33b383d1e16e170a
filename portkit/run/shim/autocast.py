"""The casts that ``torch.autocast("cuda")`` makes, which neither meta nor CPU tensors get.

Lists: PyTorch's documentation, "Automatic Mixed Precision package", CUDA operations that
autocast to float16 and to float32. Operations that promote to the widest input are
left alone: type promotion does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_LOWER = frozenset(
    {
        "__matmul__",
        "addbmm",
        "addmm",
        "addmv",
        "addr",
        "baddbmm",
        "bmm",
        "chain_matmul",
        "multi_dot",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "linear",
        "matmul",
        "mm",
        "mv",
        "prelu",
        "scaled_dot_product_attention",
    }
)
_FLOAT32 = frozenset(
    {
        "__pow__",
        "__rpow__",
        "acos",
        "asin",
        "binary_cross_entropy_with_logits",
        "cosh",
        "cosine_embedding_loss",
        "cdist",
        "cosine_similarity",
        "cross_entropy",
        "cumprod",
        "cumsum",
        "dist",
        "erfinv",
        "exp",
        "expm1",
        "group_norm",
        "hinge_embedding_loss",
        "kl_div",
        "l1_loss",
        "layer_norm",
        "log",
        "log10",
        "log_softmax",
        "log1p",
        "log2",
        "margin_ranking_loss",
        "mse_loss",
        "multilabel_margin_loss",
        "multi_margin_loss",
        "nll_loss",
        "norm",
        "normalize",
        "pdist",
        "poisson_nll_loss",
        "pow",
        "prod",
        "reciprocal",
        "rsqrt",
        "sinh",
        "smooth_l1_loss",
        "soft_margin_loss",
        "softmax",
        "softmin",
        "softplus",
        "sum",
        "renorm",
        "tan",
        "triplet_margin_loss",
    }
)


def cast_for_autocast(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], holds: Callable[[torch.Tensor], bool]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as autocast hands them to an operation on a GPU."""
    if not torch.is_autocast_enabled("cuda"):
        return args, kwargs
    name = getattr(func, "__name__", "")
    if name in _LOWER:
        dtype = torch.get_autocast_dtype("cuda")
    elif name in _FLOAT32:
        dtype = torch.float32
    else:
        return args, kwargs

    def cast(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64:
            return value.to(dtype) if holds(value) else value
        return value

    return tuple(map(cast, args)), {name: cast(value) for name, value in kwargs.items()}
