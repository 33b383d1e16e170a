"""Buffer operations lost over 2 GiB."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names
from portkit.analysis.points import Context, launches, platform
from portkit.model import Launch, Platform
from portkit.store.merge import Row

_LIMIT = 2**31 - 1
"""Bytes that a 32-bit offset reaches."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows = [row for row in point.binaries if any(_lost(row))]
        if rows:
            launch = next(_lost(rows[0]))
            wide = [name for name, kind in launch.specialization.items() if _is_wide(kind)]
            text = (
                f"Pointers of {launch.kernel} ({', '.join(wide)}) reach into {_gib(launch)} GiB of memory on "
                f"{listed(names(rows))}, over the 2 GiB that a buffer operation reaches. Their loads and stores take "
                "64-bit addresses, and masks instead of the bounds that the unit checks."
            )
            yield rule.finding(point, rows, [each for each in point.binaries if each not in rows], text)


def _lost(row: Row) -> Iterator[Launch]:
    """Launches with a pointer that is not known to stay within a 32-bit offset, since its memory is too large."""
    if platform(row) is Platform.ROCM:
        for launch in launches(row):
            wide = any(map(_is_wide, launch.specialization.values()))
            if (launch.largest_bytes or 0) > _LIMIT and wide and (launch.signals or {}).get("global_operations"):
                yield launch


def _is_wide(kind: str) -> bool:
    return kind.startswith("*") and "pointer_range=32" not in kind


def _gib(launch: Launch) -> str:
    return f"{(launch.largest_bytes or 0) / 2**30:.1f}"


RULE = Rule(
    id="PK206",
    title="Buffer operations lost over 2 GiB",
    severity=Severity.WARNING,
    evidence="specialisation, arguments and Triton IR of the launch",
    cause="AMD buffer operations take a 32-bit offset. Triton uses them for a pointer argument only if the "
    "memory behind the tensor is under 2 GiB at the launch that compiles the kernel; a view of a larger "
    "buffer, such as a KV cache, is over it.",
    cost="Loads and stores use 64-bit addresses, bounds are checked with masks and branches, and some "
    "atomics lose their packed form; the kernel is another binary than the one that was tuned on small "
    "tensors.",
    remedy="Pass tensors of their own rather than views of one large buffer, or split the buffer under 2 GiB; "
    "measure at the real size.",
    check=_check,
)
