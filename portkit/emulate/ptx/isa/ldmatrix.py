"""Loads and stores of 8×8 matrices of 16-bit elements by a whole warp: ldmatrix, stmatrix; movmatrix.

Lane ``8·m + r`` gives the address of row ``r`` of matrix ``m``. Of each matrix, lane ``4·r + t`` holds the elements
``2·t`` and ``2·t + 1`` of row ``r``, or of column ``r`` where the matrix is transposed.

Source: PTX ISA, "Warp-level Matrix Instructions": ldmatrix, stmatrix, movmatrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from portkit.emulate.ptx.decode import Decoder, Step
from portkit.emulate.ptx.isa.mma import words_of, writer_of
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.machine import LANES, Array, Machine
from portkit.emulate.ptx.program import Space
from portkit.emulate.ptx.types import Type, types_of

_SECTION = "Warp-level Matrix Instructions"
_ROW = 16
"""Bytes of a row."""


@dataclass(frozen=True)
class _Tiles:
    """Matrices of one instruction."""

    count: int
    transposed: bool

    def arrange(self, rows: Array) -> Array:
        """Rows ``uint32[warps, count, 8, 4]`` to registers ``[count, warps, 32]``."""
        rows = _transposed(rows) if self.transposed else rows
        return rows.reshape(rows.shape[0], self.count, LANES).transpose(1, 0, 2)

    def restore(self, words: Array) -> Array:
        """The inverse."""
        rows = words.transpose(1, 0, 2).reshape(words.shape[1], self.count, 8, 4)
        return _transposed(rows) if self.transposed else rows


def _transposed(rows: Array) -> Array:
    halves = np.ascontiguousarray(rows).view(np.uint16)
    return np.ascontiguousarray(halves.swapaxes(2, 3)).view(np.uint32)


def _tiles(decoder: Decoder, registers: int) -> _Tiles:
    """Matrices of 16-bit elements, which is all that Triton asks for."""
    decoder.ignore("shared", "shared::cta")
    decoder.required("m8n8")
    count = int(decoder.required("x1", "x2", "x4")[1])
    if decoder.kind is not Type.B16 or count != registers:
        raise decoder.unsupported(f"{registers} registers for {count} matrices of .{decoder.kind.suffix}")
    return _Tiles(count, decoder.has("trans"))


def _lane_addresses(decoder: Decoder, number: int, tiles: _Tiles) -> Callable[[Machine], tuple[Array, Array]]:
    """Addresses of all rows, and the threads that give them."""
    address = decoder.address(decoder.operands[number])
    lanes = tiles.count * 8

    def read(machine: Machine) -> tuple[Array, Array]:
        at = machine.spread(address(machine)).reshape(-1, LANES)[:, :lanes]
        return at.reshape(-1), machine.selected.reshape(-1, LANES)[:, :lanes].reshape(-1)

    return read


def _ldmatrix(decoder: Decoder) -> Step:
    decoder.need(2)
    tiles = _tiles(decoder, len(decoder.items(decoder.operands[0])))
    write = writer_of(decoder, decoder.operands[0], Type.B32)
    addresses, site = _lane_addresses(decoder, 1, tiles), decoder.site

    def step(machine: Machine) -> None:
        at, threads = addresses(machine)
        rows = machine.load(site, Space.SHARED, at, _ROW, threads)
        write(machine, tiles.arrange(rows.reshape(-1, tiles.count, 8, 4)))

    return step


def _stmatrix(decoder: Decoder) -> Step:
    decoder.need(2)
    tiles = _tiles(decoder, len(decoder.items(decoder.operands[1])))
    words = words_of(decoder, decoder.operands[1])
    addresses, site = _lane_addresses(decoder, 0, tiles), decoder.site

    def step(machine: Machine) -> None:
        at, threads = addresses(machine)
        rows = tiles.restore(words(machine))
        machine.store(site, Space.SHARED, at, _ROW, np.ascontiguousarray(rows).reshape(at.size, 4), threads)

    return step


def _movmatrix(decoder: Decoder) -> Step:
    decoder.need(2)
    decoder.required("m8n8")
    decoder.required("trans")
    words = words_of(decoder, decoder.operands[1])
    write = writer_of(decoder, decoder.operands[0], Type.B32)
    tiles = _Tiles(1, transposed=True)
    return lambda machine: write(machine, tiles.arrange(words(machine).transpose(1, 0, 2).reshape(-1, 1, 8, 4)))


TABLE: dict[str, tuple[Entry, ...]] = {
    "ldmatrix.sync.aligned": (Entry(_ldmatrix, f"{_SECTION}: ldmatrix", since=75, collective=True),),
    "stmatrix.sync.aligned": (Entry(_stmatrix, f"{_SECTION}: stmatrix", since=90, collective=True),),
    "movmatrix.sync.aligned": (
        Entry(_movmatrix, f"{_SECTION}: movmatrix", types_of("b16"), since=75, collective=True),
    ),
}
