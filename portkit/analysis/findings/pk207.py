"""32-bit offsets that can overflow."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity
from portkit.analysis.points import Context, launches
from portkit.model import Launch

_MOST = 2**31 - 1
"""Largest 32-bit offset."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows = [row for row in point.binaries if any(map(_overflows, launches(row)))]
        if rows:
            launch = next(each for each in launches(rows[0]) if _overflows(each))
            offsets = (launch.signals or {})["offsets32"]
            text = (
                f"{launch.kernel} moves {offsets} pointers by products of 32 bits, and its largest tensor here spans "
                f"{launch.largest_elements:,} elements, over the {_MOST:,} that they reach. Past it the product "
                "wraps, and the access lands elsewhere."
            )
            yield rule.finding(point, rows, [row for row in point.binaries if row not in rows], text)


def _overflows(launch: Launch) -> bool:
    return bool((launch.signals or {}).get("offsets32")) and (launch.largest_elements or 0) > _MOST


RULE = Rule(
    id="PK207",
    title="32-bit offsets that can overflow",
    severity=Severity.ERROR,
    evidence="Triton IR and arguments of the launch",
    cause="An offset is computed as a 32-bit product, such as row × stride, and the tensor spans more "
    "elements than 31 bits count. Integers of kernels are 32 bits wide unless an argument is larger or "
    "the source converts.",
    cost="The product wraps and the access lands elsewhere: wrong values, or a fault. At smaller shapes nothing shows.",
    remedy="Convert before multiplying: tl.program_id(0).to(tl.int64) * stride, or pass strides of tensors "
    "over 2^31 elements as 64-bit integers.",
    check=_check,
)
