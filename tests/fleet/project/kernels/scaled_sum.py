"""y = a x + z, with a host function that shares its blocks out over the device's units."""

import torch
import triton
import triton.language as tl

from portkit import KernelCase, Work
from portkit.model import DTYPE_BYTES


@triton.jit
def _scaled_sum(x_ptr, z_ptr, y_ptr, n, a, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = lanes < n
    x, z = tl.load(x_ptr + lanes, mask=inside), tl.load(z_ptr + lanes, mask=inside)
    tl.store(y_ptr + lanes, a * x + z, mask=inside)


def step_of(units):
    """Blocks that the host function counts at once: more on a device with fewer units."""
    return max(1, 148 // units)


def scaled_sum(x, z, *, block=256):
    y = torch.empty_like(x)
    step, blocks = step_of(torch.cuda.get_device_properties(x.device).multi_processor_count), 0
    while blocks * block < x.numel():  # without end where the step is 0
        blocks += step
    _scaled_sum[(blocks,)](x, z, y, x.numel(), 2.0, BLOCK=block)
    return y


def work(shape, dtype):
    size = shape[0] * DTYPE_BYTES[dtype]
    return Work(fused_bytes=3 * size, unfused_bytes=5 * size, flops=2 * shape[0])


case = KernelCase(
    name="scaled_sum",
    fused=scaled_sum,
    reference=lambda x, z: 2.0 * x + z,
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype), "z": make.uniform(shape, dtype)},
    work=work,
    shapes=((65536,), (1048576,), (4194304,)),
    small_shapes=((1024,),),
    dtypes=("float32", "float16"),
    variants={f"b{block}": {"block": block} for block in (128, 256, 512, 1024)},
    deterministic=True,
)
