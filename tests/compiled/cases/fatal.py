"""Kernels whose compiler or host code takes the process down, or never comes back."""

import os
import time

import torch
import triton
import triton.language as tl

import portkit


@triton.jit
def tanh_ptx(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    y = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(y_ptr + offsets, y)


@triton.jit
def copy(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets))


def inline_ptx(x):
    """exit(1) with no exception on HIP up to Triton 3.7.1."""
    y = torch.empty_like(x)
    tanh_ptx[(1,)](x, y, BLOCK=1024)
    return y


def host_exits(x):
    if x.shape[0] == 2048:
        os._exit(3)
    y = torch.empty_like(x)
    copy[(1,)](x, y, BLOCK=1024)
    return y


def host_hangs(x):
    if x.shape[0] == 2048:
        time.sleep(3600)
    y = torch.empty_like(x)
    copy[(1,)](x, y, BLOCK=1024)
    return y


def _case(function):
    return portkit.KernelCase(
        name=function.__name__,
        fused=function,
        reference=torch.tanh,
        inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
        work=lambda shape, dtype: portkit.Work(8 * shape[0], 8 * shape[0], shape[0]),
        shapes=((1024,), (2048,), (4096,)),
        small_shapes=((1024,),),
        dtypes=("float32",),
        variants={"default": {}},
    )


CASES = [_case(function) for function in (inline_ptx, host_exits, host_hangs)]
inline_ptx_case, host_exits_case, host_hangs_case = CASES
