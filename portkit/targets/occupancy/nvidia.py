"""NVIDIA's rules: how many blocks fit on an SM.

Source: ``cuda_occupancy.h``, which ships with CUDA and in the Triton wheel. With
``w = ceil(threads / 32)`` warps and ``rpw = roundup(32 · registers, 256)``:

============== ====================================================================
resource       blocks per SM
============== ====================================================================
waves          ``warps per SM // w``
blocks         the architecture's limit
registers      ``(registers per quarter // rpw) · 4 // w``
shared memory  ``shared per SM // roundup(shared + reserved, granule)``
barriers       from compute capability 9: ``barriers per SM // barriers``
tensor memory  ``512 // columns`` (not in the header; limit as Triton checks it)
============== ====================================================================

The header's own limit of registers is 256 a thread; 255 is used here, the most that
an instruction can name. It assumes, as this module does, that the driver grants the
largest shared-memory carve-out. Clusters, green contexts and MIG are not modelled.
"""

from __future__ import annotations

from portkit.model import Architecture
from portkit.targets.occupancy.block import (
    BARRIERS,
    BLOCKS,
    REGISTERS,
    SHARED_MEMORY,
    TENSOR_MEMORY,
    WAVES,
    Block,
    round_up,
)

SPOKEN = {WAVES: "warps"}
"""Resources by NVIDIA's own words where figures have another, which all vendors share."""

NAMED_BARRIERS = 16
"""Named barriers that a block has, 0 to 15 (PTX ISA, ``barrier``)."""

TENSOR_MEMORY_ALLOCATIONS = (32, 64, 128, 256, 512)
"""Columns that one ``tcgen05.alloc`` may take: powers of two (PTX ISA)."""


def blocks_by_resource(arch: Architecture, block: Block) -> dict[str, int]:
    """Blocks per SM that each resource alone would allow; without those that set no limit."""
    waves = block.waves(arch.wave_size)
    counts = {
        WAVES: arch.max_waves_per_unit // waves,
        BLOCKS: arch.max_blocks_per_unit,
        REGISTERS: _by_registers(arch, block, waves),
    }
    shared = round_up(block.shared_bytes + arch.shared_bytes_reserved, arch.shared_granule)
    if shared:
        counts[SHARED_MEMORY] = arch.shared_bytes_per_unit // shared
    if arch.barriers_per_block_slot is not None and block.barriers:
        counts[BARRIERS] = arch.max_blocks_per_unit * arch.barriers_per_block_slot // block.barriers
    if block.tensor_memory_columns:
        counts[TENSOR_MEMORY] = (arch.tensor_memory_columns or 0) // _tensor_memory(block.tensor_memory_columns)
    return counts


def broken_registers(arch: Architecture, block: Block) -> str | None:
    """The register limit that the block breaks as a whole, in words.

    The hardware checks a block as if each quarter of the SM held the same number of
    its warps, so the number of warps is rounded up to four.
    """
    per_block = _per_warp(arch, block) * round_up(block.waves(arch.wave_size), arch.simds_per_unit)
    if per_block <= arch.registers_per_unit:
        return None
    return f"registers {per_block} > {arch.registers_per_unit} in a block"


def _per_warp(arch: Architecture, block: Block) -> int:
    return round_up(max(block.registers, 1) * arch.wave_size, arch.register_granule)


def _by_registers(arch: Architecture, block: Block, waves: int) -> int:
    warps_per_quarter = arch.registers_per_unit // arch.simds_per_unit // _per_warp(arch, block)
    return warps_per_quarter * arch.simds_per_unit // waves


def _tensor_memory(columns: int) -> int:
    return next((size for size in TENSOR_MEMORY_ALLOCATIONS if size >= columns), columns)
