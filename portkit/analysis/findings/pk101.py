"""Spills on some targets and not on others."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.analysis.points import Context
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        spilling, others = point.parted(lambda row: _spills(row) > 0, lambda row: _spills(row) == 0)
        if spilling:
            text = (
                f"A thread spills {each(spilling, lambda row: f'{_spills(row)} B')}, with "
                f"{each(spilling, lambda row: f'{_registers(row)} registers')}, and nothing on "
                f"{listed(names(others))}. "
                "Each spilled byte is stored to the thread's private memory and loaded again where it is used."
            )
            yield rule.finding(point, spilling, others, text)


def _spills(row: Row) -> int:
    return (row.record.build.spill_bytes_per_thread or 0) if row.record.build else 0


def _registers(row: Row) -> int | None:
    return row.record.build.registers_per_thread if row.record.build else None


RULE = Rule(
    id="PK101",
    title="Spills on some targets and not on others",
    severity=Severity.WARNING,
    evidence="registers and spilled bytes of the binary",
    cause="A thread has fewer registers there than the kernel needs at once: architectures differ in how many "
    "a thread may have, in how many matrix operands take, and in what the compiler keeps alive over a "
    "loop.",
    cost="What does not fit is stored to and loaded from memory that is private to the thread, which is "
    "device memory behind the caches; in an inner loop that is traffic on every turn.",
    remedy="Use smaller tiles or more warps on those targets, fewer stages, or values that are computed again "
    "instead of kept; on AMD try waves_per_eu=1 or 2, on NVIDIA no maxnreg below what the kernel needs.",
    check=_check,
)
