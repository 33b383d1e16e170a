"""A product and a sum round once or twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names
from portkit.analysis.points import Context, Point, some_launch
from portkit.store.merge import Row

_TYPES = ("f32", "f16", "bf16")


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        found = [_parted(point, kind) for kind in _TYPES]
        rows = [row for row in point.binaries if any(row in apart for apart, _ in found)]
        others = [row for row in point.binaries if row not in rows and any(row in fused for _, fused in found)]
        if rows:
            text = (
                f"Products that a sum takes are rounded before it on {listed(names(rows))}, and fused with it on "
                f"{listed(names(others))}. Results differ by a rounding of the product, which is much where the sum "
                "cancels."
            )
            yield rule.finding(point, rows, others, text)


def _parted(point: Point, kind: str) -> tuple[list[Row], list[Row]]:
    return point.parted(
        lambda row: some_launch(row, lambda each: _is_apart(each, kind)),
        lambda row: some_launch(row, lambda each: _is_fused(each, kind)),
        needs=(f"mul_add.{kind}",),
    )


def _is_apart(each: Mapping[str, int], kind: str) -> bool:
    if not each.get(f"mul_add.{kind}"):
        return False
    return bool(each.get("mul_add_apart")) if kind == "f32" else not each.get(f"fma.{kind}")


def _is_fused(each: Mapping[str, int], kind: str) -> bool:
    return bool(each.get(f"mul_add.{kind}") and each.get(f"fma.{kind}")) and not _is_apart(each, kind)


RULE = Rule(
    id="PK304",
    title="A product and a sum round once or twice",
    severity=Severity.INFO,
    evidence="Triton IR and machine text of the binary",
    cause="a·b + c is one fused multiply-add with one rounding, or a product and a sum with two. Backends "
    "contract by rules of their own: packed float32 arithmetic on CDNA is left apart, and AMD has no "
    "fused multiply-add of bfloat16.",
    cost="Results differ by half a unit in the last place of the product, which is much where the sum "
    "cancels, as in rotations and variances.",
    remedy="Write tl.fma where one rounding is wanted, or enable_fp_fusion=False where two are; keep float32 "
    "for what cancels.",
    check=_check,
)
