"""A device function of one vendor."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.failures import blames_library
from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names
from portkit.analysis.points import Context


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows = [row for row in point.attempts if blames_library(row)]
        if rows:
            others = [row for row in point.attempts if row not in rows and row.record.outcome.status.good]
            called = listed(dict.fromkeys(name for row in rows for name in blames_library(row)))
            builds = f" It builds on {listed(names(others))}." if others else ""
            text = (
                f"The kernel calls {called}, which {listed(names(rows))} can't be built with: it is a function of "
                f"another vendor's device library, or of none.{builds}"
            )
            yield rule.finding(point, rows, others, text)


RULE = Rule(
    id="PK212",
    title="A device function of one vendor",
    severity=Severity.ERROR,
    evidence="message of the build, or functions that the binary does not define",
    cause="The kernel calls a function of one vendor's device library, __nv_… of NVIDIA or __ocml_… of AMD, "
    "directly or through a name that only one backend maps.",
    cost="The build is refused, or the binary calls what nothing defines and can not be loaded.",
    remedy="Call tl.math or triton.language.extra.libdevice, which map to either library, or write the function out.",
    check=_check,
)
