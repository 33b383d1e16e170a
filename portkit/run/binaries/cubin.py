"""NVIDIA: figures of a kernel from the ``.nv.info`` sections of a cubin.

A section is a list of attributes: one byte format, one byte attribute, two bytes
value or size, then the payload where the format has one. NVIDIA does not document
the layout; the tests hold the reading against ``cuobjdump --dump-resource-usage``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from portkit.run.binaries.container import Figures, lacking, opened

REGISTERS = "registers"
STACK = "stack_frame_bytes"

_SIZED = 0x04  # format whose two bytes are the size of a payload
_PER_FUNCTION = {
    0x2F: REGISTERS,  # EIATTR_REGCOUNT
    0x11: STACK,  # EIATTR_FRAME_SIZE: spill slots and local arrays
    0x12: "min_stack_bytes",  # EIATTR_MIN_STACK_SIZE: the same with called functions
}
_REQUIRED_THREADS = 0x10  # EIATTR_REQNTID, in the kernel's own section
_NEW_ABI = 8  # e_ident ABI version from which e_flags keeps the architecture in bits 8 to 15


def read_figures(binary: bytes, kernel: str) -> Figures:
    """Registers, stack bytes and the architecture number of one kernel.

    Returns:
        ``registers`` (per thread), ``stack_frame_bytes`` and ``min_stack_bytes``
        (per thread), ``sm`` (90 for sm_90), and ``required_threads`` of a block
        where the kernel fixes them.

    Raises:
        BinaryError: not a cubin, damaged, or without that kernel.
    """
    with opened(binary, "cubin", "EM_CUDA") as elf:
        figures = {"sm": _architecture(elf), **_function_figures(elf, kernel), **_block_size(elf, kernel)}
    for name in (REGISTERS, STACK):
        if name not in figures:
            raise lacking("cubin", kernel, name, sorted(figures))
    return figures


def _architecture(elf: Any) -> int:
    flags: int = elf["e_flags"]
    return (flags >> 8 if elf["e_ident"]["EI_ABIVERSION"] >= _NEW_ABI else flags) & 0xFF


def _function_figures(elf: Any, kernel: str) -> dict[str, int]:
    """Attributes of ``.nv.info`` name their function by its index in the symbol table."""
    section, symbols = elf.get_section_by_name(".nv.info"), elf.get_section_by_name(".symtab")
    if section is None or symbols is None:
        return {}
    figures: dict[str, int] = {}
    for attribute, payload in _attributes(section.data()):
        if name := _PER_FUNCTION.get(attribute):
            symbol, value = struct.unpack_from("<II", payload)
            if symbols.get_symbol(symbol).name == kernel:
                figures[name] = value
    return figures


def _block_size(elf: Any, kernel: str) -> dict[str, int]:
    section = elf.get_section_by_name(f".nv.info.{kernel}")
    if section is None:
        return {}
    for attribute, payload in _attributes(section.data()):
        if attribute == _REQUIRED_THREADS:
            x, y, z = struct.unpack_from("<III", payload)
            return {"required_threads": x * y * z}
    return {}


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Attribute and payload of each entry; a payload that runs over the end is damage."""
    at = 0
    while at < len(data):
        kind, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        payload = data[at : at + size] if kind == _SIZED else b""
        if kind == _SIZED and len(payload) != size:
            raise ValueError(f".nv.info ends within attribute {attribute:#x}")
        at += len(payload)
        yield attribute, payload
