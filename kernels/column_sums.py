"""Second stage of a weight's gradient: sums of columns, without atomics.

In the first stage each of a fixed number of programs walks over rows and keeps one
float32 sum a column in registers, which it leaves in a row of ``partial``. Here the rows of
``partial`` are added up. Neither the number of programs nor the order of additions depends
on the device: a gradient is repeatable bit by bit.
"""

import torch
import triton
import triton.language as tl
from tiles import shared_bytes

PROGRAMS = 256  # of a first stage: two for nearly each unit of an H200, so that one computes while the other waits
BACKWARD_WARPS = 4  # of a first stage where the forward pass chooses its own by trial
ROWS, COLUMNS = 256, 32  # of a block here: 128 B of a row, one cache line, and all rows at once


@triton.jit
def _column_sums(partial_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    which = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    mask = at < columns
    partial_ptr += which * rows * columns
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        places = row[:, None].to(tl.int64) * columns + at[None, :]
        total += tl.load(partial_ptr + places, mask=(row < rows)[:, None] & mask[None, :], other=0.0)
    out = tl.sum(total, axis=0)
    tl.store(out_ptr + which * columns + at, out.to(out_ptr.dtype.element_ty), mask=mask)


def backward_warps(hidden: int, num_warps: int) -> int:
    """Warps of a first stage: so many that a thread has 32 elements of a row on 32 lanes, where 16 warps suffice."""
    return max(num_warps, min(16, triton.next_power_of_2(hidden) // 1024))


def backward_stages(hidden: int, tensors: int, like: torch.Tensor) -> int:
    """Rows of a first stage in flight, the one computed with counted in: 3 where two programs' others fit, else 1.

    Args:
        hidden: elements of a row.
        tensors: that are read by rows.
        like: one of them.
    """
    if like.device.type != "cuda":
        return 1
    ahead = 2 * tensors * triton.next_power_of_2(hidden) * like.element_size()
    return 3 if 2 * (ahead + 2048) <= shared_bytes(like.device) else 1


def column_sums(partial: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Sums over the middle axis.

    Args:
        partial: (sums, programs, columns), float32, contiguous.
        dtype: of the result.

    Returns:
        (sums, columns).
    """
    sums, programs, columns = partial.shape
    out = torch.empty((sums, columns), dtype=dtype, device=partial.device)
    grid = (triton.cdiv(columns, COLUMNS), sums)
    _column_sums[grid](partial, out, programs, columns, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=8)
    return out
