"""Kernels that harm their process or its device at one shape and are right at others."""

import os

import torch
import triton
import triton.language as tl

from portkit import KernelCase, Work

FATAL = 2048


@triton.jit
def _copy(x_ptr, y_ptr, far, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + far + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def _wait_for_ever(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x_ptr + i, mask=i < n)
    while tl.atomic_add(y_ptr, 0.0) > -1e30:
        value += 1
    tl.store(y_ptr + i, value, mask=i < n)


def _copied(x, *, far=0, grid=None):
    y = torch.empty_like(x)
    _copy[grid or (triton.cdiv(x.numel(), 1024),)](x, y, far, x.numel(), BLOCK=1024)
    return y


def wild_store(x):
    """Far outside every allocation: the device faults, and its context is lost."""
    return _copied(x, far=1 << 45 if x.numel() == FATAL else 0)


def endless(x):
    """A kernel that never ends."""
    if x.numel() == FATAL:
        y = torch.zeros_like(x)
        _wait_for_ever[(1,)](x, y, x.numel(), BLOCK=1024)
        return y
    return _copied(x)


def aborts(x):
    """A library that gives up."""
    if x.numel() == FATAL:
        os.abort()
    return _copied(x)


def hoards(x):
    """More memory than the device has."""
    if x.numel() == FATAL:
        total = torch.cuda.get_device_properties(x.device).total_memory
        half, other, last = (torch.empty(total // 2, dtype=torch.uint8, device=x.device) for _ in range(3))
        return half + other + last
    return _copied(x)


def too_large_a_grid(x):
    """The second axis of a grid has 65535 blocks at most."""
    return _copied(x, grid=(1, 70_000) if x.numel() == FATAL else None)


def _case(function):
    return KernelCase(
        name=function.__name__,
        fused=function,
        reference=torch.clone,
        inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
        work=lambda shape, dtype: Work(8 * shape[0], 8 * shape[0], 0),
        shapes=((1024,), (2048,), (4096,)),
        small_shapes=((1024,),),
        dtypes=("float32",),
        variants={"default": {}},
    )


CASES = [_case(function) for function in (wild_store, endless, aborts, hoards, too_large_a_grid)]
globals().update({f"{case.name}_case": case for case in CASES})
