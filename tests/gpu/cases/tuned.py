"""An autotuned kernel with a gradient of its own, which is autotuned too."""

import torch
import triton
import triton.language as tl

import portkit

CONFIGS = [triton.Config({"BLOCK": block}, num_warps=4) for block in (256, 1024, 4096)]


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def scale(x_ptr, y_ptr, factor, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) * factor, mask=offsets < n)


def run(x, factor):
    y = torch.empty_like(x)
    scale[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, factor, x.numel())
    return y


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return run(x, 2.0)

    @staticmethod
    def backward(ctx, dy):
        return run(dy.contiguous(), 2.0)


def fused(x):
    return Doubled.apply(x)


doubled = portkit.KernelCase(
    name="doubled",
    fused=fused,
    reference=lambda x: x * 2,
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
    work=lambda shape, dtype: portkit.Work(8 * shape[0], 8 * shape[0], shape[0]),
    shapes=((100000,),),
    small_shapes=((5000,),),
    dtypes=("float32",),
    variants={"autotune": {}},
    directions=(portkit.Direction.FORWARD, portkit.Direction.BACKWARD),
    reduction_length=lambda shape: 1,
)
