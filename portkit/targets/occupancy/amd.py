"""AMD's rules: how many workgroups fit on a CU, or on a WGP of RDNA.

Source: LLVM's ``llvm/lib/Target/AMDGPU/Utils/AMDGPUBaseInfo.cpp``
(``getVGPRAllocGranule``, ``getTotalNumVGPRs``, ``getMaxWavesPerEU``,
``getMaxWorkGroupsPerCU``). With ``n = ceil(threads / wave)`` waves a workgroup:

============== ====================================================================
resource       workgroups per unit
============== ====================================================================
waves          ``waves per unit // n``
blocks         the limit of barriers; a workgroup of one wave needs none
registers      ``waves per SIMD · SIMDs // n``, where waves per SIMD =
               ``min(VGPRs per lane // roundup(VGPRs, granule), most)``, on gfx906 also
               ``scalar registers per SIMD // roundup(SGPRs, 16)``
shared memory  ``LDS per unit // roundup(LDS, granule)``
============== ====================================================================

``registers`` is the kernel's ``.vgpr_count``: on gfx90a and later it includes the
accumulation registers, which share the file. Scalar registers set a limit on gfx906
alone: waves have a fixed share from gfx10 on, and 102 fit the eight waves of gfx90a to
gfx950.
RDNA runs here as Triton builds for it, wave32 in WGP mode. What sources say of LDS
and not alike is in each architecture's ``doubts``.
"""

from __future__ import annotations

from collections.abc import Mapping

from portkit.model import Architecture
from portkit.targets.occupancy.block import BLOCKS, REGISTERS, SHARED_MEMORY, WAVES, Block, round_up

SPOKEN: Mapping[str, str] = {}
"""Resources by AMD's own words where figures have another."""

NAMED_BARRIERS = None
"""A workgroup of these architectures has one barrier, which has no name."""

SCALAR_GRANULE = 16
"""Scalar registers are taken in blocks of so many (``getSGPRAllocGranule``, gfx8 and gfx9)."""


def waves_per_simd(arch: Architecture, registers: int, scalar_registers: int = 0) -> int:
    """Waves that the registers of a SIMD can hold, as LLVM's ``; Occupancy:`` line.

    Args:
        arch: an AMD architecture.
        registers: VGPRs per thread, ``.vgpr_count``; 0 counts as the smallest allocation.
        scalar_registers: SGPRs per wave, ``.sgpr_count``; 0 sets no limit.

    Returns:
        Waves per SIMD; 0 where a thread has more registers than it may have.
    """
    if registers > arch.max_registers_per_thread:
        return 0
    allocated = round_up(max(registers, 1), arch.register_granule)
    waves = min(arch.registers_per_simd_lane // allocated, arch.max_waves_per_simd)
    if arch.scalar_registers_per_simd and scalar_registers:
        waves = min(waves, arch.scalar_registers_per_simd // round_up(scalar_registers, SCALAR_GRANULE))
    return waves


def blocks_by_resource(arch: Architecture, block: Block) -> dict[str, int]:
    """Workgroups per unit that each resource alone would allow; without those that set no limit."""
    waves = block.waves(arch.wave_size)
    counts = {
        WAVES: arch.max_waves_per_unit // waves,
        BLOCKS: arch.max_blocks_per_unit_single_wave if waves == 1 else arch.max_blocks_per_unit,
        REGISTERS: _most_waves(arch, block) // waves,
    }
    if block.shared_bytes:
        counts[SHARED_MEMORY] = arch.shared_bytes_per_unit // round_up(block.shared_bytes, arch.shared_granule)
    return counts


def broken_registers(arch: Architecture, block: Block) -> str | None:
    """The register limit that the workgroup breaks as a whole, in words."""
    most, waves = _most_waves(arch, block), block.waves(arch.wave_size)
    if waves <= most or not most:  # none at all: the limit per thread says it
        return None
    return f"registers: {block.registers} a thread leave room for {most} waves in a {arch.unit}, the block has {waves}"


def _most_waves(arch: Architecture, block: Block) -> int:
    return waves_per_simd(arch, block.registers, block.scalar_registers) * arch.simds_per_unit
