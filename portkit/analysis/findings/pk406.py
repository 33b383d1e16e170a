"""Another variant wins."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.autotune import Tuning, tuned
from portkit.analysis.findings.rule import Finding, Rule, Severity, listed
from portkit.analysis.points import Context, by_operation

_PENALTY = 1.05
"""Time of the other target's winner ÷ time of the own, from which on they differ."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for group in by_operation(context.points).values():
        for tuning in tuned(group):
            worst = max(tuning.transfers, key=lambda each: each.penalty or 0, default=None)
            if worst is None or worst.penalty is None or worst.penalty < _PENALTY:
                continue
            rows = {row.record.cell.target: (point, row) for point in group for row in point.measured}
            point, row = rows[worst.on]
            text = (
                f"The fastest variant is {listed(_winners(tuning))}. "
                f"That of {worst.of} takes {worst.penalty:.2f} times as long on {worst.on} as its own winner."
            )
            yield rule.finding(point, [row], [rows[worst.of][1]], text, of_variant=False)


def _winners(tuning: Tuning) -> Iterator[str]:
    for variant in dict.fromkeys(tuning.winners.values()):
        yield f"{variant} on {listed(target for target, its in tuning.winners.items() if its == variant)}"


RULE = Rule(
    id="PK406",
    title="Another variant wins",
    severity=Severity.INFO,
    evidence="times of all variants of measured rows",
    cause="The best tile, number of warps and stages depend on registers, shared memory, warp size and "
    "bandwidth, so the winner of one target is not that of another.",
    cost="A configuration that is fixed for all costs the transfer penalty on the others.",
    remedy="Tune by the target, or take the variant that loses least over all of them: portkit merge names it.",
    check=_check,
)
