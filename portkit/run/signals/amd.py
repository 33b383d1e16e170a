"""Signals of amdgcn, as AMD's assembler gets it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from portkit.run.signals.counting import compiled, counts, matrix_classes

_MATRIX = re.compile(r"^\s*v_(?:mfma|smfmac|wmma|swmmac)_\w+", re.M)
_CLASSES = (
    ("scaled", re.compile(r"_scale")),
    ("f8", re.compile(r"fp8|bf8|f8f6f4")),
    ("tf32", re.compile(r"xf32")),
    ("f64", re.compile(r"f64")),
    ("i8", re.compile(r"iu?8")),
    ("f16", re.compile(r"f16")),
    ("f32", re.compile(r"f32$")),
)

_COUNTED = {
    "async_copies": r"^\s*(?:buffer|global)_load_\w+ [^\n]*\blds\b|^\s*(?:global|buffer|tensor)_load\w*_lds\b",
    "atomic_cas": r"^\s*\w+_atomic_cmpswap\w*",
    "atomic_native": r"^\s*(?:global|buffer|flat)_atomic_(?!cmpswap)\w+",
    "fp8_convert": r"^\s*v_cvt_\w*(?:fp8|bf8)\w*",
    "fp8_narrow": r"^\s*v_cvt_(?:scalef32_)?(?:pk|sr)\w*?_(?:fp8|bf8)_\w+",
    "fp8_saturate": r"hwreg\(HW_REG_(?:WAVE_)?MODE, 23, 1\), 1|^\s*v_med3_(?:num_)?f32",
    "fma.f32": r"v_(?:dual_|pk_)?fma(?:c|ak|mk|_mix)?_f32",
    "fma.f16": r"v_(?:pk_)?fma(?:c|ak|mk|_mixlo|_mixhi)?_f16",
    "fma.bf16": r"v_(?:pk_)?fma\w*_bf16",
    "division_exact": r"^\s*v_div_fixup_f32",
    "eviction": r"^\s*(?:global|buffer)_(?:load|store)\w* [^\n]*(?:\bnt\b|\bslc\b|TH_(?:LOAD|STORE)_NT)",
    "global_operations": r"^\s*global_(?:load|store|atomic)_\w+",
}
_PATTERNS = compiled(_COUNTED)

_EXP = re.compile(r"^\s*v_(?:s_)?exp_f32", re.M)
_SCALED = re.compile(r"^\s*v_ldexp_f32", re.M)
_SCALE = "0x1f800000"  # 2^-64, by which LLVM scales back where it does not use v_ldexp
_HOLDS_SCALE = re.compile(rf"(?:v_(?:dual_)?mov_b32\w*|s_mov_b32) ([vs]\d+), {_SCALE}\b")
_SELECT = re.compile(r"(?:v_(?:dual_)?cndmask_b32\w*|s_cselect_b32) [vs]\d+, ([\w.]+), ([\w.]+)")

_VECTOR = re.compile(r"\s*(v_\w+|(?:ds|buffer|global|flat|scratch)_\w+) ([^\n;]*)")
_PRODUCT = re.compile(r"v_(?:pk_|dual_)?mul_f32")
_SUM = re.compile(r"v_(?:pk_|dual_)?(?:add|sub|subrev)_f32")
_REGISTER = re.compile(r"\bv(?:(\d+)\b|\[(\d+):(\d+)\])")


def machine_signals(amdgcn: str) -> dict[str, int]:
    """Signals of one kernel's amdgcn."""
    matrix = matrix_classes(_MATRIX.findall(amdgcn), _CLASSES)
    return {**counts(_PATTERNS, amdgcn), **matrix, **_exponentials(amdgcn), "mul_add_apart": _apart(amdgcn)}


def _exponentials(amdgcn: str) -> dict[str, int]:
    """``v_exp_f32`` flushes denormals; where they are kept, its result is scaled after it."""
    exponentials = len(_EXP.findall(amdgcn))
    scaled = min(exponentials, len(_SCALED.findall(amdgcn)) + _selected_scales(amdgcn))
    return {"exp_flushing": exponentials - scaled, "exp_scaled": scaled}


def _selected_scales(amdgcn: str) -> int:
    """Selections between 1 and 2^-64, whose product scales an exponential instead of ``v_ldexp``."""
    if _SCALE not in amdgcn:
        return 0
    scales = {_SCALE, *_HOLDS_SCALE.findall(amdgcn)}
    return sum("1.0" in pair and not scales.isdisjoint(pair) for pair in _SELECT.findall(amdgcn))


def _apart(amdgcn: str) -> int:
    """Sums that take a register which a product wrote last, so that both are rounded."""
    found, products = 0, set[int]()
    if not (_PRODUCT.search(amdgcn) and _SUM.search(amdgcn)):
        return 0
    for line in amdgcn.splitlines():
        if line.endswith(":"):  # what comes from other blocks is not known
            products = set()
        for name, operands in _instructions(line):
            result, *taken = [set(_registers(text)) for text in operands]
            found += bool(_SUM.match(name) and any(products & registers for registers in taken))
            products = products | result if _PRODUCT.match(name) else products - result
    return found


def _instructions(line: str) -> Iterator[tuple[str, list[str]]]:
    """Instructions of a line that write vector registers: two where they are issued as one."""
    for part in line.split("::"):
        if match := _VECTOR.match(part):
            yield match[1], match[2].split(",")


def _registers(operand: str) -> Iterator[int]:
    for single, low, high in _REGISTER.findall(operand):
        yield from (int(single),) if single else range(int(low), int(high) + 1)
