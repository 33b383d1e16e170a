"""Signals of PTX, as ptxas gets it."""

from __future__ import annotations

import re

from portkit.run.signals.counting import compiled, counts, matrix_classes

_MATRIX = re.compile(r"\b(?:mma\.sync|wgmma\.mma_async|tcgen05\.mma)[\w.:]*")
_CLASSES = (
    ("scaled", re.compile(r"block_scale")),
    ("f8", re.compile(r"e4m3|e5m2|f8f6f4|e2m1")),
    ("tf32", re.compile(r"tf32")),
    ("f64", re.compile(r"f64")),
    ("i8", re.compile(r"\.[su]8\b|kind::i8")),
    ("f16", re.compile(r"f16")),
)

_COUNTED = {
    "async_copies": r"\bcp\.async\.(?:c[ag]\.shared|bulk\.(?:tensor\.)?\S*shared::\w+\.global)",
    "atomic_cas": r"\batom\.\S*cas\b",
    "atomic_native": r"\b(?:atom|red)\.(?!\S*cas\b)\S+",
    "fp8_convert": r"\bcvt\.\S*(?:e4m3|e5m2)x2",
    "fp8_narrow": r"\bcvt\.\S*\.(?:e4m3|e5m2)x2\.",
    "fp8_saturate": r"\bcvt\.\S*satfinite\.(?:e4m3|e5m2)x2",
    "exp_flushing": r"\bex2\.approx\.ftz\.f32",
    "exp_keeping": r"\bex2\.approx\.f32",
    "fma.f32": r"\bfma\.rn\.(?:ftz\.|sat\.)*f32",
    "fma.f16": r"\bfma\.rn\.(?:ftz\.|sat\.|relu\.)*f16",
    "fma.bf16": r"\bfma\.rn\.(?:relu\.)?bf16",
    "division_exact": r"\bdiv\.rn\.\S*f32",
    "division_fast": r"\bdiv\.(?:full|approx)\.\S*f32",
    "eviction": r"\bL[12]::evict_|\bcreatepolicy\.",
}
_PATTERNS = compiled(_COUNTED)

_ROUNDED_PRODUCT = re.compile(r"\bmul\.rn\.(?:ftz\.)?f32\s+(%\w+)")
_ROUNDED_SUM = re.compile(r"\b(?:add|sub)\.rn\.(?:ftz\.)?f32\s+%\w+, (%\w+), (%\w+)")


def machine_signals(ptx: str) -> dict[str, int]:
    """Signals of one kernel's PTX."""
    matrix = matrix_classes(_MATRIX.findall(ptx), _CLASSES)
    return {**counts(_PATTERNS, ptx), **matrix, "mul_add_apart": _apart(ptx)}


def _apart(ptx: str) -> int:
    """Sums of a product, both rounded: ptxas fuses them unless each names its rounding."""
    products = set(_ROUNDED_PRODUCT.findall(ptx))
    return sum(1 for pair in _ROUNDED_SUM.findall(ptx) if products & set(pair))
