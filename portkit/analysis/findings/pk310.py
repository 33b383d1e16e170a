"""fp8 of another format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names
from portkit.analysis.points import Context, some_launch
from portkit.store.merge import Row

_WITHOUT_INFINITY: Final = ("fp8.e4m3fnuz", "fp8.e5m2fnuz")
_OCP: Final = ("fp8.e4m3fn", "fp8.e5m2")


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows, others = point.parted(_is_fnuz, _is_ocp, needs=_WITHOUT_INFINITY)
        if rows:
            text = (
                f"fp8 is fnuz (e4m3 up to 240) on {listed(names(rows))}, and OCP's (e4m3 up to 448) on "
                f"{listed(names(others))}. The same byte is another number there, by a factor of two."
            )
            yield rule.finding(point, rows, others, text)


def _is_fnuz(row: Row) -> bool:
    return some_launch(row, lambda each: _has(each, _WITHOUT_INFINITY))


def _is_ocp(row: Row) -> bool:
    return some_launch(row, lambda each: _has(each, _OCP)) and not _is_fnuz(row)


def _has(signals: Mapping[str, int], wanted: tuple[str, ...]) -> bool:
    return any(signals.get(name) for name in wanted)


RULE = Rule(
    id="PK310",
    title="fp8 of another format",
    severity=Severity.WARNING,
    evidence="Triton's IR of the source",
    cause="gfx942 computes with the fnuz formats (no Inf, no negative zero, one exponent more at the small end), all "
    "others with OCP's, so the source takes another format there.",
    cost="Stored codes, scales made for 448 and checkpoints do not carry over; e4m3 ends at 240 on gfx942.",
    remedy="Convert weights and scales for gfx942 (codes as they are mean half the value), and derive scales from the "
    "format's own largest number.",
    check=_check,
)
