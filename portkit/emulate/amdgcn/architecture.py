"""What differs between AMD architectures, as data.

Sources: AMD's ISA reference guides "Instinct MI200" (CDNA2), "Instinct MI300" (CDNA3), "CDNA4", "RDNA3",
"RDNA3.5" and "RDNA4", and LLVM's "User Guide for AMDGPU Backend" (Initial Kernel Execution State).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from portkit.emulate.core.findings import Unloadable


class Generation(enum.Enum):
    """Architectures that share an instruction set, by the name of its document."""

    CDNA2 = "CDNA2"
    CDNA3 = "CDNA3"
    CDNA4 = "CDNA4"
    RDNA3 = "RDNA3"
    RDNA4 = "RDNA4"


CDNA = frozenset({Generation.CDNA2, Generation.CDNA3, Generation.CDNA4})
RDNA = frozenset({Generation.RDNA3, Generation.RDNA4})
ALL = CDNA | RDNA


@dataclass(frozen=True)
class Architecture:
    """One architecture as far as the emulator tells them apart."""

    name: str
    generation: Generation
    fnuz: bool = False  # fp8 without infinities and negative zero
    keeps_upper_half: bool = False  # 16-bit results leave the upper half of a register
    ids_in_ttmp: bool = False  # workgroup and wave ids in trap registers
    wave_sizes: tuple[int, ...] = (64,)  # lanes that a wave may have
    max_vgprs: int = 512


def _cdna(name: str, generation: Generation, *, fnuz: bool = False) -> Architecture:
    return Architecture(name, generation, fnuz=fnuz)


def _rdna(name: str, generation: Generation) -> Architecture:
    twelve = generation is Generation.RDNA4
    return Architecture(name, generation, False, True, twelve, (32, 64), 256)


ARCHITECTURES = {
    item.name: item
    for item in (
        _cdna("gfx90a", Generation.CDNA2),
        _cdna("gfx942", Generation.CDNA3, fnuz=True),
        _cdna("gfx950", Generation.CDNA4),
        _rdna("gfx1100", Generation.RDNA3),
        _rdna("gfx1101", Generation.RDNA3),
        _rdna("gfx1102", Generation.RDNA3),
        _rdna("gfx1103", Generation.RDNA3),
        _rdna("gfx1150", Generation.RDNA3),
        _rdna("gfx1151", Generation.RDNA3),
        _rdna("gfx1152", Generation.RDNA3),
        _rdna("gfx1153", Generation.RDNA3),
        _rdna("gfx1200", Generation.RDNA4),
        _rdna("gfx1201", Generation.RDNA4),
    )
}
"""Architectures that can be emulated, by name."""


def architecture_of(name: str) -> Architecture:
    """The architecture, or ``Unloadable`` for one that is not emulated."""
    if name not in ARCHITECTURES:
        raise Unloadable(f"architecture {name} is not emulated; emulated: {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]
