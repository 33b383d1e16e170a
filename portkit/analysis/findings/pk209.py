"""A request that the target ignores."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names
from portkit.analysis.points import Context, signals
from portkit.store.merge import Row

_REQUESTS = {
    "ask.warp_specialize": ("warp specialisation", "warp_specialized"),
    "ask.eviction": ("an eviction policy", "eviction"),
}
"""What the source asks for → its name, and the signal that it was followed."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        for asked, (what, followed) in _REQUESTS.items():
            rows = [row for row in point.binaries if point.shows(asked) and _ignores(row, asked, followed)]
            if rows:
                others = [row for row in point.binaries if row not in rows and _asks(row, asked)]
                told = f"; it is followed on {listed(names(others))}" if others else ""
                text = (
                    f"The source asks for {what}, and the code for {listed(names(rows))} has none{told}. "
                    "There the kernel runs as if nothing had been asked for."
                )
                yield rule.finding(point, rows, others, text)


def _asks(row: Row, asked: str) -> bool:
    return any(each.get(asked) for each in signals(row))


def _ignores(row: Row, asked: str, followed: str) -> bool:
    return any(each.get(asked) and not each.get(followed) for each in signals(row))


RULE = Rule(
    id="PK209",
    title="A request that the target ignores",
    severity=Severity.WARNING,
    evidence="Triton IR and machine text of the binary",
    cause="The source asks for something that is a hint: warp specialisation of a loop, or an eviction policy "
    "of a load. A backend that does not know it, or an architecture without it, goes on without a word.",
    cost="The kernel is right, and runs as if nothing had been asked for: a tuning that rests on the hint "
    "does not carry over.",
    remedy="Keep a variant that is tuned without the hint for those targets, and let the autotuner choose.",
    check=_check,
)
