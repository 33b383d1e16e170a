"""Cases that work when they are measured, and end badly under the profiler."""

import os
import sys
import time

import torch
import triton
import triton.language as tl

from portkit import KernelCase, Work

PROFILED = "portkit.run.counters.profiled"


def _is_profiled():
    return getattr(sys.modules["__main__"].__spec__, "name", "") == PROFILED


@triton.jit
def _negate(x_ptr, y_ptr, n, far, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + lanes + far, -tl.load(x_ptr + lanes, mask=lanes < n), mask=lanes < n)


def _negated(x, far=0):
    y = torch.empty_like(x)
    _negate[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), far, BLOCK=1024)
    return y


def _sleeps(input):
    if _is_profiled():
        time.sleep(600)
    return _negated(input)


def _aborts(input):
    if _is_profiled():
        os.abort()
    return _negated(input)


def _faults(input):
    return _negated(input, far=1 << 50 if _is_profiled() else 0)


def _grows(input):
    if _is_profiled():
        torch.empty(1 << 50, dtype=torch.uint8, device=input.device)
    return _negated(input)


def _case(name, fused):
    return KernelCase(
        name=name,
        fused=fused,
        reference=torch.neg,
        inputs=lambda make, shape, dtype: {"input": make.uniform(shape, dtype)},
        work=lambda shape, dtype: Work(8 * shape[0], 8 * shape[0], shape[0]),
        shapes=((1 << 20,),),
        small_shapes=((4096,),),
        dtypes=("float32",),
        variants={"default": {}},
    )


sleeps = _case("sleeps", _sleeps)
aborts = _case("aborts", _aborts)
faults = _case("faults", _faults)
grows = _case("grows", _grows)
