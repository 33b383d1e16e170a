"""Arguments of a Triton launch, as the values that the instruction interpreter takes.

Triton's signature says which of them the kernel gets: what was specialised to a constant
is in the binary already. Tuples are passed member by member, host descriptors as Triton's
launcher of the platform passes them: as tensor maps where the build's metadata describe those, else whole.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from portkit.emulate import Descriptor, Pointer, Value
from portkit.emulate.ptx.tensormap import Element, TensorMap
from portkit.run.guards import extent, written_bytes


def launch_values(
    signature: Mapping[str, Any], arguments: Iterable[Any], maps: Sequence[Mapping[str, Any]] | None = None
) -> list[Value]:
    """Values of the kernel's own arguments, in order; buffers carry the argument's name.

    Args:
        signature: name → type, such as ``*fp32``, ``i32``, ``constexpr``, ``tensordesc<…>``; a
            tuple for a tuple.
        arguments: one for each type: tensors on the CPU, numbers, tuples, descriptors.
        maps: how each descriptor becomes a tensor map, by the build's metadata; empty: none does.
    """
    return _each(signature, arguments, iter(maps or ()))


def _each(signature: Mapping[str, Any], arguments: Iterable[Any], maps: Iterator[Mapping[str, Any]]) -> list[Value]:
    pairs = zip(signature.items(), arguments, strict=True)
    return [value for (name, kind), given in pairs for value in _flat(name, kind, given, maps)]


def _flat(name: str, kind: Any, given: Any, maps: Iterator[Mapping[str, Any]]) -> Iterator[Value]:
    if kind == "constexpr":
        return
    if isinstance(kind, tuple):
        yield from _each({f"{name}[{place}]": each for place, each in enumerate(kind)}, given, maps)
    elif kind.startswith("tensordesc"):
        form = next(maps, None)
        yield from _descriptor(name, given) if form is None else _mapped(name, given, form)
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
    """A host descriptor as Triton's launchers pass it without tensor maps: whole, then shape and strides again.

    Source: make_tensordesc_arg of Triton's AMD and NVIDIA drivers.
    """
    shape = (*map(int, given.shape), *map(int, given.strides))
    yield pointer(name, given.base)
    yield from shape
    yield given.padding == "nan"
    if hasattr(given, "round_f32_to_tf32"):
        yield bool(given.round_f32_to_tf32)
    yield from shape


def _mapped(name: str, given: Any, form: Mapping[str, Any]) -> Iterator[Value]:
    """A host descriptor as a tensor map, then shape and strides.

    Source: make_tensordesc_arg of Triton's NVIDIA driver, and what its C helper makes of that.
    """
    shape, strides = [*map(int, given.shape)], [*map(int, given.strides)]
    own = pointer(name, given.base)
    yield Descriptor(own, _tensor_map(given, form, shape, strides).encode)
    yield from (*shape, *strides)


def _tensor_map(given: Any, form: Mapping[str, Any], shape: Sequence[int], strides: Sequence[int]) -> TensorMap:
    """Its first dimension is the last one of Triton's."""
    if form.get("is_im2col", False) or form["fp4_padded"]:
        raise NotImplementedError("tensor maps of im2col and of padded 4-bit floats are not emulated")
    size = int(form["elem_size"])
    rounds = getattr(given, "round_f32_to_tf32", False)
    return TensorMap(
        address=0,
        element=Element.TF32 if rounds else Element(int(form["elem_type"])),
        shape=tuple(reversed(shape)),
        strides=tuple(size * step for step in reversed(strides[:-1])),
        box=tuple(int(each) for each in reversed(form["block_size"])),
        swizzle=int(form["swizzle"]),
        fill=1 if given.padding == "nan" else 0,
    )


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
