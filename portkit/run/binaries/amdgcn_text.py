"""AMD: figures that the assembly text has and the hsaco's note has not.

LLVM ends each kernel with comments, among them the waves that a SIMD holds by registers and
static LDS. Which matrix instructions the backend chose is in the text alone.
"""

from __future__ import annotations

import re
from typing import Final

from portkit.run.binaries.container import Figures

WAVES: Final = "llvm_waves_per_simd"
MFMA: Final = "mfma_instructions"
WMMA: Final = "wmma_instructions"
DOT: Final = "dot_instructions"

_OCCUPANCY = re.compile(r"^\s*;\s*Occupancy:\s*(\d+)", re.M)

_PATHS: Final = {
    MFMA: re.compile(r"^\s*v_s?mfmac?_", re.M),  # CDNA, sparse ones among them
    WMMA: re.compile(r"^\s*v_s?wmma", re.M),  # RDNA3 and later: v_wmma_…, v_swmmac_…
    DOT: re.compile(r"^\s*v_dot\d", re.M),  # packed products of a lane, where there is no matrix unit
}


def assembly_figures(text: str) -> Figures:
    """Waves per SIMD by LLVM, where it says them, and how many instructions of each kind of product there are."""
    figures = {name: len(pattern.findall(text)) for name, pattern in _PATHS.items()}
    if match := _OCCUPANCY.search(text):
        figures[WAVES] = int(match[1])
    return figures
