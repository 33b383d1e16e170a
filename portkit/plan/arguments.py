"""Arguments of a call as a user writes them: ``bf16[4096,4096]``, ``1e-6``, ``[f32[8], f32[8]]``; pure.

A text is Python's syntax for a value, with two additions: a dtype with a shape in brackets is a
tensor of that shape, and a name that stands for nothing else is a text. Nothing is executed.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from portkit.errors import CaseError, nearest
from portkit.model import DTYPE_BYTES

SHORT_DTYPES: Final[Mapping[str, str]] = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "b1": "bool",
}  # fmt: skip
"""Short names of dtypes, beside PyTorch's own."""

FORMS: Final = (
    "write a tensor such as bf16[4096,4096], with bounds of its values where they matter (0 <= i64[4096] < 32000), "
    "transposed as bf16[4096,128].T; or a number, True, None, a 'text', a list, torch.bfloat16"
)


_MOST_BYTES: Final = 2**63 - 1

_WHOLE: Final = re.compile(r"(?P<unsigned>u?)int(?P<bits>\d+)")

_NO_AXES: Final = re.compile(r"(?<=\w)\[\s*\]")
"""``f32[]``, a tensor of one number, which Python's syntax does not have."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor that a call gets."""

    shape: tuple[int, ...]
    dtype: str  # PyTorch's name
    low: float | None = None  # of its values; None: as ``bounds`` says
    high: float | None = None  # below which they are; likewise
    transposed: bool = False  # its last two axes, so that it is not contiguous

    @property
    def bytes(self) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape) * DTYPE_BYTES[self.dtype]

    @property
    def whole_numbers(self) -> tuple[int, int] | None:
        """The first that its dtype has and the one after its last; None for a floating-point dtype."""
        kind = _WHOLE.fullmatch(self.dtype)
        if kind is None:
            return (0, 2) if self.dtype == "bool" else None
        bits = int(kind["bits"])
        return (0, 2**bits) if kind["unsigned"] else (-(2 ** (bits - 1)), 2 ** (bits - 1))

    @property
    def bounds(self) -> tuple[float, float]:
        """Of its values; where none are named, -1 to 1, of whole numbers 0 to 2."""
        low, high = (0, 2) if self.whole_numbers else (-1.0, 1.0)
        return low if self.low is None else self.low, high if self.high is None else self.high


@dataclass(frozen=True, slots=True)
class DtypeSpec:
    """A dtype that a call gets: ``torch.bfloat16``."""

    dtype: str


def parse_argument(text: str, place: str) -> Any:
    """The value that a text stands for, tensors as :class:`TensorSpec`.

    Args:
        text: as the user wrote it.
        place: where, for messages.

    Raises:
        CaseError: it stands for no value.
    """
    try:
        tree = ast.parse(_NO_AXES.sub("[()]", text.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise CaseError(f"{text!r} is no value", place=place, remedy=FORMS) from None
    return _Reader(text, place).value(tree)


def tensors(value: Any) -> Iterator[TensorSpec]:
    """Every tensor in a value."""
    if isinstance(value, TensorSpec):
        yield value
    elif isinstance(value, dict):
        yield from (each for one in value.values() for each in tensors(one))
    elif isinstance(value, list | tuple):
        yield from (each for one in value for each in tensors(one))


def map_specs(change: Callable[[TensorSpec | DtypeSpec], Any], value: Any) -> Any:
    """The same value with every tensor and dtype in it replaced."""
    if isinstance(value, TensorSpec | DtypeSpec):
        return change(value)
    if isinstance(value, dict):
        return {name: map_specs(change, one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map_specs(change, one) for one in value)
    return value


@dataclass(frozen=True)
class _Reader:
    """Reads one text; each method takes a node of its syntax tree."""

    text: str
    place: str

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Subscript(value=ast.Name(id=name)):
                return self._sized(TensorSpec(self._shape(node.slice), self._dtype(name)))
            case ast.Attribute(value=ast.Name(id="torch"), attr=name):
                return DtypeSpec(self._dtype(name))
            case ast.Attribute(value=inner, attr="T"):
                return self._transposed(self.value(inner))
            case ast.Compare():
                return self._bounded(node)
            case ast.Name(id=name):
                return name
            case _:
                return self._plain(node)

    def _plain(self, node: ast.expr) -> Any:
        match node:
            case ast.List(elts=items):
                return [self.value(each) for each in items]
            case ast.Tuple(elts=items):
                return tuple(self.value(each) for each in items)
            case ast.Dict(keys=keys, values=values) if None not in keys:
                return {self.value(k): self.value(v) for k, v in zip(keys, values, strict=True) if k is not None}
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, RecursionError):
            raise self._wrong("is no value") from None

    def _shape(self, node: ast.expr) -> tuple[int, ...]:
        sizes = [self.value(each) for each in node.elts] if isinstance(node, ast.Tuple) else [self.value(node)]
        if not all(type(size) is int and size >= 0 for size in sizes):
            raise self._wrong("has a shape of other things than whole numbers")
        return tuple(sizes)

    def _dtype(self, name: str) -> str:
        dtype = SHORT_DTYPES.get(name, name)
        if dtype not in DTYPE_BYTES:
            raise CaseError(
                f"{self.text!r} has no dtype: {name}",
                place=self.place,
                remedy=nearest(name, [*SHORT_DTYPES, *DTYPE_BYTES]),
            )
        return dtype

    def _transposed(self, value: Any) -> TensorSpec:
        if not isinstance(value, TensorSpec) or len(value.shape) < 2:
            raise self._wrong("transposes what has no two axes")
        return replace(value, transposed=not value.transposed)

    def _bounded(self, node: ast.Compare) -> TensorSpec:
        """``tensor < high`` or ``low <= tensor < high``."""
        parts = [self.value(each) for each in (node.left, *node.comparators)]
        signs = [type(each) for each in node.ops]
        match parts, signs:
            case [TensorSpec() as spec, int() | float() as high], [ast.Lt]:
                return self._filled(replace(spec, high=high))
            case [int() | float() as low, TensorSpec() as spec, int() | float() as high], [ast.LtE, ast.Lt]:
                return self._filled(replace(spec, low=low, high=high))
        raise self._wrong("has no bounds of the form low <= dtype[shape] < high")

    def _sized(self, spec: TensorSpec) -> TensorSpec:
        if spec.bytes > _MOST_BYTES:
            raise self._wrong("is larger than any address reaches")
        return spec

    def _filled(self, spec: TensorSpec) -> TensorSpec:
        """Refuses bounds between which the dtype has no value, or past which it has none."""
        low, high = spec.bounds
        if not low < high:
            raise self._wrong(f"has no value from {low:g} to below {high:g}")
        least, most = spec.whole_numbers or (-math.inf, math.inf)
        if spec.whole_numbers and not (float(low).is_integer() and float(high).is_integer()):
            raise self._wrong(f"has bounds that are no whole numbers, as {spec.dtype} has")
        if low < least or high > most:
            raise self._wrong(f"has bounds past those of {spec.dtype}, {least} to below {most}")
        return spec

    def _wrong(self, what: str) -> CaseError:
        return CaseError(f"{self.text!r} {what}", place=self.place, remedy=FORMS)
