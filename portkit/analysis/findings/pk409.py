"""Another implementation is faster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from portkit.analysis.findings.points import Context
from portkit.analysis.findings.rule import Finding, Rule, Severity, listed
from portkit.model import Ratio
from portkit.store.merge import Row

_LESS = 0.95
"""Share of the fused function's time, upper end of its interval, below which another is faster."""

_UNFUSED = "eager"
"""The baseline of :mod:`PK402 <portkit.analysis.findings.pk402>`."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        for row in point.measured:
            if faster := _faster(row):
                told = listed(f"{name} takes {ratio.value:.2f} ({_ends(ratio)})" for name, ratio in faster.items())
                text = (
                    f"On {row.record.cell.target} {told} of the fused function's time on {_clock(row)}, with 95 % "
                    "intervals, and gives right results. What it does otherwise could be had here too."
                )
                others = [each for each in point.measured if each is not row and not _faster(each)]
                yield rule.finding(point, [row], others, text)


def _faster(row: Row) -> dict[str, Ratio]:
    """Fused or compiled baselines that are faster beyond their intervals, the fastest first."""
    sound = {
        name: ratio
        for name, ratio in _ratios(row).items()
        if name != _UNFUSED and ratio.high is not None and ratio.high < _LESS and _right(row, name)
    }
    return dict(sorted(sound.items(), key=lambda each: each[1].value))


def _ratios(row: Row) -> Mapping[str, Ratio]:
    """Time of each baseline ÷ that of the fused function."""
    timing = row.record.timing
    return (timing.speedup_kernel or timing.speedup) if timing else {}


def _clock(row: Row) -> str:
    return "the trace" if row.record.timing and row.record.timing.speedup_kernel else "events"


def _right(row: Row, name: str) -> bool:
    judged = row.record.baselines.get(name)
    return judged is None or judged.status.good


def _ends(ratio: Ratio) -> str:
    return f"{ratio.low:.2f} to {ratio.high:.2f}"


RULE = Rule(
    id="PK409",
    title="Another implementation is faster",
    severity=Severity.WARNING,
    evidence="times of measured rows, with their intervals, and verdicts of baselines",
    cause="A library's kernel, or what torch.compile makes, does the same operation in less time: it reads its input "
    "once where this one reads it twice, has another tile, or is written for that architecture.",
    cost="The fused kernel costs time on that target against what is there already.",
    remedy="Take the other implementation there, or read how many passes, which tile and how many warps it has, and do "
    "likewise.",
    check=_check,
)
