"""Kernels whose lowering leaves one trace each."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

import portkit


@triton.jit
def copy_row(x_ptr, out_ptr, stride, BLOCK: tl.constexpr, WIDE: tl.constexpr, POLICY: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns, eviction_policy=POLICY)
    tl.store(out_ptr + row * stride + columns, x)


@triton.jit
def copy_rows(x_ptr, out_ptr, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    place = rows[:, None] * stride + tl.arange(0, BLOCK)[None, :]
    tl.store(out_ptr + place, tl.load(x_ptr + place))


@triton.jit
def divide(x_ptr, out_ptr, n, d, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    tl.store(out_ptr + columns, tl.load(x_ptr + place // d % n + columns))


@triton.jit
def library(x_ptr, out_ptr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    tl.store(out_ptr + columns, libdevice.asinh(tl.load(x_ptr + columns)))


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr, SPECIALIZED: tl.constexpr):
    rows = tl.arange(0, SIZE)
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for k in tl.range(0, K, SIZE, warp_specialize=SPECIALIZED):
        a = tl.load(a_ptr + rows[:, None] * K + k + rows[None, :])
        b = tl.load(b_ptr + (k + rows[:, None]) * SIZE + rows[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * SIZE + rows[None, :], total)


@triton.jit
def walk(x_ptr, out_ptr, columns, CHUNK: tl.constexpr):
    """A softmax that meets its maximum on the way, so that one exponential is of a scalar."""
    lanes = tl.arange(0, CHUNK)
    top, total = -float("inf"), 0.0
    for start in range(0, columns, CHUNK):
        x = tl.load(x_ptr + start + lanes, mask=start + lanes < columns, other=-float("inf"))
        grown = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - grown) + tl.sum(tl.exp(x - grown), axis=0)
        top = grown
    tl.store(out_ptr, total)


@triton.jit
def quantize(x_ptr, out_ptr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    tl.store(out_ptr + columns, tl.load(x_ptr + columns).to(tl.float8e5))


@triton.jit
def move(x_ptr, out_ptr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + columns)
    y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out_ptr + columns, y)


def copying(*, wide=False, policy=""):
    def copy(x):
        out = torch.empty_like(x)
        copy_row[(x.shape[0],)](x, out, x.stride(0), BLOCK=128, WIDE=wide, POLICY=policy)
        return out

    return copy


def copied(x):
    out = torch.empty_like(x)
    copy_rows[(x.shape[0] // 16,)](x, out, x.stride(0), ROWS=16, BLOCK=128)
    return out


def divided(x):
    out = torch.empty_like(x)
    divide[(1,)](x, out, 2**33, 2**34 + 1, BLOCK=128)
    return out


def walked(x):
    out = torch.empty(1, dtype=torch.float32, device=x.device)
    walk[(1,)](x, out, x.numel(), CHUNK=2048)
    return out


def quantized(x):
    out = torch.empty_like(x, dtype=torch.float8_e5m2)
    quantize[(1,)](x, out, BLOCK=128)
    return out


def moved(x):
    out = torch.empty_like(x)
    move[(1,)](x, out, BLOCK=128)
    return out


def asinh(x):
    out = torch.empty_like(x)
    library[(1,)](x, out, BLOCK=128)
    return out


def specialized(x):
    out = torch.empty(64, 64, dtype=torch.float32, device=x.device)
    product[(1,)](x, x, out, 256, SIZE=64, SPECIALIZED=True)
    return out


def declare(name, fused, dtype="float32"):
    return portkit.KernelCase(
        name=name,
        fused=fused,
        reference=torch.clone,
        inputs=lambda make, shape, dtype: {"x": make.full(shape, dtype, 1)},
        work=lambda shape, dtype: portkit.Work(8, 16, 1),
        shapes=((256, 256),),
        small_shapes=((256, 256),),
        dtypes=(dtype,),
        variants={"default": {}},
    )


narrow = declare("narrow", copying())
apart = declare("apart", copied)
small_apart = declare("small_apart", copied)
wide = declare("wide", copying(wide=True))
evicting = declare("evicting", copying(policy="evict_first"))
dividing = declare("dividing", divided)
calling = declare("calling", asinh)
specializing = declare("specializing", specialized, "float16")
walking = declare("walking", walked)
quantizing = declare("quantizing", quantized)
moving = declare("moving", moved)
