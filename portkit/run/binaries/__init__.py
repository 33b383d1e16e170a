"""Reads what a kernel needs of a GPU from the headers of its binary.

One file a vendor: :mod:`cubin` and :mod:`hsaco`. Neither needs a GPU, torch or
Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from portkit.model import Platform, Resources
from portkit.run.binaries import cubin, hsaco
from portkit.run.binaries.container import Figures

__all__ = ["read_resources"]


@dataclass(frozen=True)
class _Format:
    read: Callable[[bytes, str], Figures]
    registers: str  # name of the figure that is registers_per_thread
    spills: str  # name of the figure that is spill_bytes_per_thread


_FORMATS: Mapping[Platform, _Format] = {
    Platform.CUDA: _Format(cubin.read_figures, cubin.REGISTERS, cubin.STACK),
    Platform.ROCM: _Format(hsaco.read_figures, hsaco.REGISTERS, hsaco.SCRATCH),
}


def read_resources(
    platform: Platform,
    binary: bytes,
    *,
    kernel: str,
    shared_bytes: int,
    num_warps: int,
    warp_size: int,
) -> Resources:
    """Resources of one kernel of a cubin or hsaco.

    Args:
        platform: decides the format of ``binary``.
        binary: an ELF file, as Triton's ``asm["cubin"]`` or ``asm["hsaco"]``.
        kernel: name of the kernel in the binary.
        shared_bytes: Triton's figure (``metadata.shared``). The binary does not know
            it, since Triton asks for shared memory at launch; what ``cuobjdump``
            prints from sm_90 on is the driver's own 1 KiB.
        num_warps: warps (wavefronts) of a block.
        warp_size: threads of a warp.

    Returns:
        Registers and spills as :class:`portkit.model.Resources` defines them, all
        figures of the header in ``raw`` by the vendor's names.

    Raises:
        BinaryError: not a binary of that platform, damaged, or without the kernel.
    """
    layout = _FORMATS[platform]
    figures = layout.read(binary, kernel)
    return Resources(
        registers_per_thread=figures[layout.registers],
        spill_bytes_per_thread=figures[layout.spills],
        shared_bytes_per_block=shared_bytes,
        threads_per_block=num_warps * warp_size,
        warp_size=warp_size,
        raw=figures,
    )
