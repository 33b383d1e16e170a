"""Less than the bytes it saves."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity
from portkit.analysis.points import Context
from portkit.analysis.roofline import COMPUTE, dram_bytes, probe_of, roofline
from portkit.store.merge import Row

_SHARE = 0.6
"""Share of the fusion bound below which it counts as missed."""
_LAUNCH = 0.8  # gain of whole calls ÷ gain of their kernels, from which down launches tax it
_OCCUPANCY = 50.0  # per cent
_TRAFFIC = 1.25  # bytes counted ÷ bytes of the work model


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        for row in point.measured:
            shares = _shares(row)
            if shares and min(shares) < _SHARE and not _computes(row, context):
                kernels, calls = shares
                causes = list(_causes(row, kernels, calls))
                told = causes or ["none of launches, occupancy and traffic that was measured explains it"]
                text = (
                    f"On {row.record.cell.target} fusing gains {100 * kernels:.0f} % of what the saved bytes allow on "
                    f"kernel time, and {100 * calls:.0f} % of it from call to call: {'; '.join(told)}. The rest could "
                    "be had with the same algorithm."
                )
                others = [each for each in point.measured if min(_shares(each) or (0.0,)) >= _SHARE]
                yield rule.finding(point, [row], others, text)


def _shares(row: Row) -> tuple[float, float] | None:
    """Speedups on kernel time and on whole calls ÷ bound of fusion; None where one is unknown or no bytes are saved."""
    timing, work = row.record.timing, row.record.work
    kernels = timing.speedup_kernel.get("eager") if timing else None
    calls = timing.speedup.get("eager") if timing else None
    if kernels is None or calls is None or work is None or work.fusion_bound <= 1:
        return None
    return kernels.value / work.fusion_bound, calls.value / work.fusion_bound


def _computes(row: Row, context: Context) -> bool:
    """Whether arithmetic bounds the operation there, so that bytes are not what it could gain."""
    record = row.record
    return roofline(record, probe_of(record, context.dataset.probes), context.target(row)).bound == COMPUTE


def _causes(row: Row, kernels: float, calls: float) -> Iterator[str]:
    timing = row.record.timing
    if timing and timing.fused.trace and timing.fused.trace.median_ms and calls < _LAUNCH * kernels:
        ratio = timing.fused.events.median_ms / timing.fused.trace.median_ms
        yield f"a call takes {ratio:.1f} times as long as its kernels, so launches take of what they gain"
    if kernels >= _SHARE:
        return
    fused = row.counters.functions.get("fused") if row.counters else None
    if fused and fused.occupancy_achieved_pct is not None and fused.occupancy_achieved_pct < _OCCUPANCY:
        yield f"achieved occupancy is {fused.occupancy_achieved_pct:.0f} %"
    moved = dram_bytes(fused) if fused else None
    if moved is not None and row.record.work and moved > _TRAFFIC * row.record.work.fused_bytes:
        yield f"{moved / row.record.work.fused_bytes:.2f} times the bytes of the work model cross the memory"


RULE = Rule(
    id="PK403",
    title="Less than the bytes it saves",
    severity=Severity.INFO,
    evidence="kernel times, counters and work model of measured rows",
    cause="A memory-bound chain can gain from fusing what it saves in bytes, and the kernel gains less. The "
    "launch takes a fixed time, too few waves hide the latency of memory, or more bytes cross than the "
    "work model says.",
    cost="The rest of the gain is there to be had without another algorithm.",
    remedy="Small launches: CUDA or HIP graphs, or one kernel for several. Low occupancy: PK107 and PK404. "
    "Traffic: PK405.",
    check=_check,
)
