"""Another implementation is faster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from portkit.analysis.findings.rule import Finding, Rule, Severity, each
from portkit.analysis.points import Context, fastest
from portkit.model import Ratio
from portkit.store.merge import Row

_LESS = 0.95
"""Share of the fused function's time, upper end of its interval, below which another is faster."""

_UNFUSED = "eager"
"""The baseline of :mod:`PK402 <portkit.analysis.findings.pk402>`."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point, rows in fastest(context.points):
        slower = [row for row in rows if _faster(row)]
        if slower:
            text = (
                "Share of the fastest variant's time that the fastest baseline with right results takes: "
                f"{each(slower, _told)} (95 % intervals). What it does otherwise could be had here too."
            )
            yield rule.finding(point, slower, [row for row in point.measured if not _faster(row)], text)


def _told(row: Row) -> str:
    name, ratio = next(iter(_faster(row).items()))
    return f"{name} {ratio.value:.2f} ({_ends(ratio)}, {_clock(row)})"


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
    return "trace" if row.record.timing and row.record.timing.speedup_kernel else "events"


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
