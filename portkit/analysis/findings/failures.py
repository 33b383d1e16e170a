"""Why a build failed, as far as status and message tell: each failure is the matter of one rule alone."""

from __future__ import annotations

import re

from portkit.analysis.points import Point, platform, total
from portkit.model import Stage, Status
from portkit.store.merge import Row

_OPTION = re.compile(
    r"Keyword argument (\w+) was specified but unrecognised|(input_precision) must be one of [^.]*\. Got (\w+)"
)
_FP8 = re.compile(
    r"\btype (fp8\w+) not supported|\b(fp8e\w+|float8_\w+)\b[^.]*\bnot supported|Conversion from/to (f8\w+|fp8\w+)"
)
_ASSEMBLY = re.compile(r"register for constraint|<inline asm>|inline assembly|inline asm\b")
_ASSEMBLER = re.compile(r"invalid instruction|failed to link|ptxas|assembler|unknown emulation|target emulation")
_LIBRARY = re.compile(r"\b(__(?:nv|ocml|ockl)_\w+)|the binary calls (\S+)|Unresolved extern function '(\w+)'")

_FAILED = (Status.COMPILER_CRASH, Status.COMPILE_ERROR)
_NOT_BUILT = (*_FAILED, Status.UNSUPPORTED, Status.MISCOMPILED)


def status_and_message(row: Row, characters: int = 160) -> str:
    """How a row failed: its status, and of its message so many characters."""
    return f"{row.record.outcome.status.value} ({message(row, characters)})"


def message(row: Row, characters: int = 160) -> str:
    """So many characters of a failed row's message, to go on in a sentence."""
    return row.record.outcome.message[:characters].rstrip(". ")


def refused_option(row: Row) -> str:
    """The launch option, or the value of one, that the target refuses; empty where that is not why it failed."""
    match = _OPTION.search(row.record.outcome.message) if _is(row, Status.UNSUPPORTED, Status.COMPILE_ERROR) else None
    if match is None:
        return ""
    return match[1] or f"{match[2]}={match[3]}"


def refused_fp8(row: Row) -> str:
    """The fp8 format that the target refuses; empty where that is not why it failed."""
    match = _FP8.search(row.record.outcome.message) if _is(row, Status.UNSUPPORTED, Status.COMPILE_ERROR) else None
    return next((name for name in match.groups() if name), "") if match else ""


def blames_library(row: Row) -> tuple[str, ...]:
    """Device functions that the build failed for."""
    if not _is(row, *_NOT_BUILT):
        return ()
    found = _LIBRARY.findall(row.record.outcome.message)
    return tuple(dict.fromkeys(name.rstrip(",") for names in found for name in names if name))


def loses_assembly(row: Row) -> bool:
    """Whether inline assembly of the source is not in the machine's text."""
    return _is(row, Status.MISCOMPILED) and "inline assembly" in row.record.outcome.message


def blames_assembly(row: Row, point: Point) -> bool:
    """Whether the build failed for its inline assembly.

    The message says so; or the assembler failed, at a kernel that has inline assembly where it
    was built for the other vendor, or whose message for another target says so.
    """
    if not _is(row, *_FAILED, Status.UNSUPPORTED):
        return False
    if _ASSEMBLY.search(row.record.outcome.message):
        return True
    assembler = _is(row, *_FAILED) and bool(_ASSEMBLER.search(row.record.outcome.message))
    return assembler and any(_has_assembly(each) for each in point.attempts if platform(each) is not platform(row))


def refuses(row: Row, point: Point) -> bool:
    """Whether the target refuses something of the source that no other rule names."""
    named = refused_option(row) or refused_fp8(row) or blames_library(row) or blames_assembly(row, point)
    return _is(row, Status.UNSUPPORTED) and not named


def compiler_fails(row: Row, point: Point) -> bool:
    """Whether the compiler failed at its own work, which is not that of another rule."""
    named = refused_option(row) or refused_fp8(row) or blames_library(row) or blames_assembly(row, point)
    return _is(row, *_FAILED) and not named


def _has_assembly(row: Row) -> bool:
    failed = _is(row, *_NOT_BUILT) and bool(_ASSEMBLY.search(row.record.outcome.message))
    return failed or total(row, "inline_asm") > 0


def _is(row: Row, *statuses: Status) -> bool:
    """Whether a build ended so; what the instruction interpreter does not know is no failure of a build."""
    outcome = row.record.outcome
    return outcome.status in statuses and outcome.stage is not Stage.RUN
