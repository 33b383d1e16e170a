"""Arguments of a Triton launch, as the values that the instruction interpreter takes.

Triton's signature says which of them the kernel gets: what was specialised to a constant
is in the binary already. Tuples are passed member by member, host descriptors as Triton's
launcher of the platform passes them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from portkit.emulate import Pointer, Value
from portkit.run.guards import extent, written_bytes


def launch_values(signature: Mapping[str, Any], arguments: Iterable[Any]) -> list[Value]:
    """Values of the kernel's own arguments, in order; buffers carry the argument's name.

    Args:
        signature: name → type, such as ``*fp32``, ``i32``, ``constexpr``, ``tensordesc<…>``; a
            tuple for a tuple.
        arguments: one for each type: tensors on the CPU, numbers, tuples, descriptors.
    """
    pairs = zip(signature.items(), arguments, strict=True)
    return [value for (name, kind), given in pairs for value in _flat(name, kind, given)]


def _flat(name: str, kind: Any, given: Any) -> Iterator[Value]:
    if kind == "constexpr":
        return
    if isinstance(kind, tuple):
        yield from launch_values({f"{name}[{place}]": each for place, each in enumerate(kind)}, given)
    elif kind.startswith("tensordesc"):
        yield from _descriptor(name, given)
    elif given is None:
        yield None
    elif kind.startswith("*"):
        yield pointer(name, getattr(given, "base", given))  # of a TensorWrapper: its tensor under another dtype
    else:
        yield _number(kind, given)


def _number(kind: str, given: Any) -> Value:
    """A number in the kernel's type: an integer that is given for a floating-point argument becomes one."""
    if kind == "bf16":  # no format of Python's
        return int(torch.tensor(given, dtype=torch.bfloat16).view(torch.int16).item()) & 0xFFFF
    return float(given) if kind.startswith("fp") else int(given)


def _descriptor(name: str, given: Any) -> Iterator[Value]:
    """A host descriptor as Triton's AMD launcher passes it: whole, then shape and strides again.

    Source: make_tensordesc_arg of Triton's AMD driver.
    """
    shape = (*map(int, given.shape), *map(int, given.strides))
    yield pointer(name, given.base)
    yield from shape
    yield given.padding == "nan"
    if hasattr(given, "round_f32_to_tf32"):
        yield bool(given.round_f32_to_tf32)
    yield from shape


def pointer(name: str, tensor: torch.Tensor) -> Pointer:
    """A tensor's address within the memory that the code has, without guard bands.

    Bytes from ``empty`` that nobody has written to yet are marked so, and those that the launch writes no longer.
    """
    first, last = extent(tensor)
    start = tensor.untyped_storage().data_ptr()
    raw = (ctypes.c_uint8 * max(last - first, 0)).from_address(start + first)
    offset = tensor.storage_offset() * tensor.element_size() - first
    written = written_bytes(tensor)
    return Pointer(np.frombuffer(raw, np.uint8), offset, written=True if written is None else written, name=name)
