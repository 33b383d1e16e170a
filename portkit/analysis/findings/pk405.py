"""More traffic than the work model."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.points import Context
from portkit.analysis.findings.rule import Finding, Rule, Severity
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
            local = f", {fused.local_bytes} B of them spills" if fused.local_bytes else ""
            text = (
                f"On {row.record.cell.target} {moved} B crossed the memory in one call{local}, "
                f"{moved / work.fused_bytes:.2f} "
                "times what the operation must move. A memory-bound kernel takes longer in proportion."
            )
            yield rule.finding(point, [row], [], text)


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
