"""fp8 or mx emulated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names
from portkit.analysis.points import Context, count, signals
from portkit.store.merge import Row


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows, others = point.parted(_emulated, _native, needs=("dot.f8", "dot.scaled", "fp8_from", "fp8_to"))
        if rows:
            yield rule.finding(point, rows, others, _text(rows, others))


def _text(rows: list[Row], others: list[Row]) -> str:
    what = listed(dict.fromkeys(text for row in rows for each in signals(row) for text in _missing(each)))
    return (
        f"{what[:1].upper() + what[1:]} on {listed(names(rows))}; {listed(names(others))} "
        f"{'uses' if len(names(others)) == 1 else 'use'} instructions for it. Operands take the room and the rate "
        "of the wider type, and conversions are made of several integer operations an element."
    )


def _missing(each: Mapping[str, int]) -> Iterator[str]:
    """What one launch does without instructions of its own."""
    if count(each, "dot.f8", "dot.scaled") and not count(each, "matrix.f8", "matrix.scaled"):
        yield "products of fp8 are emulated"
    elif count(each, "dot.scaled") and not count(each, "matrix.scaled"):
        yield "block scales are applied apart from the products"
    if count(each, "fp8_from", "fp8_to") and not count(each, "fp8_convert"):
        yield "conversions of fp8 are emulated"


def _emulated(row: Row) -> bool:
    return any(next(_missing(each), None) for each in signals(row))


def _native(row: Row) -> bool:
    uses = any(count(each, "dot.f8", "dot.scaled", "fp8_from", "fp8_to") for each in signals(row))
    return uses and not _emulated(row)


RULE = Rule(
    id="PK202",
    title="fp8 or mx emulated",
    severity=Severity.WARNING,
    evidence="Triton IR and machine text of the binary",
    cause="The target has no instruction for this fp8 or block-scaled format, or the backend does not use the one it "
    "has, as Triton 3.7 for conversions on RDNA4: products are made on float16 matrix units after a conversion, and "
    "conversions are made of integer operations.",
    cost="Twice the bytes of shared memory and registers for the operands, half the rate of fp8 matrix units "
    "at best, and tens of instructions per converted element.",
    remedy="Use the format that the target has (OCP e4m3fn and e5m2 on NVIDIA, CDNA4 and RDNA4; the fnuz "
    "formats on CDNA3), or bfloat16 where it has none; where it has one that is not used, try a newer Triton.",
    check=_check,
)
