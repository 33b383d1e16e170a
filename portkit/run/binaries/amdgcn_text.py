"""AMD: figures that the assembly text has and the hsaco's note has not.

LLVM ends each kernel with comments, among them the waves that a SIMD holds by registers and
static LDS, and the registers that a wave is given. These are more than it uses where the
option ``waves_per_eu`` asks for few waves: LLVM then keeps others out by taking their room
(``NumVGPRsForWavesPerEU`` of ``AMDGPUAsmPrinter.cpp`` goes into the kernel's descriptor).
Which matrix instructions the backend chose is in the text alone.
"""

from __future__ import annotations

import re
from typing import Final

from portkit.model import Resources
from portkit.run.binaries.container import Figures

WAVES: Final = "llvm_waves_per_simd"
ALLOCATED: Final = "allocated_vgpr_count"
MFMA: Final = "mfma_instructions"
WMMA: Final = "wmma_instructions"
DOT: Final = "dot_instructions"

_COMMENTS: Final = {
    WAVES: re.compile(r"^\s*;\s*Occupancy:\s*(\d+)", re.M),
    ALLOCATED: re.compile(r"^\s*;\s*NumVGPRsForWavesPerEU:\s*(\d+)", re.M),
}

_PATHS: Final = {
    MFMA: re.compile(r"^\s*v_s?mfmac?_", re.M),  # CDNA, sparse ones among them
    WMMA: re.compile(r"^\s*v_s?wmma", re.M),  # RDNA3 and later: v_wmma_…, v_swmmac_…
    DOT: re.compile(r"^\s*v_dot\d", re.M),  # packed products of a lane, where there is no matrix unit
}


def assembly_figures(text: str) -> Figures:
    """What LLVM says of waves and registers, if it does, and how many instructions of each kind it has."""
    figures = {name: len(pattern.findall(text)) for name, pattern in _PATHS.items()}
    said = {name: match[1] for name, pattern in _COMMENTS.items() if (match := pattern.search(text))}
    return {**figures, **{name: int(number) for name, number in said.items()}}


def allocated_registers(resources: Resources) -> int:
    """Registers a thread that the hardware sets aside, which bound occupancy: those that it uses at least."""
    return max(resources.registers_per_thread, resources.raw.get(ALLOCATED, 0))
