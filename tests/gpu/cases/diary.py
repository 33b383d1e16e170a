"""A case that writes down, at each call, on which device it is and when."""

import json
import os
import time
from pathlib import Path

import torch
import triton
import triton.language as tl

from portkit import KernelCase, Work

SMALL = 1024
SHAPES = tuple((1 << 20) + 4096 * step for step in range(16))


@triton.jit
def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


def doubled(x):
    """Twice a vector; the small ones of input families are not written down."""
    if x.numel() > SMALL:
        uuid = str(torch.cuda.get_device_properties(x.device).uuid)
        with Path(os.environ["DIARY"]).open("a") as diary:
            diary.write(json.dumps([uuid, x.numel(), time.monotonic()]) + "\n")
    y = torch.empty_like(x)
    _double[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y


diary = KernelCase(
    name="diary",
    fused=doubled,
    reference=lambda x: x * 2,
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
    work=lambda shape, dtype: Work(8 * shape[0], 8 * shape[0], shape[0]),
    shapes=tuple((n,) for n in SHAPES),
    small_shapes=((SMALL,),),
    dtypes=("float32",),
    variants={"default": {}},
)
