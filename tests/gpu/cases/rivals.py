"""A case whose baselines end in every way that a baseline can."""

import time

import torch
import triton
import triton.language as tl

from portkit import Direction, KernelCase, Work
from portkit.baselines import Library


@triton.jit
def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def _wild_store(y_ptr, far):
    tl.store(y_ptr + far, 1.0)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        _double[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y

    @staticmethod
    def backward(ctx, dy):
        return Double.apply(dy)


def doubled(x):
    return Double.apply(x)


def right(x):
    return x + x


def wrong(x):
    return x + x + 1


def in_place(x):
    return x.mul_(2)


def without_gradient(x):
    return right(x.detach())


def broken(x):
    raise AttributeError("no such operator")


def faults(x):
    _wild_store[(1,)](x, 1 << 45)
    return right(x)


_KEPT = {}


def remembers(x):
    """The same tensor again gets the same answer again, which costs nothing."""
    if x.data_ptr() not in _KEPT:
        _KEPT[x.data_ptr()] = right(x)
    return _KEPT[x.data_ptr()]


def resizes(x):
    y = right(x)
    x.resize_(0)
    return y


def hangs(x):
    time.sleep(600)


@Library("no-such-library", "no_such_library").call()
def absent(x):
    raise AssertionError("must not be called")


case = KernelCase(
    name="rivals",
    fused=doubled,
    reference=lambda x: x * 2,
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
    work=lambda shape, dtype: Work(8 * shape[0], 8 * shape[0], shape[0]),
    shapes=((1 << 20,),),
    small_shapes=((1000,),),
    dtypes=("float32",),
    variants={"default": {}},
    directions=(Direction.FORWARD, Direction.BACKWARD),
    reduction_length=lambda shape: 1,
    baselines={
        "right": right,
        "wrong": wrong,
        "in_place": in_place,
        "without_gradient": without_gradient,
        "broken": broken,
        "faults": faults,
        "remembers": remembers,
        "resizes": resizes,
        "hangs": hangs,
        "absent": absent,
    },
)
