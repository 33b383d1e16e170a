"""An fp8 format that the target does not have."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.failures import refused_fp8
from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.analysis.points import Context


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows = [row for row in point.attempts if refused_fp8(row)]
        if rows:
            others = [row for row in point.attempts if row not in rows and row.record.outcome.status.good]
            builds = f" It builds on {listed(names(others))}." if others else ""
            text = (
                f"The target has no such format: {each(rows, refused_fp8)}. The operation does not run there, and the "
                f"same bits mean other numbers in the format that it has.{builds}"
            )
            yield rule.finding(point, rows, others, text)


RULE = Rule(
    id="PK306",
    title="An fp8 format that the target does not have",
    severity=Severity.ERROR,
    evidence="message of the build",
    cause="There are several 8-bit formats of one name in people's heads: OCP e4m3fn and e5m2, the fnuz "
    "formats of CDNA3 with another bias and no negative zero, and e4b15 of NVIDIA's emulation. Triton "
    "refuses those that an architecture has not, even for a load.",
    cost="The operation does not run on those targets; bits of one format read as another are off by a factor of two.",
    remedy="Choose the dtype by the target: float8_e4m3fn from sm_89 on, on gfx950 and gfx12; float8_e4m3fnuz "
    "on gfx942; convert the scales with it.",
    check=_check,
)
