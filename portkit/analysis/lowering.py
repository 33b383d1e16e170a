"""What became of one kernel on two targets: its texts line by line, without what differs without meaning.

Lines are compared by what they say: numbers of SSA values and of registers, source locations and
debug information are left out of the comparison, unless the texts are wanted raw.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from portkit.analysis.cells import GO_ON, label_of
from portkit.errors import ReportError, nearest
from portkit.model import Direction, Evidence, Launch
from portkit.store.merge import Dataset, Row
from portkit.store.texts import BLOB, KernelTexts, texts_of

ASSEMBLY: Final = "asm"
STAGES: Final = ("source", "ttir", "ttgir", "llir", ASSEMBLY)
"""Stages in order; the last is ``ptx`` on NVIDIA and ``amdgcn`` on AMD."""

_MACHINES: Final = ("ptx", "amdgcn")
_ORDER: Final = (Evidence.MEASURED, Evidence.COMPILED, Evidence.EMULATED)

IGNORED: Final = (
    "numbers of SSA values and registers, names and order of constants, source locations, comments, debug information"
)
"""What normalised lines are not compared by."""


@dataclass(frozen=True)
class Line:
    """A line of a text."""

    text: str
    key: str  # what it is compared by


@dataclass(frozen=True)
class Side:
    """One kernel on one target."""

    row: Row
    launch: Launch
    texts: KernelTexts

    @property
    def target(self) -> str:
        """Name of the target."""
        return self.row.record.cell.target


Hunk = tuple[str, int, int, int, int]
"""difflib's operation: ``equal``, ``replace``, ``delete`` or ``insert``, and the lines of both sides."""


@dataclass(frozen=True)
class Compared:
    """One stage of a kernel on both targets."""

    stage: str
    names: tuple[str, str]  # of the texts: ptx and amdgcn, or the stage twice
    left: tuple[Line, ...]
    right: tuple[Line, ...]
    hunks: tuple[Hunk, ...]

    @property
    def comparable(self) -> bool:
        """Whether both are in one language."""
        return self.names[0] == self.names[1]

    @property
    def changed(self) -> int:
        """Lines that stand on one side alone."""
        return sum((b - a) + (d - c) for what, a, b, c, d in self.hunks if what != "equal")


@dataclass(frozen=True)
class Pair:
    """One operation on two targets."""

    left: Row
    right: Row
    kernels: tuple[tuple[Side, Side], ...]  # launches side by side, in order
    unpaired: tuple[str, ...]  # launches that the other target has none for, in words
    others: int  # more operations of the kernel that both targets have


def pair(dataset: Dataset, kernel: str, targets: tuple[str, str], words: Iterable[str] = ()) -> Pair:
    """One operation of a kernel on two targets; of several the first of the largest shape.

    Args:
        dataset: merged reports.
        kernel: name of the case.
        targets: the two.
        words: shape, dtype, variant, direction or evidence that it must have.

    Raises:
        ReportError: there are no such rows, or their texts were not kept.
    """
    of_kernel = [row for row in dataset.rows if row.record.cell.case == kernel]
    if not of_kernel:
        names = {row.record.cell.case for row in dataset.rows}
        if not names:
            raise ReportError(f"no kernel {kernel!r}: the reports have no rows", remedy=GO_ON)
        raise ReportError(f"no row of a kernel {kernel!r}", remedy=nearest(kernel, names))
    chosen = [row for row in of_kernel if all(word in _words(row) for word in words)]
    sides = [_by_operation(_of_target(chosen, of_kernel, name)) for name in targets]
    common = [operation for operation in sides[0] if operation in sides[1]]
    if not common:
        raise ReportError(
            f"no operation of {kernel} was built for both {targets[0]} and {targets[1]}",
            remedy="name its shape, dtype and variant with -k, or run the matrix for both",
        )
    best = max(common, key=lambda operation: _size(operation[1]))
    left, right = sides[0][best], sides[1][best]
    kernels, unpaired = _launches(dataset, left, right)
    return Pair(left, right, kernels, unpaired, len(common) - 1)


_Operation = tuple[Direction, tuple[int, ...], str, str]


def _of_target(chosen: Sequence[Row], of_kernel: Sequence[Row], target: str) -> list[Row]:
    """Rows with a build on a target, the strongest evidence first."""
    on_target = [row for row in chosen if row.record.cell.target == target]
    built = [row for row in on_target if row.record.build and row.record.build.candidates]
    if not on_target:
        raise _no_such_row(of_kernel, target)
    if not built:
        cause = on_target[0].record.outcome
        raise ReportError(f"nothing was built: {cause.status} {cause.message}".rstrip(), place=label_of(on_target[0]))
    return sorted(built, key=lambda row: (BLOB not in row.record.blobs, _ORDER.index(row.record.evidence)))


def _no_such_row(of_kernel: Sequence[Row], target: str) -> ReportError:
    """Says whether it is the target's name that no row has, or the words."""
    on_target = [row for row in of_kernel if row.record.cell.target == target]
    if not on_target:
        known = {row.record.cell.target for row in of_kernel}
        return ReportError(f"no such row on a target {target!r}", place="--targets", remedy=nearest(target, known))
    words = set().union(*map(_words, on_target))
    return ReportError(f"no row on {target} has all of these words", place="-k", remedy=nearest("", words))


def _by_operation(rows: Iterable[Row]) -> Mapping[_Operation, Row]:
    found: dict[_Operation, Row] = {}
    for row in rows:
        cell = row.record.cell
        found.setdefault((cell.direction, cell.shape, cell.dtype, cell.variant), row)
    return found


def _size(shape: Sequence[int]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def _words(row: Row) -> set[str]:
    cell = row.record.cell
    return {cell.shape_text, cell.dtype, cell.variant, cell.direction.value, row.record.evidence.value}


def _launches(dataset: Dataset, left: Row, right: Row) -> tuple[tuple[tuple[Side, Side], ...], tuple[str, ...]]:
    """Kernels of one name side by side, the first with the first; then the others in their order."""
    ones, others = _sides(dataset, left), _sides(dataset, right)
    named = [
        found
        for name in dict.fromkeys(side.launch.kernel for side in ones)
        for found in zip(_of_name(ones, name), _of_name(others, name), strict=False)
    ]
    taken = {id(side) for found in named for side in found}
    rest = [[side for side in sides if id(side) not in taken] for sides in (ones, others)]
    alone = [side for sides in rest for side in sides[min(map(len, rest)) :]]
    paired = (*named, *zip(*rest, strict=False))
    return tuple(paired), tuple(f"{side.launch.kernel} runs on {side.target} alone" for side in alone)


def _of_name(sides: Iterable[Side], name: str) -> list[Side]:
    return [side for side in sides if side.launch.kernel == name]


def _sides(dataset: Dataset, row: Row) -> list[Side]:
    """Kernels of a row whose texts were kept, each binary once."""
    texts = texts_of(row.record, dataset.paths)
    launches: dict[str, Launch] = {}
    for launch in row.record.build.candidates if row.record.build else ():
        launches.setdefault(launch.binary_hash, launch)
    return [Side(row, launch, texts[name]) for name, launch in launches.items() if name in texts]


def compare(left: Side, right: Side, stage: str, *, raw: bool = False) -> Compared | None:
    """One stage of a kernel on both targets; None where a text of it was not kept.

    Texts in two languages, as ptx and amdgcn, have no line in common.

    Args:
        left: the kernel on one target.
        right: on the other.
        stage: one of :data:`STAGES`.
        raw: compare lines as they are.
    """
    one, other = _name(left, stage), _name(right, stage)
    if one is None or other is None:
        return None
    ones, others = _lines(left, one, raw=raw), _lines(right, other, raw=raw)
    if one != other:
        return Compared(stage, (one, other), ones, others, (("replace", 0, len(ones), 0, len(others)),))
    matcher = SequenceMatcher(None, [line.key for line in ones], [line.key for line in others])
    return Compared(stage, (one, other), ones, others, tuple(matcher.get_opcodes()))


def _lines(side: Side, name: str, *, raw: bool) -> tuple[Line, ...]:
    return lines(side.texts.stages[name], name, raw=raw)


def _name(side: Side, stage: str) -> str | None:
    stages = side.texts.stages
    if stage != ASSEMBLY:
        return stage if stage in stages else None
    return next((name for name in _MACHINES if name in stages), None)


def lines(text: str, name: str, *, raw: bool = False) -> tuple[Line, ...]:
    """Lines of a text, those that say nothing left out unless it is wanted raw.

    Args:
        text: of a stage.
        name: of the stage: ``source``, ``ttir``, ``ttgir``, ``llir``, ``ptx`` or ``amdgcn``.
        raw: keep all as it is.
    """
    every = [line.rstrip().expandtabs(4) for line in text.rstrip("\n").split("\n")]
    if raw or name == "source":
        return tuple(Line(line, line) for line in every)
    form = _FORMS[name]
    shown = [text for line in _before(every, form.end) if (text := form.shown(line)).strip()]
    return tuple(Line(line, form.key(told)) for line, told in _with_constants(shown))


def without_debug(line: str, name: str) -> str:
    r"""A line of a stage without locations, comments and debug information; empty where it says nothing else.

    >>> without_debug("  %2 = arith.addf %0, %1 : f32 loc(#loc4)", "ttir"), without_debug("\t.loc\t1 23 4", "ptx")
    ('  %2 = arith.addf %0, %1 : f32', '')
    """
    return _FORMS[name].shown(line) if name in _FORMS else line.rstrip()


_CONSTANT: Final = re.compile(r"\s*(%[\w.]+) = arith\.constant (.+)")
_VALUE: Final = re.compile(r"%[A-Za-z][\w.]*")


def _with_constants(shown: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Lines, and the same with the value of each of MLIR's constants in place of its name.

    Where constants follow one another they are put in the order of their values: the compiler
    gathers them in any order, and names them by where they come from.
    """
    values = {match[1]: match[2] for line in shown if (match := _CONSTANT.match(line))}
    for constant, group in itertools.groupby(shown, lambda line: bool(_CONSTANT.match(line))):
        run = list(group)
        for line in sorted(run, key=lambda line: values[line.split()[0]]) if constant else run:
            yield line, _VALUE.sub(lambda match: values.get(match[0], match[0]), line)


def _before(every: Sequence[str], end: re.Pattern[str] | None) -> Sequence[str]:
    """Lines before the first that begins what is of no interest."""
    place = next((number for number, line in enumerate(every) if end and end.match(line)), len(every))
    return every[:place]


@dataclass(frozen=True)
class _Form:
    """How the lines of a stage are shown and compared."""

    shown: Callable[[str], str]  # empty: the line is left out
    key: Callable[[str], str]
    end: re.Pattern[str] | None = None  # line from which on nothing is shown


def _without(*patterns: str) -> Callable[[str], str]:
    """Lines without what these match, wherever it stands."""
    compiled = [re.compile(pattern) for pattern in patterns]

    def shown(line: str) -> str:
        for pattern in compiled:
            line = pattern.sub("", line)
        return line.rstrip()

    return shown


def _blurred(*patterns: str) -> Callable[[str], str]:
    """Lines with a mark behind the first group in place of numbers that say nothing, and blanks as one."""
    compiled = [re.compile(pattern) for pattern in patterns]

    def key(line: str) -> str:
        for pattern in compiled:
            line = pattern.sub(r"\1@", line)
        return " ".join(line.split())

    return key


_MLIR: Final = _Form(
    shown=_without(r"^#loc\d*\b.*", r" loc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"),
    key=_blurred(r"(%[A-Za-z][\w.]*?)(?:_\d+)?(?![\w.])", r"(%)\d+"),
)
_LLVM: Final = _Form(
    shown=_without(r"^(?:; ModuleID|source_filename|!).*", r", !\w[\w.]* !\d+", r" !dbg !\d+", r"\s+; preds = .*"),
    key=_blurred(r"(%[A-Za-z._][\w.]*?)\d*(?![\w.])", r"(%)\d+", r"( #)\d+", r"^([A-Za-z._][\w.]*?)\d*(?=:)"),
)
_PTX: Final = _Form(
    shown=_without(r"^\s*//.*", r"\s+//.*", r"^\s*\.(?:loc|file)\b.*", r"^\$L__(?:tmp|func)\w*:"),
    key=_blurred(r"(%(?:rd|rs|fd|r|f|p|b|h))\d+", r"(\$L__BB)\d+_\d+"),
    end=re.compile(r"\s*\.section\s+\.debug"),
)
_AMDGCN: Final = _Form(
    shown=_without(
        r"^\s*;.*",
        r"\s+;.*",
        r"^\s*\.(?:loc|file|cfi_\w+|ident|p2align|section|type|size|globl|text|set|protected)\b.*",
        r"^\.L(?:tmp|func_\w+)\d*:",
    ),
    key=_blurred(r"\b([vsa])\[\d+:\d+\]", r"\b([vsa])\d+\b", r"(\.LBB)\d+_\d+"),
    end=re.compile(r"\s*\.(?:section\s+\.(?:rodata|debug)|amdgpu_metadata)"),
)
_FORMS: Final[Mapping[str, _Form]] = {"ttir": _MLIR, "ttgir": _MLIR, "llir": _LLVM, "ptx": _PTX, "amdgcn": _AMDGCN}
