"""The 32-bit instruction descriptor of ``tcgen05.mma``: shape, types and modes of a product.

Source: PTX ISA, "Instruction descriptor": tables for .kind::tf32, .kind::f16, .kind::f8f6f4 and .kind::i8, and for
.kind::mxf8f6f4, .kind::mxf4 and .kind::mxf4nvf4.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from portkit.emulate.ptx.matrix.formats import FORMATS, Array, Format, Terms

_BYTES = {0: "e4m3", 1: "e5m2", 3: "e2m3 in units", 4: "e3m2 in units", 5: "e2m1 in units"}

_OPERANDS = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": _BYTES,
    "mxf8f6f4": _BYTES,
    "i8": {0: "u8", 1: "s8"},
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
"""Kind → number of a type of A or B → its format."""

_RESULTS = {0: "f16", 1: "f32", 2: "s32"}


@dataclass(frozen=True, eq=False)
class Product:
    """What a descriptor says; there is one of each."""

    rows: int
    columns: int
    left: Format
    right: Format
    result: str
    negative: tuple[bool, bool]  # A, B
    across: tuple[bool, bool]  # whether rows of A, columns of B lie side by side
    saturate: bool = False
    scale_kind: str = "ue8m0"
    scale_bytes: tuple[int, int] = (0, 0)  # the first byte of a word with scales, of A and of B

    def terms(self, left: Array, right: Array) -> tuple[Terms, Terms]:
        """Of codes of A and B."""
        pairs = zip((self.left.terms(left), self.right.terms(right)), self.negative, strict=True)
        x, y = (replace(each, values=-each.values) if negative else each for each, negative in pairs)
        return x, y


def _bits(descriptor: int, first: int, count: int = 1) -> int:
    return descriptor >> first & ((1 << count) - 1)


@functools.lru_cache(maxsize=1024)
def product_of(kind: str, descriptor: int) -> Product | str:
    """The product of a kind that a descriptor names, or what is wrong with it."""
    if _bits(descriptor, 2):
        return "a sparse product"
    types = _OPERANDS[kind]
    width = 2 if kind.startswith("mxf4") else 3
    left, right = types.get(_bits(descriptor, 7, 3)), types.get(_bits(descriptor, 10, width))
    if left is None or right is None:
        return f"types of kind::{kind} in instruction descriptor {descriptor:#x}"
    scaled = kind.startswith("mx")
    rows = _bits(descriptor, 27, 2) << 7 if scaled else _bits(descriptor, 24, 5) << 4
    columns = _bits(descriptor, 17, 6) << 3
    if rows not in ({128} if scaled else {64, 128}) or not 8 <= columns <= 256:
        return f"a product of {rows} by {columns}"
    product = Product(
        rows,
        columns,
        FORMATS[left],
        FORMATS[right],
        "f32",
        (bool(_bits(descriptor, 13)), bool(_bits(descriptor, 14))),
        (bool(_bits(descriptor, 15)), bool(_bits(descriptor, 16))),
    )
    return _scaled(product, descriptor) if scaled else _plain(product, kind, descriptor)


def _scaled(product: Product, descriptor: int) -> Product:
    kind = "ue8m0" if _bits(descriptor, 23) else "ue4m3"
    return replace(product, scale_kind=kind, scale_bytes=(_bits(descriptor, 29, 2), _bits(descriptor, 4, 2)))


def _plain(product: Product, kind: str, descriptor: int) -> Product | str:
    result = _RESULTS.get(_bits(descriptor, 4, 2))
    allowed = {"i8": {"s32"}, "tf32": {"f32"}}.get(kind, {"f16", "f32"})
    if result not in allowed:
        return f"results of type {result} of kind::{kind}"
    return replace(product, result=result or "", saturate=bool(_bits(descriptor, 3)))
