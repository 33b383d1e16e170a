"""Compile-time blow-ups: one fp8 tile, which on gfx1100 takes minutes, and a deep pipeline."""

from case01_lds_smem import gemm_case
from case03_fp8_types import dot_case

FLAVOUR = {"flavour": "fp8e4nv"}

n64_k64 = dot_case("case20_64x64x64", 64, 64, 64, {"fp8_64x64x64": FLAVOUR})
n64_k128 = dot_case("case20_64x64x128", 64, 64, 128, {"fp8_64x64x128": FLAVOUR})
n128_k128 = dot_case(
    "case20_64x128x128", 64, 128, 128, {"fp8_64x128x128": FLAVOUR, "fp8_64x128x128_w8": {**FLAVOUR, "warps": 8}}
)
pipeline = gemm_case(
    "case20_pipeline",
    {
        "bf16_s8": {"tile": [128, 128, 32], "stages": 8, "warps": 4},
        "bf16_s2": {"tile": [128, 128, 32], "stages": 2, "warps": 4},
    },
)
