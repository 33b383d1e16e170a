"""AMD: figures of a kernel from the metadata note of an hsaco.

The note is named ``AMDGPU``, has type 32 and holds MessagePack, as LLVM's "User
Guide for AMDGPU Backend" describes under "Code Object V3 and Above Metadata". On
gfx90a and later ``.vgpr_count`` counts the accumulation registers too: both kinds
come from one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgpack

from portkit.run.binaries.container import Figures, lacking, opened

REGISTERS = "vgpr_count"
SCRATCH = "private_segment_fixed_size"

_METADATA = 32  # NT_AMDGPU_METADATA
_NOT_FIGURES = {".kernarg_segment_align"}


def read_figures(binary: bytes, kernel: str) -> Figures:
    """Every number that the metadata gives for one kernel.

    Returns:
        By LLVM's names without the dot: ``vgpr_count``, ``agpr_count`` (gfx90a and
        later), ``sgpr_count``, ``vgpr_spill_count``, ``sgpr_spill_count`` (registers
        spilled), ``private_segment_fixed_size`` (scratch, bytes per lane),
        ``group_segment_fixed_size``, ``kernarg_segment_size`` (bytes),
        ``max_flat_workgroup_size`` (threads), ``wavefront_size``. Flags are 0 or 1.

    Raises:
        BinaryError: not an hsaco, damaged, or without that kernel.
    """
    with opened(binary, "hsaco", "EM_AMDGPU") as elf:
        kernels = {entry[".name"]: entry for note in _metadata(elf) for entry in note["amdhsa.kernels"]}
        if kernel not in kernels:
            raise lacking("hsaco", kernel, "metadata", ", ".join(sorted(kernels)))
        figures = _numbers(kernels[kernel])
        for name in (REGISTERS, SCRATCH):
            if name not in figures:
                raise lacking("hsaco", kernel, f".{name}", sorted(figures))
    return figures


def undefined_symbols(binary: bytes) -> tuple[str, ...]:
    """Names that the code object uses and nothing in it defines, weak ones left out.

    Raises:
        BinaryError: not an hsaco, or damaged.
    """
    with opened(binary, "hsaco", "EM_AMDGPU") as elf:
        table = elf.get_section_by_name(".dynsym")
        symbols = table.iter_symbols() if table else ()
        return tuple(
            symbol.name
            for symbol in symbols
            if symbol.name and symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_WEAK"
        )


def _metadata(elf: Any) -> Iterator[Mapping[str, Any]]:
    for segment in elf.iter_segments("PT_NOTE"):
        for note in segment.iter_notes():
            if note["n_name"] == "AMDGPU" and note["n_type"] == _METADATA:
                yield msgpack.unpackb(note["n_descdata"])


def _numbers(entry: Mapping[str, Any]) -> dict[str, int]:
    return {
        name.removeprefix("."): int(value)
        for name, value in entry.items()
        if isinstance(value, int) and name not in _NOT_FIGURES
    }
