"""What the cases of this folder share: how they are declared, and options by vendor."""

import torch

import portkit
from portkit.model import DTYPE_BYTES

TORCH_DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "i8": torch.int8,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz,
}
"""Triton's names of element types → PyTorch's; Triton's fp8e4b15 has none."""

AMD_ONLY = ("waves_per_eu", "matrix_instr_nonkdim")


def known(**options):
    """Launch options without AMD's own on CUDA, as host code that serves both passes them."""
    return {name: value for name, value in options.items() if torch.version.hip or name not in AMD_ONLY}


def declare(name, fused, reference, inputs, *, shape, variants, dtype="float32", elements, flops, steps=2):
    """A case of one shape and dtype.

    ``elements`` are those that the fused kernel moves; an unfused chain of ``steps``
    operations moves each about as many times.
    """
    moved = elements * DTYPE_BYTES[dtype]
    return portkit.KernelCase(
        name=name,
        fused=fused,
        reference=reference,
        inputs=inputs,
        work=lambda shape, dtype: portkit.Work(moved, steps * moved, flops),
        shapes=(shape,),
        small_shapes=(shape,),
        dtypes=(dtype,),
        variants=variants,
        allow_tf32=True,
    )
