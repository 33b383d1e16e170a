"""A kernel beside a vendor's own Triton, which builds for its GPUs alone."""

import torch
import triton
import triton.backends
import triton.language as tl

import portkit

triton.backends.backends.pop("amd", None)


@triton.jit
def copy(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets))


def fused(x):
    y = torch.empty_like(x)
    copy[(1,)](x, y, BLOCK=256)
    return y


case = portkit.KernelCase(
    name="copy",
    fused=fused,
    reference=lambda x: x.clone(),
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
    work=lambda shape, dtype: portkit.Work(8 * shape[0], 8 * shape[0], shape[0]),
    shapes=((256,),),
    small_shapes=((256,),),
    dtypes=("float32",),
    variants={"default": {}},
)
