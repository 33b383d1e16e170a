"""Where matrix elements lie in shared memory, by the descriptors of ``wgmma`` and ``tcgen05``.

Sources: PTX ISA, "Matrix Descriptor Format", "Canonical Layouts", "Strides", "Shared Memory Layout and Swizzling".

Memory is made of units of 16 bytes. A swizzle of 32, 64 or 128 bytes moves them within rows of that width: the number
of a unit is combined by exclusive or with bits of its address that are higher by three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from portkit.emulate.ptx.matrix.formats import Array

UNIT = 16
"""Bytes that stay together."""


@dataclass(frozen=True)
class Layout:
    """A matrix operand in shared memory.

    ``leading`` and ``stride`` are distances in bytes: between parts along one and along the other direction.
    """

    start: int  # address, bytes
    leading: int
    stride: int
    width: int  # of the swizzle in bytes; 16: there is none
    contiguous_depth: bool  # whether elements that lie side by side follow the depth ("K-major")

    def units(self, rows: int, depth_bytes: int) -> Array:
        """Addresses of units ``[rows, depth_bytes / 16]`` where the depth is contiguous.

        Args:
            rows: of the operand.
            depth_bytes: of one row.
        """
        row, unit = np.arange(rows)[:, None], np.arange(depth_bytes // UNIT)[None, :]
        if self.width == UNIT:
            place = row // 8 * self.stride + row % 8 * UNIT + unit * self.leading
        else:
            place = row // 8 * self.stride + row % 8 * self.width + unit * UNIT
        return swizzled(self.start + place, self.width)

    def units_across(self, depth: int, row_bytes: int) -> Array:
        """Addresses of units ``[depth, row_bytes / 16]`` where rows are contiguous.

        Args:
            depth: elements along the depth.
            row_bytes: of all rows at one depth.
        """
        at, unit = np.arange(depth)[:, None], np.arange(row_bytes // UNIT)[None, :]
        if self.width == UNIT:
            place = unit * self.stride + at // 8 * self.leading + at % 8 * UNIT
        else:
            per = self.width // UNIT
            place = unit // per * self.leading + unit % per * UNIT + at // 8 * self.stride + at % 8 * self.width
        return swizzled(self.start + place, self.width)


def swizzled(addresses: Array, width: int) -> Array:
    """Addresses after a swizzle of 32, 64 or 128 bytes; 16: as they are."""
    if width == UNIT:
        return addresses
    return addresses ^ (((addresses >> 7) & (width // UNIT - 1)) << 4)
