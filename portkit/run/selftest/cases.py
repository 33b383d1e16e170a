"""Kernels of which all that portkit says is known beforehand.

=================== ==================================================================
case                known
=================== ==================================================================
known_bytes         y = 2x: reads n elements and writes n, once each
known_occupancy     the same, with a row held in registers that bound occupancy, and so
                    much arithmetic on it that units stay as full as they may be
planted_wrong       y = 2x but for one element in a thousand
planted_overrun     y = 2x, and one element more behind the end of y
=================== ==================================================================

No other package is needed, and no operation that only newer Tritons have.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from portkit.model import DTYPE_BYTES, KernelCase, Work

BLOCK = 2048
ROW = 8192  # elements of the row that a program holds
ROUNDS = 400  # of arithmetic on it
WRONG_EVERY = 1000

SHAPE = (64 << 20,)
ROWS = (8192, ROW)
SMALL = (5000,)


@triton.jit  # type: ignore[untyped-decorator]
def double_kernel(  # type: ignore[no-untyped-def]  # noqa: ANN201
    x,  # noqa: ANN001
    y,  # noqa: ANN001
    n,  # noqa: ANN001
    WRONG: tl.constexpr,  # noqa: N803
    OVER: tl.constexpr,  # noqa: N803
    EVERY: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):
    """Doubles one block; wrong now and then, or beyond the end, where that is asked for."""
    lanes = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + lanes, mask=lanes < n, other=0.0) * 2.0
    if WRONG:
        values = tl.where(lanes % EVERY == EVERY - 1, values + 0.5, values)
    tl.store(y + lanes, values, mask=lanes < n + OVER)


@triton.jit  # type: ignore[untyped-decorator]
def hold_kernel(  # type: ignore[no-untyped-def]  # noqa: ANN201
    x,  # noqa: ANN001
    y,  # noqa: ANN001
    n,  # noqa: ANN001
    one,  # noqa: ANN001
    nothing,  # noqa: ANN001
    ROUNDS: tl.constexpr,  # noqa: N803
    ROW: tl.constexpr,  # noqa: N803
):
    """Doubles one row, which stays in registers while it is multiplied by one, many times."""
    columns = tl.arange(0, ROW)
    start = tl.program_id(0).to(tl.int64) * n
    values = tl.load(x + start + columns, mask=columns < n, other=0.0)
    for _ in range(ROUNDS):
        values = values * one + nothing
    tl.store(y + start + columns, values * 2.0, mask=columns < n)


def double(x: torch.Tensor, *, wrong: bool = False, over: int = 0) -> torch.Tensor:
    """Twice the input, by a kernel that may be told to do it badly."""
    y = torch.empty_like(x)
    n = x.numel()
    grid = (triton.cdiv(n + over, BLOCK),)
    double_kernel[grid](x, y, n, WRONG=wrong, OVER=over, EVERY=WRONG_EVERY, BLOCK=BLOCK, num_warps=4)
    return y


def hold(x: torch.Tensor) -> torch.Tensor:
    """Twice the input, a row a program of 128 threads: 64 elements a thread on every GPU."""
    y = torch.empty_like(x)
    warps = 2 if torch.version.hip and torch.cuda.get_device_properties(x.device).warp_size == 64 else 4
    hold_kernel[(x.shape[0],)](x, y, x.shape[1], 1.0, 0.0, ROUNDS=ROUNDS, ROW=ROW, num_warps=warps)
    return y


def inputs(make: Any, shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    """Elements in [-1, 1)."""
    return {"x": make.uniform(shape, dtype)}


def reference(x: torch.Tensor) -> torch.Tensor:
    """Twice the input; exact in every dtype."""
    return x * 2


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Elements are read once and written once; nothing to gain from fusion."""
    n = 1
    for size in shape:
        n *= size
    return Work(fused_bytes=2 * n * DTYPE_BYTES[dtype], unfused_bytes=2 * n * DTYPE_BYTES[dtype], flops=n)


def _case(name: str, fused: Any, shape: tuple[int, ...] = SHAPE, small: tuple[int, ...] = SMALL) -> KernelCase:
    return KernelCase(
        name=name,
        fused=fused,
        reference=reference,
        inputs=inputs,
        work=work,
        shapes=(shape,),
        small_shapes=(small,),
        dtypes=("float32",),
        variants={"default": {}},
        reduction_length=lambda shape: 1,
    )


known_bytes = _case("known_bytes", double)
known_occupancy = _case("known_occupancy", hold, ROWS, (3, ROW))
planted_wrong = _case("planted_wrong", lambda x: double(x, wrong=True), (1 << 20,))
planted_overrun = _case("planted_overrun", lambda x: double(x, over=1), (1 << 20,))
