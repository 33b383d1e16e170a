"""Row kernels on tensors whose offsets pass 2^31 elements, in Triton's interpreter; run as a script.

The tensors are virtual memory: only the rows that are looked at are ever touched.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from triton.runtime import interpreter

sys.path.insert(0, str(Path(__file__).parents[2] / "kernels"))

APART = 2**29  # elements between rows: the sixth is beyond 2^31
# After a launch the interpreter copies all tensors back to where they came from, here to themselves.
interpreter.GridExecutor._restore_args_dev = lambda *_: None


def far(*shape: int) -> torch.Tensor:
    """Rows far apart, the last one past 2^31 elements."""
    rows = shape[0]
    base = torch.empty((rows - 1) * APART + 4096, dtype=torch.float16)
    inner = torch.empty(shape[1:]).stride()
    return base.as_strided(shape, (APART, *inner)).copy_(torch.rand(shape) - 0.5)


def error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((got.double() - wanted.double()).abs().max())


def rms_norm() -> float:
    import rms_norm as own

    x, weight = far(6, 64), torch.rand(64).half()
    return error(own.rms_norm(x, weight), own.reference(x.double(), weight.double()))


def add_rms_norm() -> float:
    import add_rms_norm as own

    x, residual, weight = far(6, 64), far(6, 64), torch.rand(64).half()
    got, wanted = own.add_rms_norm(x, residual, weight), own.reference(x.double(), residual.double(), weight.double())
    return max(error(a, b) for a, b in zip(got, wanted, strict=True))


def layer_norm() -> float:
    import layer_norm as own

    x, weight, bias = far(6, 64), torch.rand(64).half(), torch.rand(64).half()
    return error(own.layer_norm(x, weight, bias), own.reference(x.double(), weight.double(), bias.double()))


def softmax() -> float:
    import softmax as own

    x = far(6, 64)
    return error(own.softmax(x), own.reference(x.double()))


def rope() -> float:
    import rope as own

    q, k = far(6, 2, 2, 8), far(6, 2, 1, 8)
    cos, sin = torch.rand(1, 2, 8).half(), torch.rand(1, 2, 8).half()
    wanted = own.reference(q.double(), k.double(), cos.double(), sin.double())
    got = own.rope(q, k, cos, sin)
    return max(error(a, b) for a, b in zip(got, wanted, strict=True))


def cross_entropy() -> float:
    import cross_entropy as own

    logits, target = far(6, 64), torch.tensor([0, 63, -100, 5, 6, 7])
    wanted = own.reference(logits.double(), target, 0.1)
    got = own.cross_entropy(logits, target, 0.1)
    return max(error(a, b) for a, b in zip(got, wanted, strict=True))


def bias_gelu_dropout() -> float:
    import bias_gelu_dropout as own

    x, bias = far(6, 64), torch.rand(64).half()
    keep = own.keep_mask(6, 64, 0.25, 5, "cpu")
    return error(own.bias_gelu_dropout(x, bias, 0.25, 5), own.reference(x.double(), bias.double(), keep, 0.25, 5))


def fused_moe_gate() -> float:
    import fused_moe_gate as own

    logits = far(6, 64)
    got, wanted = own.fused_moe_gate(logits, 4), own.reference(logits.double(), 4)
    return max(error(a, b) for a, b in zip(got, wanted, strict=True))


def scatter_add() -> float:
    import scatter_add as own

    dy, index = far(6, 64), torch.tensor([0, 2, 2, 1, 0, 2])
    return error(own.scatter_add(dy, index, 3), own.reference(dy.double(), index, 3))


if __name__ == "__main__":
    checks = (rms_norm, add_rms_norm, layer_norm, softmax, rope, cross_entropy)
    for check in (*checks, bias_gelu_dropout, fused_moe_gate, scatter_add):
        print(check.__name__, check())
