"""Theoretical occupancy of a kernel, from its resources and its architecture's limits.

One file a vendor holds the rules; this module chooses it by the platform and turns
counts of blocks into an :class:`~portkit.model.Occupancy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from portkit.model import Architecture, Occupancy, Platform
from portkit.targets.occupancy import amd, nvidia
from portkit.targets.occupancy.amd import waves_per_simd
from portkit.targets.occupancy.block import (
    BARRIERS,
    REGISTERS,
    RESOURCES,
    SHARED_MEMORY,
    TENSOR_MEMORY,
    WAVES,
    Block,
)

__all__ = ["WAVES", "broken_limits", "named_barriers", "occupancy", "spoken", "waves_per_simd"]

_RULES: Mapping[Platform, ModuleType] = {Platform.CUDA: nvidia, Platform.ROCM: amd}


def occupancy(
    arch: Architecture,
    *,
    registers: int,
    shared_bytes: int,
    threads: int,
    barriers: int = 1,
    tensor_memory_columns: int = 0,
    scalar_registers: int = 0,
) -> Occupancy:
    """Theoretical occupancy: resident waves ÷ most waves of a unit.

    ``blocks = min over resources``, ``percent = 100 · blocks · waves of a block ÷
    most waves``. Rules and sources: :mod:`~portkit.targets.occupancy.nvidia` and
    :mod:`~portkit.targets.occupancy.amd`.

    Args:
        arch: limits of the architecture.
        registers: 32-bit registers per thread; AMD ``.vgpr_count``.
        shared_bytes: shared memory or LDS of a block, static and dynamic, without
            the driver's part.
        threads: threads of a block.
        barriers: named barriers of a block, at most :func:`named_barriers`; of no effect without.
        tensor_memory_columns: tensor-memory columns of a block, Blackwell.
        scalar_registers: scalar registers of a wave, AMD ``.sgpr_count``.

    Returns:
        Occupancy with its limiter. A block that can't launch has 0 % and the limits
        it breaks as the limiter. Of resources that limit alike, the limiter is the
        first in the order waves, blocks, registers, shared memory, barriers, tensor
        memory; ``limits`` has them all.

    Raises:
        ValueError: a figure is negative or not a whole number, there are no threads, or the
            architecture has no sourced limits.
    """
    _check_sourced(arch)
    block = Block(threads, registers, shared_bytes, barriers, tensor_memory_columns, scalar_registers)
    counts: dict[str, int] = _RULES[arch.platform].blocks_by_resource(arch, block)
    broken = _broken(arch, block)
    counts |= {resource: 0 for resource, _ in broken}
    blocks = min(counts.values())
    waves = blocks * block.waves(arch.wave_size)
    return Occupancy(
        percent=100 * waves / arch.max_waves_per_unit,
        blocks_per_unit=blocks,
        waves_per_unit=waves,
        limiter="; ".join(text for _, text in broken) or _limiter(counts),
        limits=counts,
    )


def named_barriers(arch: Architecture) -> int | None:
    """Most named barriers of a block; None on a platform that has none."""
    most: int | None = _RULES[arch.platform].NAMED_BARRIERS
    return most


def spoken(resource: str, platform: Platform | None) -> str:
    """A resource or limiter as people who use a platform call it: NVIDIA's waves are warps.

    Args:
        resource: a key of ``Occupancy.limits``, or its ``limiter``, which are the same words on all platforms.
        platform: None: none, and the word stays.
    """
    own: Mapping[str, str] = _RULES[platform].SPOKEN if platform else {}
    return own.get(resource, resource)


def broken_limits(
    arch: Architecture,
    *,
    threads: int,
    shared_bytes: int,
    registers: int,
    tensor_memory_columns: int = 0,
    scalar_registers: int = 0,
) -> tuple[str, ...]:
    """Limits that keep a block from launching, each in words.

    Args:
        arch: limits of the architecture.
        threads: threads of a block.
        shared_bytes: shared memory or LDS of a block, without the driver's part.
        registers: 32-bit registers per thread.
        tensor_memory_columns: tensor-memory columns of a block.
        scalar_registers: scalar registers of a wave, AMD ``.sgpr_count``.

    Returns:
        Such as ``threads 2048 > 1024`` and ``shared memory 131072 B > 101376 B``;
        empty for a block that launches.

    Raises:
        ValueError: a figure is negative or not a whole number, there are no threads, or the
            architecture has no sourced limits.
    """
    _check_sourced(arch)
    columns, scalars = tensor_memory_columns, scalar_registers
    block = Block(threads, registers, shared_bytes, tensor_memory_columns=columns, scalar_registers=scalars)
    return tuple(text for _, text in _broken(arch, block))


def _check_sourced(arch: Architecture) -> None:
    if not arch.sourced:
        raise ValueError(f"no source gave the limits of {arch.name}")


def _broken(arch: Architecture, block: Block) -> list[tuple[str, str]]:
    """Pairs of a resource and its broken limit in words."""
    columns = block.tensor_memory_columns
    found: list[tuple[str, str | None]] = [
        (WAVES, _over("threads", block.threads, arch.max_threads_per_block)),
        (SHARED_MEMORY, _over("shared memory", block.shared_bytes, arch.shared_bytes_per_block_max, " B")),
        (REGISTERS, _over("registers", block.registers, arch.max_registers_per_thread, " a thread")),
        (REGISTERS, _RULES[arch.platform].broken_registers(arch, block)),
        (BARRIERS, _over("named barriers", block.barriers, named_barriers(arch) or block.barriers)),
        (TENSOR_MEMORY, _over("tensor memory", columns, arch.tensor_memory_columns or 0, " columns")),
    ]
    return [(resource, text) for resource, text in found if text]


def _over(what: str, value: int, limit: int, unit: str = "") -> str | None:
    return f"{what} {value}{unit} > {limit}{unit}" if value > limit else None


def _limiter(counts: Mapping[str, int]) -> str:
    fewest = min(counts.values())
    return next(name for name in RESOURCES if counts.get(name) == fewest)
