"""Opens the ELF container that cubin and hsaco share."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile

from portkit.errors import BinaryError

Figures = Mapping[str, int]
"""Figures of one kernel by the vendor's names."""

_DAMAGE = (
    ELFError,
    ConstructError,
    struct.error,
    ArithmeticError,
    AttributeError,
    AssertionError,
    LookupError,
    TypeError,
    ValueError,
)
"""What parsing a damaged file raises, in pyelftools and in reading what it found."""


@contextmanager
def opened(binary: bytes, kind: str, machine: str) -> Iterator[Any]:
    """An ELF file of one machine; damage found while it is open is a BinaryError.

    Args:
        binary: the whole file.
        kind: name of the format for messages: ``cubin``.
        machine: pyelftools' name of ``e_machine``: ``EM_CUDA``.
    """
    try:
        elf = ELFFile(io.BytesIO(binary))
        if elf["e_machine"] != machine:
            raise BinaryError(f"is no {kind}: its ELF machine is {elf['e_machine']}, not {machine}", place=kind)
        yield elf
    except _DAMAGE as error:
        raise BinaryError(
            f"is damaged ({len(binary)} bytes): {type(error).__name__}: {error}",
            place=kind,
            remedy="remove it from Triton's cache, so that it is built anew",
        ) from error


def lacking(kind: str, kernel: str, what: str, found: object) -> BinaryError:
    """The error for a file that is whole but says nothing of the kernel."""
    return BinaryError(f"has no {what} for kernel {kernel!r}; found: {found or 'none'}", place=kind)
