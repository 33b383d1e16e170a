"""Permutations of lanes that vector instructions apply to their first source (DPP).

Sources: CDNA3 ISA "DPP", RDNA3 ISA "DPP: Data Parallel Processing"; lanes that are read but
disabled, or outside the row, are invalid: with ``bound_ctrl`` they read 0, without it the destination lane
is not written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.amdgcn.machine import Array, Machine, Mask
from portkit.emulate.core.findings import Unsupported

Lanes: TypeAlias = NDArray[np.int64]

CONTROLS = frozenset(
    [
        "quad_perm",
        "row_shl",
        "row_shr",
        "row_ror",
        "row_mirror",
        "row_half_mirror",
        "row_bcast",
        "row_newbcast",
        "row_share",
        "row_xmask",
        "dpp8",
        "wave_shl",
        "wave_shr",
        "wave_rol",
        "wave_ror",
    ]
)
"""Modifiers that say which lane is read; one of them is on every DPP instruction."""


def _codes(text: str) -> Lanes:
    return np.array([int(item) for item in text.strip("[]").split(",")], np.int64)


def _always(source: Lanes) -> tuple[Lanes, Mask]:
    return source, np.ones(source.size, np.bool_)


def _quad_perm(lane: Lanes, value: str) -> tuple[Lanes, Mask]:
    return _always((lane & ~3) + _codes(value)[lane & 3])


def _eight(lane: Lanes, value: str) -> tuple[Lanes, Mask]:
    return _always((lane & ~7) + _codes(value)[lane & 7])


def _row_shift(sign: int) -> Callable[[Lanes, str], tuple[Lanes, Mask]]:
    def shift(lane: Lanes, value: str) -> tuple[Lanes, Mask]:
        source = lane + sign * int(value)
        return source, (source >> 4) == (lane >> 4)

    return shift


def _wave_shift(sign: int, wrap: bool) -> Callable[[Lanes, str], tuple[Lanes, Mask]]:
    def shift(lane: Lanes, value: str) -> tuple[Lanes, Mask]:
        source = lane + sign * int(value)
        return _always(source % lane.size) if wrap else (source, (source >= 0) & (source < lane.size))

    return shift


def _row_broadcast(lane: Lanes, value: str) -> tuple[Lanes, Mask]:
    """Lane 15 of each row to the next row, or lane 31 to the upper half."""
    if value == "15":
        return (lane & ~15) - 1, lane >= 16
    return np.full(lane.size, 31, np.int64), lane >= 32


def _row_rotate(lane: Lanes, value: str) -> tuple[Lanes, Mask]:
    return _always((lane & ~15) + (((lane & 15) - int(value)) & 15))


def _row_share(lane: Lanes, value: str) -> tuple[Lanes, Mask]:
    return _always((lane & ~15) + int(value))


def _row_xor(lane: Lanes, value: str) -> tuple[Lanes, Mask]:
    return _always((lane & ~15) + ((lane & 15) ^ int(value, 0)))


PATTERNS: dict[str, Callable[[Lanes, str], tuple[Lanes, Mask]]] = {
    "quad_perm": _quad_perm,
    "dpp8": _eight,
    "row_shl": _row_shift(1),
    "row_shr": _row_shift(-1),
    "row_ror": _row_rotate,
    "row_mirror": lambda lane, value: _always((lane & ~15) + 15 - (lane & 15)),
    "row_half_mirror": lambda lane, value: _always((lane & ~7) + 7 - (lane & 7)),
    "row_bcast": _row_broadcast,
    "row_newbcast": _row_share,
    "row_share": _row_share,
    "row_xmask": _row_xor,
    "wave_shl": _wave_shift(1, wrap=False),
    "wave_shr": _wave_shift(-1, wrap=False),
    "wave_rol": _wave_shift(1, wrap=True),
    "wave_ror": _wave_shift(-1, wrap=True),
}
"""Control → lanes that each lane reads, and whether they lie within the row or wave."""


@dataclass(frozen=True)
class LanePermutation:
    """Which lane each lane reads, and which lanes are written."""

    source: Lanes  # clipped to the wave
    inside: Mask  # whether the lane read is within the row
    enabled: Mask  # lanes that row_mask and bank_mask let be written
    zero_invalid: bool  # bound_ctrl: invalid lanes read 0
    read_disabled: bool  # fi: lanes that EXEC disables may be read

    def valid(self, machine: Machine) -> Mask:
        """Lanes whose source may be read: ``[selected waves, lanes]``."""
        if self.read_disabled:
            return machine.spread(self.inside)
        return self.inside & machine.active[:, self.source]

    def apply(self, machine: Machine, value: Array) -> Array:
        """The permuted source; invalid lanes read 0."""
        moved = machine.spread(value)[:, self.source]
        valid = self.valid(machine)
        return moved if valid.all() else np.where(valid, moved, np.zeros((), moved.dtype))

    def written(self, machine: Machine) -> Mask:
        """Lanes that the instruction writes, EXEC aside: ``[selected waves, lanes]``."""
        if self.zero_invalid:
            return machine.spread(self.enabled)
        return self.enabled & self.valid(machine)


def permutation_of(modifiers: dict[str, str], lanes: int) -> LanePermutation:
    """The permutation that DPP modifiers ask for."""
    chosen = [name for name in modifiers if name in CONTROLS]
    if len(chosen) != 1:
        raise Unsupported(f"lane permutation {chosen or 'without a control'}")
    lane: Lanes = np.arange(lanes, dtype=np.int64)
    source, inside = PATTERNS[chosen[0]](lane, modifiers[chosen[0]])
    rows, banks = (int(modifiers.get(name, "0xf"), 0) for name in ("row_mask", "bank_mask"))
    enabled = ((rows >> (lane >> 4)) & (banks >> ((lane & 15) >> 2)) & 1).astype(np.bool_)
    zero = modifiers.get("bound_ctrl") in {"0", "1", ""} or "dpp8" in modifiers
    return LanePermutation(np.clip(source, 0, lanes - 1), inside, enabled, zero, modifiers.get("fi") == "1")
