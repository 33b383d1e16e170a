"""A register count that hides spills."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed
from portkit.analysis.points import Context, launches
from portkit.store.merge import Row

_LEAST_BYTES = 256
"""Spilled bytes a thread from which on a small register count misleads."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        found = {row.record.cell.target: pair for row in point.binaries if (pair := _hiding(row, context))}
        rows = [row for row in point.binaries if row.record.cell.target in found]
        if rows:
            told = (f"{spills} B with {registers} on {target}" for target, (registers, spills) in found.items())
            text = (
                f"A thread spills much and takes few registers: {listed(told)}, of those it may have less than half. "
                "The count alone says that the kernel is small, and every spilled value costs a memory access at "
                "each use."
            )
            yield rule.finding(point, rows, [each for each in point.binaries if each not in rows], text)


def _hiding(row: Row, context: Context) -> tuple[int, int] | None:
    """Registers and spilled bytes of a thread, where few registers go with many spills."""
    architecture = context.architecture(row)
    if architecture is None:
        return None
    most = architecture.max_registers_per_thread
    found = [(x.resources.registers_per_thread, x.resources.spill_bytes_per_thread) for x in launches(row)]
    return next((pair for pair in found if pair[1] >= _LEAST_BYTES and 2 * pair[0] <= most), None)


RULE = Rule(
    id="PK102",
    title="A register count that hides spills",
    severity=Severity.WARNING,
    evidence="registers and spilled bytes of the binary",
    cause="The register allocator gave up early: the count it reports is far below the limit of a thread, and "
    "most of what the kernel keeps lies in the stack frame instead. Seen with one PTX that ptxas makes "
    "into 32 registers on one architecture and 255 on the next.",
    cost="By the register count alone occupancy looks fine, while every use of a spilled value is a memory access.",
    remedy="Judge such a kernel by its spilled bytes, not by its registers; smaller tiles or more warps bring "
    "both down. Where another architecture of the vendor takes the same code without it, report it to "
    "the vendor.",
    check=_check,
)
