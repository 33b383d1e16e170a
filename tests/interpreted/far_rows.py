"""Row kernels on tensors whose offsets pass 2^31 elements, in Triton's interpreter; run as a script.

The tensors are virtual memory: only the rows that are looked at are ever touched.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import triton.language as tl
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
    """Of the number, as float16 rounds; of 1 where it is smaller."""
    return float(((got.double() - wanted.double()).abs() / wanted.double().abs().clamp(min=1)).max())


@contextlib.contextmanager
def only_program(index: int) -> Iterator[None]:
    """The one program that a launch of a grid of one runs is that of a far larger grid, its last one."""
    builder = interpreter.interpreter_builder
    own = builder.create_get_program_id, builder.create_get_num_programs
    number = lambda value: interpreter.TensorHandle(np.array([value], dtype=np.int32), tl.int32)  # noqa: E731
    builder.create_get_program_id = lambda axis: number(index if axis == 0 else 0)
    builder.create_get_num_programs = lambda axis: number(index + 1 if axis == 0 else 1)
    try:
        yield
    finally:
        builder.create_get_program_id, builder.create_get_num_programs = own


BLOCK, LAST = 1024, 2**31 // 1024  # elements of a program, and the program whose block begins at 2^31


def long_vector() -> torch.Tensor:
    """2^31 + 100 elements, of which the last 100 are looked at; the system gives memory to these alone."""
    x = torch.empty(2**31 + 100, dtype=torch.float16)
    x[-100:] = torch.rand(100) - 0.5
    return x


def sum_abs() -> float:
    import sum_abs as own

    x, partial = long_vector(), torch.zeros(LAST + 1)
    with only_program(LAST):
        own._partial_sums[(1,)](x, partial, x.numel(), BLOCK=BLOCK)
    return error(partial[-1], x[-100:].double().abs().sum())


def swiglu() -> float:
    import swiglu as own

    gate, up, y = long_vector(), long_vector(), long_vector()
    with only_program(LAST):
        own._swiglu[(1,)](gate, up, y, y.numel(), BLOCK=BLOCK)
    return error(y[-100:], own.reference(gate[-100:].double(), up[-100:].double()))


def pointwise_chain() -> float:
    import pointwise_chain as own

    x, y = long_vector(), long_vector()
    with only_program(LAST):
        own._chain[(1,)](x, y, y.numel(), WHOLE=False, OPERATIONS=8, BLOCK=BLOCK)
    return error(y[-100:], own.reference(x[-100:].double(), 8))


def pointwise_fan_in() -> float:
    import pointwise_fan_in as own

    x = far(7, 64)
    return error(own.pointwise_fan_in(x), own.reference(x.double()))


def rms_norm_fp8() -> float:
    """In units of a code's step: codes are as near as their 3 bits of mantissa, and the interpreter's carry."""
    import rms_norm_fp8 as own

    x, weight = far(6, 64), torch.rand(64).half()
    codes, scale = own.rms_norm_fp8(x, weight)
    wanted, wanted_scale = own.reference(x.double(), weight.double())
    near = (codes.double() - wanted.double()).abs() <= 0.125 * wanted.double().abs() + 2**-6
    return float((near.double().mean() < 0.9) | (error(scale, wanted_scale) > 1e-6))


def sampling() -> float:
    import sampling as own

    logits, uniform = far(6, 64), torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9, 0.2])
    return error(own.sampling(logits, uniform, 0.5, 20, 0.9), own.reference(logits.double(), uniform, 0.5, 20, 0.9))


def gradients(name: str, *inputs: torch.Tensor) -> float:
    """Error of all gradients, the inputs far apart."""
    own = __import__(name)
    for tensor in inputs:
        tensor.requires_grad_()
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    outputs, wanted = getattr(own, name)(*inputs), own.reference(*wide)
    outputs, wanted = [each if isinstance(each, tuple) else (each,) for each in (outputs, wanted)]
    upstream = [torch.rand(each.shape).half() for each in outputs]
    got = torch.autograd.grad(outputs, inputs, upstream)
    right = torch.autograd.grad(wanted, wide, [each.double() for each in upstream])
    return max(error(a, b) for a, b in zip(got, right, strict=True))


def rms_norm_backward() -> float:
    return gradients("rms_norm", far(6, 64), torch.rand(64).half())


def layer_norm_backward() -> float:
    return gradients("layer_norm", far(6, 64), torch.rand(64).half(), torch.rand(64).half())


def add_rms_norm_backward() -> float:
    return gradients("add_rms_norm", far(6, 64), far(6, 64), torch.rand(64).half())


def softmax_backward() -> float:
    return gradients("softmax", far(6, 64))


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


def rope_heads() -> float:
    """Heads that are far apart instead of sequences."""
    import rope as own

    q, k = far(6, 1, 2, 8).permute(1, 2, 0, 3), far(6, 1, 2, 8).permute(1, 2, 0, 3)
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
    torch.manual_seed(0)
    checks = (rms_norm, add_rms_norm, layer_norm, softmax, rope, rope_heads, cross_entropy)
    others = (bias_gelu_dropout, fused_moe_gate, scatter_add, pointwise_fan_in, rms_norm_fp8, sampling)
    backward = (rms_norm_backward, layer_norm_backward, add_rms_norm_backward, softmax_backward)
    for check in (*checks, *others, *backward, sum_abs, swiglu, pointwise_chain):
        print(check.__name__, check())
