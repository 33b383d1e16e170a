"""What one forward pass calls: a YAML file of workloads, each a list of kernels × shapes × counts.

    workloads:
      block:
        title: One block of a small model
        source: its config.json
        dtype: bfloat16
        parameters: {batch: 4, hidden: 4096, layers: 2}
        tokens: batch                    # of one pass
        request_tokens: 1                # of one request
        kernels:
          - {case: add_rms_norm, shape: [batch, hidden], count: 2 * layers}

Sizes and counts are whole numbers, names of parameters, and sums, differences, products and whole
quotients (``//``) of them, so that the same list serves any batch and length.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from portkit.document import Document, Kind
from portkit.errors import WorkloadError, nearest
from portkit.model import DTYPE_BYTES, Direction, Shape
from portkit.plan.validated import merged, read_validated

BUILT_IN: Final = Path(__file__).parent / "data" / "workloads.yaml"

LARGEST: Final = 10**15
"""More than any size or count can be: it is a slip of the pen."""

_FILE: Final = Kind("workloads file", WorkloadError, "`workloads:`")

_OPERATIONS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}

Text = Annotated[str, Field(min_length=1)]
Expression = Annotated[int | str, Field(union_mode="left_to_right")]
Size = Annotated[int, Field(gt=0, le=LARGEST)]


@dataclass(frozen=True, slots=True)
class Use:
    """One kernel of a pass."""

    case: str
    direction: Direction
    shape: Shape
    dtype: str
    count: int  # calls in one pass
    role: str = ""  # what it does there, where the case alone does not say

    @property
    def shape_text(self) -> str:
        """The shape as ids write it: ``4096x4096``."""
        return "x".join(map(str, self.shape))


@dataclass(frozen=True, slots=True)
class Workload:
    """One forward pass with all sizes known."""

    name: str
    title: str
    source: str  # where its figures come from
    parameters: Mapping[str, int]
    tokens: int  # that one pass works on
    request_tokens: int  # tokens of one request
    uses: tuple[Use, ...]
    leaves_out: str = ""  # what a pass also does and no kernel here stands for


class UseEntry(BaseModel):
    """One kernel as the file has it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    case: Text
    shape: list[Expression] = Field(min_length=1)
    count: Expression
    direction: str = "forward"
    dtype: str | None = None
    role: str = ""


class Entry(BaseModel):
    """One workload as the file has it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    title: Text
    source: Text
    dtype: str
    parameters: dict[str, Size] = Field(default_factory=dict)
    tokens: Expression
    request_tokens: Expression
    kernels: list[UseEntry] = Field(min_length=1)
    leaves_out: str = ""


class File(BaseModel):
    """A whole workloads file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    workloads: dict[str, Entry] = Field(min_length=1)


@dataclass(frozen=True)
class Declaration:
    """A workload whose parameters may still be set."""

    name: str
    entry: Entry
    document: Document

    def workload(self, given: Mapping[str, int] | None = None) -> Workload:
        """The pass at these parameters.

        Args:
            given: parameter → value in place of the file's; one that the workload lacks is no mistake here.

        Raises:
            WorkloadError: an expression is none, names no parameter or gives no size; a dtype or direction is none.
        """
        known = self.entry.parameters
        parameters = {**known, **{name: value for name, value in (given or {}).items() if name in known}}
        return Workload(
            name=self.name,
            title=self.entry.title,
            source=self.entry.source,
            parameters=parameters,
            tokens=self._size(self.entry.tokens, parameters, "tokens"),
            request_tokens=self._size(self.entry.request_tokens, parameters, "request_tokens"),
            uses=tuple(self._use(i, each, parameters) for i, each in enumerate(self.entry.kernels)),
            leaves_out=self.entry.leaves_out,
        )

    def _use(self, index: int, entry: UseEntry, parameters: Mapping[str, int]) -> Use:
        at = ("kernels", index)
        direction = self._among("direction", entry.direction, [each.value for each in Direction], *at, "direction")
        place = (*at, "dtype") if entry.dtype else ("dtype",)
        return Use(
            case=entry.case,
            direction=Direction(direction),
            shape=tuple(self._size(each, parameters, *at, "shape", axis) for axis, each in enumerate(entry.shape)),
            dtype=self._among("dtype", entry.dtype or self.entry.dtype, list(DTYPE_BYTES), *place),
            count=self._size(entry.count, parameters, *at, "count"),
            role=entry.role,
        )

    def _among(self, what: str, name: str, known: Sequence[str], *keys: str | int) -> str:
        if name not in known:
            raise self._error(f"unknown {what} {name!r}", nearest(name, known), *keys)
        return name

    def _size(self, text: int | str, parameters: Mapping[str, int], *keys: str | int) -> int:
        try:
            value = evaluate(text, parameters)
        except ValueError as error:
            raise self._error(str(error), f"use {_names(parameters)}, whole numbers, + - * //", *keys) from None
        if not 0 < value <= LARGEST:
            raise self._error(f"{text!r} is {value}, and no size", "sizes and counts are positive", *keys)
        return value

    def _error(self, message: str, remedy: str, *keys: str | int) -> WorkloadError:
        return WorkloadError(message, place=self.document.place(("workloads", self.name, *keys)), remedy=remedy)


def _names(parameters: Mapping[str, int]) -> str:
    return ", ".join(parameters) or "no names, for there are no parameters"


def evaluate(text: int | str, names: Mapping[str, int]) -> int:
    """The value of an expression.

    >>> evaluate("2 * layers + 1", {"layers": 32})
    65

    Raises:
        ValueError: it is none, or names what is not there.
    """
    if isinstance(text, int):
        return text
    try:
        return _value(ast.parse(text, mode="eval").body, names)
    except (SyntaxError, RecursionError, MemoryError, ZeroDivisionError) as error:
        raise ValueError(f"{text[:40]!r} is no expression: {type(error).__name__}") from None


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise ValueError(f"no parameter is named {node.id!r}")
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left, names), _value(node.right, names))
    raise ValueError(f"{ast.unparse(node)[:40]!r} is neither number, parameter, nor a sum or product of them")


def load_workloads(files: Sequence[Path] = ()) -> Mapping[str, Declaration]:
    """Name → workload: those of the package, and before them those of the user's files.

    Raises:
        WorkloadError: a file is wrong; the message has file, line, key and remedy.
    """
    return merged(read_workloads, BUILT_IN, files)


def read_workloads(path: Path) -> Mapping[str, Declaration]:
    """Name → workload, of one file.

    Raises:
        WorkloadError: the file is wrong; the message has file, line, key and remedy.
    """
    document, file = read_validated(path, _FILE, File, (Entry, UseEntry))
    return {name: Declaration(name, entry, document) for name, entry in file.workloads.items()}
