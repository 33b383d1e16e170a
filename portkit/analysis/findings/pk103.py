"""Shared memory over the limit of some targets."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names
from portkit.analysis.points import Context, broken


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        over = [row for row in point.attempts if broken(row, "shared memory")]
        if over:
            others = [row for row in point.attempts if row not in over and row.record.build]
            told = listed(dict.fromkeys(f"{row.record.cell.target} ({broken(row, 'shared memory')})" for row in over))
            fits = f"; it fits {listed(names(others))}" if others else ""
            text = (
                f"A block asks for more shared memory than the target gives a block: {told}{fits}. "
                "The launch fails there, at run time and not when it is compiled."
            )
            yield rule.finding(point, over, others, text)


RULE = Rule(
    id="PK103",
    title="Shared memory over the limit of some targets",
    severity=Severity.ERROR,
    evidence="the binary, against the limits of the target",
    cause="A block asks for more shared memory (LDS on AMD) than the target gives one: from 64 KiB on most "
    "AMD GPUs and 99 KiB on consumer NVIDIA ones to 227 KiB on data-centre ones. Triton multiplies the "
    "tiles by the number of stages and does not check it when it compiles.",
    cost="The launch fails, so the operation does not run on that target with this configuration.",
    remedy="Give those targets fewer stages or smaller tiles: an autotuner drops what does not fit, a fixed "
    "configuration must be chosen by the target.",
    check=_check,
)
