"""What a matrix file may hold: the keys, their types and the rules of single values.

Rules that tie two parts of the file together are in :mod:`portkit.plan.matrix`;
those that need the kernel cases or the catalogue are in :mod:`portkit.plan.expand`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema, WithJsonSchema
from pydantic_core import PydanticCustomError

from portkit.errors import nearest
from portkit.model import DTYPE_BYTES, INTERPRETER, Direction, Evidence, Shape, Status
from portkit.plan.mistakes import shown

FORMAT_VERSION = 1
"""Version of the file format; a file that says another is refused."""

GAPS = tuple(status.value for status in Status if not status.good and not status.skipped)
"""Statuses that ``expect`` may name: those that are a gap."""

RULED = tuple(kind.value for kind in Evidence)
"""Evidence that a rule may name: that of cells which a plan has."""

REASON_CHARACTERS = 500
"""Most of a reason: it is in the record of each cell that the rule selects."""

NAME_CHARACTERS = 100
"""Most of a name: it is in the label of each cell."""

_NAME = r"[a-z][a-z0-9_]*"
_TARGET = r"[a-z0-9_]+"
_SHAPE = r"[1-9][0-9]{0,17}(x[1-9][0-9]{0,17})*"
_VARIANT = r"[A-Za-z0-9_.]+"


def mistake(message: str, remedy: str, entry: int | None = None) -> PydanticCustomError:
    """The error of a wrong value, with its remedy and, in a list, the index of the entry."""
    return PydanticCustomError("mistake", "{message}", {"message": message, "remedy": remedy, "entry": entry})


def parse_shape(text: Any) -> Shape:
    """The shape that ``4096x4096`` writes; one axis may be a plain number.

    Raises:
        PydanticCustomError: the text is no shape.
    """
    remedy = "write positive sizes of at most 18 digits joined by x, such as 4096x4096"
    if isinstance(text, int) and type(text) is not int:  # YAML read 0x10 as 16
        raise mistake("a bool, or a number in hexadecimal, octal or with underscores, is no shape", remedy)
    if not isinstance(text, str | int) or not re.fullmatch(_SHAPE, str(text)):
        raise mistake(f"{shown(text)} is no shape", remedy)
    return tuple(int(size) for size in str(text).split("x"))


def _among(word: str, names: Iterable[str]) -> Callable[[str], str]:
    known = tuple(names)

    def check(name: str) -> str:
        if name not in known:
            raise mistake(f"unknown {word} {name!r}", nearest(name, known))
        return name

    return check


def _matching(word: str, pattern: str, rule: str) -> Callable[[str], str]:
    def check(name: str) -> str:
        if not re.fullmatch(pattern, name):
            raise mistake(f"{shown(name)} is no {word}", rule)
        if len(name) > NAME_CHARACTERS:
            raise mistake(f"a {word} of {len(name)} characters", f"use {NAME_CHARACTERS} at most")
        return name

    return check


def fitting(word: str, pattern: str, remedy: str) -> Callable[[str], str]:
    """A check of texts: they must match a pattern as a whole.

    Args:
        word: what such a text is, for the message.
        pattern: regular expression.
        remedy: of the mistake.
    """

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise mistake(f"{text[:40]!r} is no {word}", remedy)
        return text

    return check


def known_version(known: int) -> Callable[[int], int]:
    """A check of a file's version: the one that this portkit knows."""

    def check(number: int) -> int:
        if number != known:
            raise mistake(
                f"format version {number} is unknown",
                f"write `version: {known}`, or use the portkit release that knows version {number}",
            )
        return number

    return check


def _triton_range(text: str) -> str:
    """The range of Triton versions that a text writes, normalised.

    Raises:
        PydanticCustomError: the text is no range, or one that no version can be in.
    """
    remedy = "write one in quotes, such as '<3.7', '>=3.6,<3.8' or '==3.7.1'"
    try:
        allowed = SpecifierSet(text)
    except InvalidSpecifier:
        raise mistake(f"{shown(text)} is no range of Triton versions", remedy) from None
    if not len(allowed) or "===" in text:
        raise mistake(f"{shown(text)} is no range of Triton versions", remedy)
    # Between two bounds lies something only if a bound, or what follows it at once, does.
    bounds = [each.version.removesuffix(".*") for each in allowed]
    if not any(allowed.contains(version) for bound in (*bounds, "0", "9999") for version in (bound, f"{bound}.0.1")):
        raise mistake(f"no version is in the range {shown(text)}", remedy)
    return str(allowed)


def _gap(name: str) -> str:
    status = _among("status", Status)(name)
    if status not in GAPS:
        raise mistake(
            f"{name!r} is no gap",
            "expect only what goes wrong; use `exclude` to leave cells out, and nothing for cells that pass",
        )
    return status


def _filled(text: str) -> str:
    words = " ".join(text.split())
    if not words:
        raise mistake("is blank", "write a text of at least one word")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in words):
        raise mistake("has a control character, or half of a surrogate pair", "remove it")
    return words


def _brief(text: str) -> str:
    if len(text) > REASON_CHARACTERS:
        raise mistake(
            f"has {len(text)} characters", f"use {REASON_CHARACTERS} at most, and name where the rest is told"
        )
    return text


def _listed_target(name: str) -> str:
    if name == INTERPRETER:
        raise mistake(f"{name!r} is not listed: it is always there", "remove it from `targets`")
    return name


def _given(value: Any) -> Any:
    if value is None:
        raise mistake("has no value", "give it a value, or remove the key")
    return value


def _distinct(entries: list[T]) -> list[T]:
    for index, entry in enumerate(entries):
        if entry in entries[:index]:
            raise mistake(f"{_entry_text(entry)} is listed twice", "remove one of the two", index)
    return entries


def _entry_text(entry: Any) -> str:
    return "x".join(map(str, entry)) if isinstance(entry, tuple) else repr(entry)


def _empty_if_null(value: Any) -> Any:
    return [] if value is None else value


T = TypeVar("T")

_SLUG = "use lower-case letters, digits and _, with a letter first, such as add_rms_norm"

KernelName = Annotated[str, AfterValidator(_matching("kernel name", _NAME, _SLUG))]
TierName = Annotated[str, AfterValidator(_matching("tier name", _NAME, _SLUG))]
TargetName = Annotated[
    str, AfterValidator(_matching("target name", _TARGET, "use lower-case letters, digits and _, such as mi300x"))
]
VariantName = Annotated[
    str, AfterValidator(_matching("variant name", _VARIANT, "use letters, digits, _ and ., such as w8"))
]
ShapeText = Annotated[
    Shape, BeforeValidator(parse_shape), WithJsonSchema({"type": ["string", "integer"], "pattern": f"^{_SHAPE}$"})
]
DtypeName = Annotated[
    str, AfterValidator(_among("dtype", DTYPE_BYTES)), Field(json_schema_extra={"enum": list(DTYPE_BYTES)})
]
DirectionName = Annotated[
    str, AfterValidator(_among("direction", Direction)), Field(json_schema_extra={"enum": [*Direction]})
]
EvidenceName = Annotated[str, AfterValidator(_among("evidence", RULED)), Field(json_schema_extra={"enum": list(RULED)})]
TritonRange = Annotated[str, AfterValidator(_triton_range)]
GapName = Annotated[str, AfterValidator(_gap), Field(json_schema_extra={"enum": list(GAPS)})]
Text = Annotated[str, AfterValidator(_filled)]
Reason = Annotated[Text, AfterValidator(_brief), Field(json_schema_extra={"maxLength": REASON_CHARACTERS})]

Choice = Annotated[list[T], Field(min_length=1), AfterValidator(_distinct)]
"""A list with at least one entry and none of them twice."""

Given = Annotated[T | SkipJsonSchema[None], BeforeValidator(_given)]
"""A key that may be left out, and has a value where it is there."""

Rules = Annotated[list[T], BeforeValidator(_empty_if_null)]
"""A list that may be empty, so that its last entry can be commented out."""


def _key(description: str) -> Any:
    """A key that may be left out, as editors and the reference of the keys describe it."""
    return Field(default=None, description=description)


class Section(BaseModel):
    """A mapping of the file: it has no other keys than those named, and no type is turned into another."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class AxesFormat(Section):
    """Values along the axes of a kernel; a missing axis keeps all that the case declares."""

    shapes: Given[Choice[ShapeText]] = _key(
        "shapes to run, sizes joined by x, of as many axes as the case has; all that the case declares unless given"
    )
    dtypes: Given[Choice[DtypeName]] = _key("some of the dtypes that the case declares, by PyTorch's names; else all")
    variants: Given[Choice[VariantName]] = _key("some of the variants that the case declares; else all")
    directions: Given[Choice[DirectionName]] = _key("forward, backward, or both; else all that the case has")
    small_shapes: Given[Choice[ShapeText]] = _key(
        "some of the small shapes that the case declares, to be interpreted and emulated; else all"
    )


class KernelFormat(AxesFormat):
    """One kernel: where its case is declared, and its axes."""

    path: Given[Text] = _key("kernel file, relative to the matrix file; kernels/<name>.py unless given")
    module: Given[Text] = _key("importable module that declares the case, instead of a path")

    @model_validator(mode="after")
    def _one_source(self) -> KernelFormat:
        if self.path and self.module:
            raise mistake("names both `path` and `module`", "keep the one that declares the case")
        return self


SELECTORS = ("kernel", "target", "direction", "shape", "dtype", "variant", "evidence", "triton")
"""Keys by which a rule selects cells."""


class RuleFormat(Section):
    """Cells that a rule speaks of, and why; a missing key matches everything."""

    kernel: Given[str] = _key("a kernel of this matrix")
    target: Given[str] = _key("a target of this matrix, or interpreter")
    dtype: Given[DtypeName] = _key("a dtype, by PyTorch's name")
    variant: Given[VariantName] = _key("a variant of the case")
    evidence: Given[EvidenceName] = _key("how the cells are known: measured, emulated, compiled or interpreted")
    direction: Given[DirectionName] = _key("forward or backward")
    shape: Given[ShapeText] = _key("one shape, as 4096x4096")
    triton: Given[TritonRange] = _key("range of Triton versions, such as <3.7; elsewhere the rule does not apply")
    reason: Reason = Field(description="why, for the report of each cell that the rule selects")

    @model_validator(mode="after")
    def _selects(self) -> RuleFormat:
        if all(getattr(self, key) is None for key in SELECTORS):
            raise mistake("selects every cell", f"name at least one of {', '.join(SELECTORS)}")
        return self


class ExpectFormat(RuleFormat):
    """A known gap."""

    status: GapName = Field(description="what goes wrong there; any other status, and a good one, fails")


class MatrixFormat(Section):
    """A whole matrix file."""

    version: Annotated[int, AfterValidator(known_version(FORMAT_VERSION))] = Field(
        default=FORMAT_VERSION, description="version of the file's format", json_schema_extra={"const": FORMAT_VERSION}
    )
    kernels: Annotated[dict[KernelName, KernelFormat | None], Field(min_length=1)] = Field(
        description="name of a kernel → where its case is declared, and its axes; the order is that of the cells"
    )
    targets: Choice[Annotated[TargetName, AfterValidator(_listed_target)]] = Field(
        description="GPUs by their names in the catalogue, or bare architectures such as gfx1032"
    )
    targets_files: Annotated[Rules[Text], AfterValidator(_distinct)] = Field(
        default=[], description="catalogue files of your own, relative to the matrix file"
    )
    tiers: dict[TierName, dict[KernelName, AxesFormat | None] | None] | None = _key(
        "name of a tier → kernel → narrower axes; a kernel that is not named runs with all of its axes"
    )
    expect: Rules[ExpectFormat] = Field(default=[], description="known gaps; one that has closed fails")
    exclude: Rules[RuleFormat] = Field(
        default=[], description="cells to leave out, which the report has with the reason"
    )
