"""Shared memory near the limit of some targets."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, each
from portkit.analysis.points import Context
from portkit.store.merge import Row

_NEAR = 0.9
"""Share of the limit from which on a request counts as near it."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        near, others = point.parted(
            lambda row: _NEAR < _share(row, context) <= 1, lambda row: _share(row, context) <= _NEAR
        )
        if near:
            shares = each(near, lambda row: f"{100 * _share(row, context):.0f} %")
            text = (
                f"A block takes {shares} of the shared memory that it may have, "
                f"against {each(others, lambda row: f'{100 * _share(row, context):.0f} %')}. "
                "One more stage does not fit there."
            )
            yield rule.finding(point, near, others, text)


def _share(row: Row, context: Context) -> float:
    architecture, build = context.architecture(row), row.record.build
    if architecture is None or build is None:
        return 0.0
    return (build.shared_bytes_per_block or 0) / architecture.shared_bytes_per_block_max


RULE = Rule(
    id="PK104",
    title="Shared memory near the limit of some targets",
    severity=Severity.INFO,
    evidence="the binary, against the limits of the target",
    cause="The request fits with little to spare. A larger dtype, one more stage, or a newer compiler that "
    "pads a layout takes it over.",
    cost="Few blocks fit a unit there, and a small change makes the launch fail on that target alone.",
    remedy="Leave some room where the configuration is fixed, or let an autotuner choose among smaller ones too.",
    check=_check,
)
