"""What the templates show without any script: lines of the summary, rows of the tables of hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from portkit import __version__
from portkit.analysis.findings.rule import Severity
from portkit.analysis.rows import Comparison
from portkit.analysis.views.kernels import Carry, KernelSummary
from portkit.analysis.views.targets import targets
from portkit.model import DeviceProbe, Evidence, Platform
from portkit.render.columns import one_line
from portkit.render.merged import drift_lines
from portkit.render.table import GPU_OF

Line = tuple[object, ...]


def version() -> str:
    """The version of portkit."""
    return __version__


def not_measured(comparison: Comparison) -> list[tuple[Platform, str]]:
    """Platforms no GPU of which ran a row, in words."""
    return [(platform, GPU_OF[platform]) for platform in comparison.not_measured]


def not_good(comparison: Comparison, evidence: Evidence) -> int:
    """Rows of an evidence that are bad and not expected so."""
    counts = comparison.counts[evidence]
    bad = sum(count for status, count in counts.items() if not status.good and not status.skipped)
    return bad - comparison.expected.get(evidence, 0)


def why(kernel: KernelSummary) -> str:
    """Why a kernel does not carry over, or on what it was looked at."""
    if kernel.bad or kernel.unsure:
        told = [f"{', '.join(targets)}: {cause}" for cause, targets in kernel.causes.items()]
        told += [f"no verdict on {', '.join(kernel.unsure)}"] if kernel.unsure else []
        return one_line("; ".join(told))
    if kernel.gravest in (None, Severity.INFO):
        seen = ", ".join(f"{len(names)} {evidence}" for evidence, names in kernel.evidence.items())
        return f"targets: {seen}"
    grave = [each.first for each in kernel.findings if each.first.severity is not Severity.INFO]
    titles = dict.fromkeys(f"{each.title} ({', '.join(each.targets)})" for each in grave[:COSTS])
    return one_line("; ".join(titles))


COSTS: Final = 3
"""Findings at most that a line of the summary names."""


def hosts(comparison: Comparison) -> list[dict[str, Any]]:
    """Each host with what its devices were measured to do."""
    return [
        {
            "host": host,
            "probes": [
                probe for probe in comparison.probes if probe.device_id in {device.device_id for device in host.devices}
            ],
        }
        for host in comparison.hosts
    ]


_PROBED: Final[Mapping[str, tuple[str, str]]] = {
    "copy_gbs": ("copy", "GB/s"),
    "read_gbs": ("read", "GB/s"),
    "write_gbs": ("write", "GB/s"),
    "event_overhead_us": ("events add", "µs"),
    "launch_us": ("launch", "µs"),
    "graph_launch_us": ("launch in a graph", "µs"),
}


def ceilings(probe: DeviceProbe) -> Iterator[Line]:
    """Figures of a device: name, value, unit, how it was reached or why it is unknown."""
    for name, (title, unit) in _PROBED.items():
        value = getattr(probe, name)
        yield title, _figure(value), unit, _told(probe, name, value)
    for kind, rate in probe.matmul_tflops.items():
        yield f"matrix products, {kind}", _figure(rate), "TFLOP/s", _told(probe, f"matmul_tflops.{kind}", rate)


def _told(probe: DeviceProbe, name: str, value: float | None) -> str:
    return probe.reached_by.get(name, "") if value is not None else probe.nulls.get(name, "no reason was recorded")


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{value:.4g}"


def run_rows(comparison: Comparison) -> Iterator[Line]:
    """Every run, oldest first."""
    for run in comparison.runs:
        state = comparison.partial.get(run.run_id, "whole")
        yield run.run_id, run.started, run.matrix, run.tier, run.portkit, state


def target_rows(comparison: Comparison) -> Iterator[Line]:
    """Every target."""
    for each in targets(comparison):
        yield each.name, each.title, each.vendor, each.architecture, each.market, ", ".join(each.evidence)


def spread_rows(comparison: Comparison) -> Iterator[Line]:
    """How far devices of one SKU are apart."""
    for each in comparison.spreads:
        of = each.cell.label(Evidence.MEASURED) if each.cell else "device"
        yield each.target, each.figure, of, _figure(each.low), _figure(each.high), f"{100 * each.relative:.1f}"


def drift_rows(comparison: Comparison) -> Iterator[Line]:
    """How builds differ under other versions of Triton."""
    for line in drift_lines(comparison):
        yield (line,)


SIGNS: Final[Mapping[Carry, str]] = {
    Carry.NOWHERE: "✕",
    Carry.NO: "✕",
    Carry.INTERPRETER: "✕",
    Carry.UNSURE: "?",
    Carry.AT_A_COST: "△",
    Carry.BUILT: "○",
    Carry.ALONE: "–",
    Carry.YES: "✓",
}
"""What tells without colour whether a kernel carries over."""

FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "not_measured": not_measured,
    "not_good": not_good,
    "why": why,
    "ceilings": ceilings,
    "run_rows": run_rows,
    "target_rows": target_rows,
    "spread_rows": spread_rows,
    "drift_rows": drift_rows,
}
"""What templates may call."""
