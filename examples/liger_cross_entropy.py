"""Liger-Kernel's cross-entropy over a vocabulary, from its installed package and unmodified.

    loss = mean over rows of log(sum(exp(x))) - x[target]

Its host code reads values (how many targets are not ignored), and picks warps by vendor,
architecture and dtype: 16 on ROCm, 8 on Blackwell for 16-bit logits, 32 elsewhere. The
gradient is made in the forward pass, in place of the logits; the backward pass launches
nothing where the loss is the end of the graph. So a backward cell is about the forward
pass with gradients on.

Work of one forward call, N = rows × vocabulary, s = bytes per element; a target has 8 B:
    fused    logits and targets read, one loss a row written and read, the mean written:
             (N + 2 rows + 1) s + 8 rows
    unfused  largest N + rows, - largest 2 N + rows, exp 2 N, sum N + rows, log 2 rows,
             picked 2 rows, difference 3 rows, mean rows + 1: (6 N + 11 rows + 1) s + 8 rows.
             Fusion gains at most about 6.
    flops    per element: largest, subtract, exp, sum = 4; per row: log, subtract, sum = 3.

Sources:
    1. Liger-Kernel, https://github.com/linkedin/Liger-Kernel, ``ops/cross_entropy.py``
       (0.8.5 read).
    2. M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018,
       https://arxiv.org/abs/1805.02867
"""

import torch
from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

from portkit import Direction, KernelCase, Work
from portkit.baselines import pytorch
from portkit.model import DTYPE_BYTES


def fused(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Liger-Kernel's public function with its defaults: the mean over rows."""
    loss, *_ = LigerCrossEntropyFunction.apply(logits, target, None)
    return loss


def reference(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The unfused chain, one kernel an operation, in the dtype of the logits."""
    shifted = logits - logits.amax(dim=-1, keepdim=True)
    picked = shifted.gather(1, target[:, None]).squeeze(1)
    return (shifted.exp().sum(dim=-1).log() - picked).mean()


def inputs(make, shape, dtype):
    """Logits in [-4, 4), a target in every row."""
    rows, vocabulary = shape
    return {
        "logits": make.uniform(shape, dtype, low=-4.0, high=4.0),
        "target": make.integers((rows,), "int64", 0, vocabulary),
    }


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    rows, vocabulary = shape
    n, size = rows * vocabulary, DTYPE_BYTES[dtype]
    return Work(
        fused_bytes=(n + 2 * rows + 1) * size + 8 * rows,
        unfused_bytes=(6 * n + 11 * rows + 1) * size + 8 * rows,
        flops=4 * n + 3 * rows,
    )


case = KernelCase(
    name="liger_cross_entropy",
    fused=fused,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=((4096, 32000), (1024, 128256)),
    small_shapes=((4, 32000),),
    dtypes=("float32", "bfloat16"),
    variants={"default": {}},
    directions=(Direction.FORWARD, Direction.BACKWARD),
    in_place=("logits",),
    baselines={"torch": pytorch.cross_entropy},
)
