"""Calls of Liger-Kernel's that take a layer or a configuration, which no words of a call can say."""

from types import SimpleNamespace

import torch
from liger_kernel.transformers import functional
from liger_kernel.transformers.tiled_mlp import LigerTiledGEGLUMLP, LigerTiledSwiGLUMLP

SIZES = {"hidden_size": 1024, "intermediate_size": 2816}


def mhc_forward(
    x: torch.Tensor,
    phi: torch.Tensor,
    b: torch.Tensor,
    alpha_pre: torch.Tensor,
    alpha_post: torch.Tensor,
    alpha_res: torch.Tensor,
) -> torch.Tensor:
    """``liger_mhc_forward`` around a linear layer."""
    layer = torch.nn.Linear(1024, 1024, bias=False, device="cuda", dtype=x.dtype)
    return functional.liger_mhc_forward(x, layer, phi, b, alpha_pre, alpha_post, alpha_res)


def tiled_swiglu(x: torch.Tensor) -> torch.Tensor:
    """A SwiGLU over four shards of the sequence."""
    config = SimpleNamespace(**SIZES, hidden_act="silu")
    return LigerTiledSwiGLUMLP(config, num_shards=4).to("cuda", x.dtype)(x)


def tiled_geglu(x: torch.Tensor) -> torch.Tensor:
    """The same with GELU."""
    config = SimpleNamespace(**SIZES, hidden_act="gelu_pytorch_tanh")
    return LigerTiledGEGLUMLP(config, num_shards=4).to("cuda", x.dtype)(x)
