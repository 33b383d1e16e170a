"""Kernels with a fault each, and right ones beside them, for emulated cells.

The line of each fault ends with the comment ``# fault``; tests look for its number.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from portkit import Direction, KernelCase, Work

BLOCK = 256


def declare(name, fused, reference, inputs=None, **more):
    """A case of one float32 input, unless told otherwise."""
    return KernelCase(
        name=name,
        fused=fused,
        reference=reference,
        inputs=inputs or (lambda make, shape, dtype: {"x": make.uniform(shape, dtype)}),
        work=lambda shape, dtype: Work(8, 8, 8),
        shapes=((1000,),),
        small_shapes=more.pop("small_shapes", ((1000,),)),
        dtypes=("float32",),
        variants={"default": {}},
        **more,
    )


def blocks(x):
    return (triton.cdiv(x.numel(), BLOCK),)


@triton.jit
def _off_by_one(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, x * 2, mask=i <= n)  # fault


def off_by_one(x):
    y = torch.empty_like(x)
    _off_by_one[blocks(x)](x, y, x.numel(), BLOCK=BLOCK)
    return y


def raising(x):
    raise ValueError("no such chain")


@triton.jit
def _overflow(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    far = (i * 4194304) >> 22
    x = tl.load(x_ptr + far, mask=i < n)  # fault
    tl.store(y_ptr + i, x * 2, mask=i < n)


def overflow(x):
    y = torch.empty_like(x)
    _overflow[blocks(x)](x, y, x.numel(), BLOCK=BLOCK)
    return y


@triton.jit
def _wrong_stride(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * (columns + 16) + i, mask=i < columns)  # fault
    tl.store(y_ptr + row * columns + i, x * 2, mask=i < columns)


def wrong_stride(x):
    y = torch.empty_like(x)
    _wrong_stride[(x.shape[0],)](x, y, x.shape[1], BLOCK=BLOCK)
    return y


@triton.jit
def _accumulate(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + i, mask=i < n)  # fault
    tl.store(y_ptr + i, y + tl.load(x_ptr + i, mask=i < n), mask=i < n)


def unwritten_accumulator(x):
    y = torch.empty_like(x)
    _accumulate[blocks(x)](x, y, x.numel(), BLOCK=BLOCK)
    return y


def partly_initialised(x):
    """One launch sets all but the last element, the next one adds to all: the last one may be anything."""
    y = torch.empty_like(x)
    _double[blocks(x)](x, y, x.numel() - 1, BLOCK=BLOCK)
    _accumulate[blocks(x)](x, y, x.numel(), BLOCK=BLOCK)
    return y


def wholly_initialised(x):
    """Half by a kernel, half by the host, some of it with the very word that fills fresh memory."""
    y = torch.empty_like(x)
    half = x.numel() // 2 - 1
    y.view(torch.int16)[2 * half :] = -15 + torch.arange(13, dtype=torch.int16).repeat(200)[: 2 * (x.numel() - half)]
    _accumulate[(1,)](x, y[half + 1 :], 100, BLOCK=BLOCK)
    _double[blocks(x)](x, y, half, BLOCK=BLOCK)
    y[half:].copy_(x[half:] * 2)
    _accumulate[blocks(x)](x, y, x.numel(), BLOCK=BLOCK)
    return y


@triton.jit
def _reversed(x_ptr, room_ptr, y_ptr, n, BLOCK: tl.constexpr, BARRIER: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(room_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)
    if BARRIER:
        tl.debug_barrier()
    tl.store(y_ptr + i, tl.load(room_ptr + n - 1 - i, mask=i < n), mask=i < n)  # fault


def reverse(x, barrier):
    room, y = torch.empty_like(x), torch.empty_like(x)
    _reversed[(1,)](x, room, y, x.numel(), BLOCK=1024, BARRIER=barrier, num_warps=8)
    return y


@triton.jit
def _last_wins(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(x_ptr + tl.program_id(0)))


def last_wins(x):
    y = torch.empty((), device=x.device)
    _last_wins[(x.numel(),)](x, y)
    return y


@triton.jit
def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


def huge_grid(x):
    y = torch.empty_like(x)
    _double[(1 << 22,)](x, y, x.numel(), BLOCK=BLOCK)
    return y


def too_many_threads(x):
    y = torch.empty_like(x)
    _double[blocks(x)](x, y, x.numel(), BLOCK=BLOCK, num_warps=32)
    return y


def no_kernel(x):
    return x * 2


def swallowed(x):
    try:
        return off_by_one(x)
    except Exception:
        return x * 2


@triton.jit
def _strange(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.inline_asm_elementwise("v_cvt_off_f32_i4 $0, $1", "=v,v", [x], tl.float32, True, 1)  # fault
    tl.store(y_ptr + i, y * 2, mask=i < n)


def strange(x):
    y = torch.empty_like(x)
    _strange[blocks(x)](x, y, x.numel(), BLOCK=BLOCK)
    return y


@triton.jit
def _endless(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    while tl.sum(x) != tl.sum(x) + 1:  # fault
        x += 1
    tl.store(y_ptr + i, x, mask=i < n)


def endless(x):
    y = torch.empty_like(x)
    _endless[(1,)](x, y, x.numel(), BLOCK=1024)
    return y


@triton.jit
def _trapping(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    x = tl.inline_asm_elementwise("s_trap 2\n\tv_mov_b32 $0, $1", "=v,v", [x], tl.float32, False, 1)  # fault
    tl.store(y_ptr + i, x * 2, mask=i < n)


def trapping(x):
    y = torch.empty_like(x)
    _trapping[blocks(x)](x, y, x.numel(), BLOCK=BLOCK)
    return y


@triton.jit
def _asserted(x_ptr, y_ptr, n, most, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.device_assert((x <= most) | (x != x), "too large", mask=i < n)  # noqa: PLR0124  # fault
    tl.store(y_ptr + i, x * 2, mask=i < n)


def asserted(x, most=0.5):
    y = torch.empty_like(x)
    _asserted[blocks(x)](x, y, x.numel(), most, BLOCK=BLOCK, debug=True)
    return y


def asserted_rightly(x):
    return asserted(x, float("inf"))


@triton.jit
def _printing(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.device_print("x", x)
    tl.store(y_ptr + i, x * 2, mask=i < n)


def printing(x):
    y = torch.empty_like(x)
    _printing[blocks(x)](x, y, x.numel(), BLOCK=BLOCK)
    return y


@triton.jit
def _counted(counter_ptr, x_ptr, y_ptr, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bytes_ptr = counter_ptr.to(tl.pointer_type(tl.int8)) + SHIFT
    tl.atomic_add(bytes_ptr.to(tl.pointer_type(tl.int32)), 1)  # fault
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


def misaligned_atomic(x):
    y, counter = torch.empty_like(x), torch.zeros(4, dtype=torch.int32, device=x.device)
    _counted[blocks(x)](counter, x, y, x.numel(), SHIFT=2, BLOCK=BLOCK)
    return y


@triton.jit
def _misaligned(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    shifted = (x_ptr.to(tl.pointer_type(tl.int8)) + 2).to(tl.pointer_type(tl.float32))
    x = tl.load(shifted + i, mask=i < n - 1, other=0.0)
    tl.store(y_ptr + i, x, mask=i < n)


def misaligned_load(x):
    y = torch.empty_like(x)
    _misaligned[blocks(x)](x, y, x.numel(), BLOCK=BLOCK)
    return y


def two_bytes_on(x):
    """What a load from two bytes further on finds, and a zero at the end."""
    raw = x.to(torch.float32).contiguous().view(torch.uint8).view(-1)
    return torch.cat([raw[2:-2].clone().view(torch.float32), x.new_zeros(1)])


@triton.jit
def _shifted(y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i + 1, tl.load(y_ptr + i, mask=i < n), mask=i < n)  # fault


def aliasing(x):
    """The output is the input moved by one: what a program reads, the one before it writes."""
    whole = torch.empty(x.numel() + 1, device=x.device)
    whole[:-1] = x
    whole[-1:] = 0
    _shifted[blocks(x)](whole, x.numel(), BLOCK=BLOCK)
    return whole[1:]


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        _double[blocks(x)](x, y, x.numel(), BLOCK=BLOCK)
        return y

    @staticmethod
    def backward(ctx, dy):
        return off_by_one(dy)


def doubled(x):
    """By position: apply takes no keywords before torch 2.13."""
    return _Doubled.apply(x)


@triton.jit
def _arguments(pair, nothing, one, flag, half, whole, x_ptr, empty_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    scale = pair[0] * one + whole + 0.0
    if flag:
        scale += half
    tl.store(pair[1] + i, x * scale, mask=i < n)


def arguments(x):
    """A tuple, None, an integer that is 1, a flag, floats, a view, an output over its input, nothing at all."""
    whole = torch.empty(x.numel() + 8, device=x.device)
    y = whole[8:]
    y.copy_(x)
    empty = torch.empty(0, device=x.device)
    _arguments[blocks(x)]((2, y), None, 1, True, 0.5, 3, y, empty, x.numel(), BLOCK=BLOCK)
    _double[(0,)](x, y, x.numel(), BLOCK=BLOCK)
    _double[blocks(x)](y, y, x.numel(), BLOCK=BLOCK)
    return y


@triton.autotune([triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((128, 32), (256, 4), (512, 4))], key=["n"])
@triton.jit
def _tuned(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


def tuned(x):
    y = torch.empty_like(x)
    _tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y


@triton.jit
def _staged(x_ptr, y_ptr, n, SIDE: tl.constexpr):
    at = tl.arange(0, SIDE)[:, None] * SIDE + tl.arange(0, SIDE)[None, :]
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for start in range(0, n, SIDE * SIDE):
        x = tl.load(x_ptr + start + at, mask=start + at < n, other=0.0)
        total = tl.dot(x, tl.load(x_ptr + start + at + n, mask=start + at < n, other=0.0), total)
    tl.store(y_ptr + at, total, mask=at < n)


_staged_tuned = triton.autotune([triton.Config({"SIDE": 64}, num_stages=s) for s in (16, 14)], key=["n"])(_staged)


def staged(x):
    """Tiles of 16 KiB in more stages than any GPU has shared memory for."""
    y = torch.empty_like(x)
    _staged[(1,)](torch.cat((x, x)), y, x.numel(), SIDE=64, num_stages=16)
    return y


def staged_tuned(x):
    y = torch.empty_like(x)
    _staged_tuned[(1,)](torch.cat((x, x)), y, x.numel())
    return y


@triton.jit
def _described(x, y, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    place = [tl.program_id(0) * ROWS, 0]
    y.store(place, x.load(place) * 2)


def described(x):
    y = torch.empty_like(x)
    x_part, y_part = (TensorDescriptor.from_tensor(each, [4, 128]) for each in (x, y))
    _described[(triton.cdiv(x.shape[0], 4),)](x_part, y_part, ROWS=4, COLUMNS=128)
    return y


def twice(x):
    return x * 2


def twice_on_gfx942(x):
    """An unfused chain that asks where it is, as one does whose dtypes differ by architecture."""
    where = torch.cuda.get_device_properties(x.device).gcnArchName if x.device.type == "cuda" else "cpu"
    return twice(x) if where.startswith("gfx942") else x.double()


CASES = (
    declare("off_by_one", off_by_one, twice),
    declare("off_by_one_unjudged", off_by_one, raising),
    declare("tuned_unjudged", tuned, raising),
    declare("overflow", overflow, twice),
    declare("wrong_stride", wrong_stride, twice, small_shapes=((10, 100),)),
    declare("unwritten_accumulator", unwritten_accumulator, lambda x: x * 1),
    declare("partly_initialised", partly_initialised, lambda x: x * 3),
    declare("wholly_initialised", wholly_initialised, lambda x: x * 3),
    declare("with_barrier", lambda x: reverse(x, barrier=True), lambda x: x.flip(0)),
    declare("without_barrier", lambda x: reverse(x, barrier=False), lambda x: x.flip(0)),
    declare("last_wins", last_wins, lambda x: x[-1]),
    declare("endless", endless, twice),
    declare("trapping", trapping, twice),
    declare("asserted", asserted, twice),
    declare("asserted_rightly", asserted_rightly, twice),
    declare("printing", printing, twice),
    declare("misaligned_atomic", misaligned_atomic, twice),
    declare("misaligned_load", misaligned_load, two_bytes_on),
    declare("aliasing", aliasing, torch.clone),
    declare("huge_grid", huge_grid, twice),
    declare("too_many_threads", too_many_threads, twice),
    declare("no_kernel", no_kernel, twice),
    declare("swallowed", swallowed, twice),
    declare("strange", strange, twice),
    declare("backward_fault", doubled, twice, directions=(Direction.FORWARD, Direction.BACKWARD)),
    declare("arguments", arguments, lambda x: x * 11.0),
    declare("tuned", tuned, twice),
    declare("staged", staged, twice),
    declare("staged_tuned", staged_tuned, twice),
    declare("asking_chain", tuned, twice_on_gfx942),
    declare("described", described, twice, small_shapes=((10, 100),), family_gaps={"tail": "strides of 16 bytes"}),
)
globals().update({f"_{case.name}_case": case for case in CASES})
