"""More traffic than the work model."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity
from portkit.analysis.points import Context
from portkit.analysis.roofline import dram_bytes

_OVER = 1.25
"""Bytes counted ÷ bytes of the work model from which on the difference is told."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        for row in point.measured:
            fused = row.counters.functions.get("fused") if row.counters else None
            moved, work = (dram_bytes(fused) if fused else None), row.record.work
            if fused is None or moved is None or work is None or moved <= _OVER * work.fused_bytes:
                continue
            local = f", {_amount(fused.local_bytes)} of them spills" if fused.local_bytes else ""
            text = (
                f"On {row.record.cell.target} {_amount(moved)} crossed the memory in one call{local}, "
                f"{moved / work.fused_bytes:.2f} times the {_amount(work.fused_bytes)} that the operation must move: "
                f"{_amount(fused.dram_read_bytes or 0)} read, {_amount(fused.dram_write_bytes or 0)} written. "
                "A memory-bound kernel takes longer in proportion."
            )
            yield rule.finding(point, [row], [], text)


def _amount(count: int) -> str:
    units = {"GB": 10**9, "MB": 10**6, "kB": 10**3}
    return next((f"{count / size:.4g} {unit}" for unit, size in units.items() if count >= size), f"{count} B")


RULE = Rule(
    id="PK405",
    title="More traffic than the work model",
    severity=Severity.INFO,
    evidence="DRAM bytes counted on measured rows, and the work model",
    cause="More bytes crossed the memory than the operation must move: values are read again because no cache "
    "holds them, spills go through it, sectors are used in part, or an output is written in pieces.",
    cost="A memory-bound kernel takes longer in proportion.",
    remedy="Read and write whole rows with neighbouring threads, keep a row in registers instead of reading it "
    "twice, and look at PK101. If the model is wrong, correct it.",
    check=_check,
)
