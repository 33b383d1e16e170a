"""A kernel in Gluon, whose layouts name the lanes of a warp."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

import portkit


@gluon.jit
def copy(x_ptr, y_ptr, n, BLOCK: gl.constexpr, layout: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(y_ptr + offsets, gl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def fused(x):
    y = torch.empty_like(x)
    copy[(1,)](x, y, x.numel(), BLOCK=256, layout=gl.BlockedLayout([1], [32], [4], [0]), num_warps=4)
    return y


case = portkit.KernelCase(
    name="gluon_copy",
    fused=fused,
    reference=lambda x: x.clone(),
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
    work=lambda shape, dtype: portkit.Work(8 * shape[0], 8 * shape[0], shape[0]),
    shapes=((256,),),
    small_shapes=((256,),),
    dtypes=("float32",),
    variants={"default": {}},
)
