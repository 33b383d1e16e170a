"""An option that the target refuses."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.failures import refused_option
from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.analysis.points import Context


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows = [row for row in point.attempts if refused_option(row)]
        if rows:
            others = [row for row in point.attempts if row not in rows and row.record.outcome.status.good]
            takes = f" {listed(names(others))} {'takes' if len(names(others)) == 1 else 'take'} it." if others else ""
            text = (
                f"The launch is refused: {each(rows, refused_option)}.{takes} "
                "The operation does not run there until the option is left out or has another value."
            )
            yield rule.finding(point, rows, others, text)


RULE = Rule(
    id="PK213",
    title="An option that the target refuses",
    severity=Severity.ERROR,
    evidence="message of the build",
    cause="Each backend has options of its own: waves_per_eu, kpack, matrix_instr_nonkdim and schedule_hint "
    "are AMD's, maxnreg and launch_pdl NVIDIA's, and values of input_precision differ from one "
    "architecture to the next. A launch with an unknown one raises.",
    cost="The operation does not run on those targets.",
    remedy="Choose options by the target in the host code, or keep them in configurations of which an "
    "autotuner gets only those for its target.",
    check=_check,
)
