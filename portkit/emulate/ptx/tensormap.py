"""Tensor maps: what a tensor in global memory is to a bulk tensor copy, as an object of 128 bytes.

The document leaves open where the fields lie; they are set by ``tensormap.replace`` or by the driver, and this module
gives them places. Numbers in fields are those of ``tensormap.replace``.

Source: PTX ISA, "Tensor-map", "tensormap.replace", "Tensors"; CUDA Driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

import enum
import functools
import struct
from dataclasses import dataclass

SIZE = 128
"""Bytes of a tensor map."""

ALIGNMENT = 64


class Element(enum.IntEnum):
    """Element types by their number in ``tensormap.replace``."""

    U8 = 0
    U16 = 1
    U32 = 2
    S32 = 3
    U64 = 4
    S64 = 5
    F16 = 6
    F32 = 7
    F32_FTZ = 8
    F64 = 9
    BF16 = 10
    TF32 = 11
    TF32_FTZ = 12

    @property
    def bytes(self) -> int:
        """Of one element."""
        return int(self.name.removesuffix("_FTZ").lstrip("TUSBF")) // 8


DRIVER_ELEMENTS = (
    Element.U8,
    Element.U16,
    Element.U32,
    Element.S32,
    Element.U64,
    Element.S64,
    Element.F16,
    Element.F32,
    Element.F64,
    Element.BF16,
    Element.F32_FTZ,
    Element.TF32,
    Element.TF32_FTZ,
)
"""Element types in the order of the driver's ``CUtensorMapDataType``."""

SWIZZLES = {0: 16, 1: 32, 2: 64, 3: 128}
"""Number of a swizzle mode → bytes of the rows within which units of 16 bytes move; 16: they don't."""

RANKS = 5
"""Dimensions that a tensor has at most."""

FIELDS = {
    "global_address": (0, 8),
    "rank": (8, 4),
    "box_dim": (12, 4),
    "global_dim": (32, 4),
    "global_stride": (56, 8),
    "elemtype": (88, 4),
    "interleave_layout": (92, 4),
    "swizzle_mode": (96, 4),
    "fill_mode": (100, 4),
    "element_stride": (104, 4),
}
"""Field → offset and size; those of several dimensions lie one behind the other."""


@dataclass(frozen=True)
class TensorMap:
    """One tensor. The first dimension is the one whose elements lie side by side.

    Attributes:
        address: of its first element.
        element: type of the elements.
        shape: elements in each dimension.
        strides: bytes from one index to the next, of every dimension but the first.
        box: elements of a copy in each dimension.
        swizzle: number of the swizzle mode.
        fill: what is outside: 0 for zeros, 1 for NaN.
        interleave: number of the interleave layout.
        element_strides: every which element of a dimension is copied.
    """

    address: int
    element: Element
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    fill: int = 0
    interleave: int = 0
    element_strides: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        """Dimensions."""
        return len(self.shape)

    @property
    def box_bytes(self) -> int:
        """Of a whole copy."""
        size = self.element.bytes
        for each in self.box:
            size *= each
        return size

    def encode(self, address: int | None = None) -> bytes:
        """The 128 bytes, for a tensor that lies at another address where one is given."""
        raw = bytearray(SIZE)
        _put(raw, "global_address", [self.address if address is None else address])
        _put(raw, "rank", [self.rank - 1])
        _put(raw, "box_dim", self.box)
        _put(raw, "global_dim", self.shape)
        _put(raw, "global_stride", self.strides)
        _put(raw, "elemtype", [self.element])
        _put(raw, "interleave_layout", [self.interleave])
        _put(raw, "swizzle_mode", [self.swizzle])
        _put(raw, "fill_mode", [self.fill])
        _put(raw, "element_stride", self.element_strides or (1,) * self.rank)
        return bytes(raw)

    @staticmethod
    @functools.lru_cache(maxsize=1024)
    def decode(raw: bytes) -> TensorMap:
        """From 128 bytes.

        Raises:
            ValueError: a field has a value that there is not.
        """
        rank = _get(raw, "rank", 1)[0] + 1
        if rank > RANKS:
            raise ValueError(f"a tensor map of {rank} dimensions")
        return TensorMap(
            _get(raw, "global_address", 1)[0],
            Element(_get(raw, "elemtype", 1)[0]),
            _get(raw, "global_dim", rank),
            _get(raw, "global_stride", rank - 1),
            _get(raw, "box_dim", rank),
            _get(raw, "swizzle_mode", 1)[0],
            _get(raw, "fill_mode", 1)[0],
            _get(raw, "interleave_layout", 1)[0],
            _get(raw, "element_stride", rank),
        )


def _put(raw: bytearray, field: str, values: tuple[int, ...] | list[int]) -> None:
    start, size = FIELDS[field]
    for number, value in enumerate(values):
        struct.pack_into("<Q" if size == 8 else "<I", raw, start + number * size, value)


def _get(raw: bytes, field: str, count: int) -> tuple[int, ...]:
    start, size = FIELDS[field]
    form = "<Q" if size == 8 else "<I"
    return tuple(struct.unpack_from(form, raw, start + number * size)[0] for number in range(count))
