"""Kernels whose compiler or host code takes the process down, or never comes back."""

import os
import signal
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


def copied(x):
    y = torch.empty_like(x)
    copy[(1,)](x, y, BLOCK=1024)
    return y


def host_exits(x):
    if x.shape[0] == 2048:
        os._exit(3)
    return copied(x)


def host_hangs(x):
    if x.shape[0] == 2048:
        time.sleep(3600)
    return copied(x)


def host_floods(x):
    """200 MB of output, then the end."""
    if x.shape[0] == 2048:
        for _ in range(200):
            os.write(1, b"nothing but noise\n" * 58_000)
        os.write(2, b"Error: these are the last words\n")
        os._exit(5)
    return copied(x)


def host_hoards(x):
    """Ever more memory, up to 6 GiB."""
    hoard = []
    while x.shape[0] == 2048 and len(hoard) < 96:
        hoard.append(os.urandom(1) * 2**26)
        time.sleep(0.05)
    return copied(x)


def host_is_killed(x):
    """What the kernel's out-of-memory killer does."""
    if x.shape[0] == 2048:
        os.kill(os.getpid(), signal.SIGKILL)
    return copied(x)


def host_kills_parent(x):
    if x.shape[0] == 2048:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(3600)
    return copied(x)


@triton.jit
def unrolled(x_ptr, y_ptr, COUNT: tl.constexpr):
    offsets = tl.arange(0, 1024)
    x = tl.load(x_ptr + offsets)
    for i in tl.static_range(COUNT):
        x = x * x + i
    tl.store(y_ptr + offsets, x)


def slow_to_compile(x):
    """The front end unrolls a million operations at one shape."""
    y = torch.empty_like(x)
    unrolled[(1,)](x, y, COUNT=1_000_000 if x.shape[0] == 2048 else 1)
    return y


@triton.jit
def misspelt(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(x_pointer))  # noqa: F821


def undefined_name(x):
    y = torch.empty_like(x)
    misspelt[(1,)](x, y)
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


CASES = [
    _case(function)
    for function in (
        inline_ptx,
        host_exits,
        host_hangs,
        host_floods,
        host_hoards,
        host_is_killed,
        host_kills_parent,
        slow_to_compile,
        undefined_name,
    )
]
globals().update({f"{case.name}_case": case for case in CASES})
