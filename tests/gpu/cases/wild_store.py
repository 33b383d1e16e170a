"""A store far outside every allocation: the device faults."""

import torch
import triton
import triton.language as tl

from portkit import KernelCase, Work


@triton.jit
def _wild_store(y_ptr, far):
    tl.store(y_ptr + far, 1.0)


def wild_store(x):
    y = torch.empty_like(x)
    _wild_store[(1,)](y, 1 << 45)
    return y


case = KernelCase(
    name="wild_store",
    fused=wild_store,
    reference=torch.ones_like,
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
    work=lambda shape, dtype: Work(1, 1, 1),
    shapes=((1024,),),
    small_shapes=((1024,),),
    dtypes=("float32",),
    variants={"default": {}},
)

if __name__ == "__main__":
    import os
    import sys

    from portkit.model import Cell, Direction
    from portkit.run.measure import measure_cell
    from portkit.targets.catalog import load_catalog

    target = load_catalog().get(sys.argv[1])
    result = measure_cell(case, Cell("wild_store", Direction.FORWARD, (1024,), "float32", "default", "here"), target)
    print(result.outcome.status, result.outcome.stage, result.outcome.message, flush=True)
    os._exit(0)  # the device is lost to this process: no clean way out
