"""Rows for tests of rules: each says of a target what the rule looks at, the rest is ordinary."""

from __future__ import annotations

import dataclasses
from typing import Any

import factories

from portkit.analysis.findings import Finding, findings, rule
from portkit.model import (
    Clock,
    Counted,
    Counters,
    Evidence,
    FamilyVerdict,
    Occupancy,
    Outcome,
    Ratio,
    Resources,
    Stage,
    Status,
    Timed,
)
from portkit.store.merge import Dataset, Row

WARP = {"mi300x": 64}
NONE: dict[str, int] = {}


def launch(target: str, signals: dict[str, int] | None, **changes: Any) -> Any:
    """A launch with signals, None where they were not read; resources and occupancy by their own names."""
    warp, warps = WARP.get(target, 32), changes.pop("warps", 4)
    registers, spill, shared = changes.pop("registers", 32), changes.pop("spill", 0), changes.pop("shared", 64)
    percent, limiter = changes.pop("percent", 100.0), changes.pop("limiter", "waves")
    given = factories.launch(
        resources=Resources(registers, spill, shared, warps * warp, warp, {}),
        occupancy=Occupancy(percent, 8, 64, limiter, {}),
        num_warps=warps,
        signals=signals,
        compile_seconds=None,
    )
    return dataclasses.replace(given, **changes)


def built(target: str, signals: dict[str, int] | None = NONE, *, variant: str = "w8", **changes: Any) -> Row:
    """A compiled row that built, with one launch."""
    status = Status.OUT_OF_RESOURCES if changes.get("limits_broken") else Status.BUILT
    return Row(
        factories.record(
            target=target,
            variant=variant,
            outcome=Outcome(status),
            build=factories.build(launch(target, signals, **changes)),
        ),
        (),
        False,
    )


def failed(target: str, status: Status, message: str, stage: Stage = Stage.COMPILE) -> Row:
    """A compiled row without a binary."""
    return Row(factories.record(target=target, outcome=Outcome(status, stage, message), build=None), (), False)


def judged(target: str, evidence: Evidence = Evidence.MEASURED, **changes: Any) -> Row:
    """A row that ran; ``families`` and other fields of the verdict by name."""
    status, message = changes.pop("status", Status.PASSED), changes.pop("message", "")
    error, signals = changes.pop("error", 1e-7), changes.pop("signals", NONE)
    given: dict[str, Any] = {name: changes.pop(name) for name in ("timing", "build", "partition") if name in changes}
    given.setdefault("build", factories.build(launch(target, signals)))
    if "families" in changes:
        changes.setdefault("families_shape", (4, 64))
    verdict = dataclasses.replace(factories.verdict(error), **changes)
    outcome = Outcome(status, message=message)
    return Row(factories.record(evidence, target=target, outcome=outcome, verdict=verdict, **given), (), False)


def family(status: Status = Status.PASSED, agree: bool | None = True) -> FamilyVerdict:
    """What an input family showed."""
    return FamilyVerdict(status, 0.1, 1.0, agree)


def timed(target: str, fused_ms: float = 0.5, eager_ms: float = 1.0, *, spread: float = 0.01, **changes: Any) -> Row:
    """A measured row; ``spread`` is half the width of each interval, ÷ its middle. Other fields: of the timing."""
    cell = {name: changes.pop(name) for name in ("shape", "variant", "dtype") if name in changes}
    work, counted = changes.pop("work", factories.WORK), changes.pop("counted", None)
    trace, eager_trace = changes.pop("trace", None), changes.pop("eager_trace", None)
    fused = Timed(clock(fused_ms, spread), trace=clock(trace, spread) if trace else None)
    eager = Timed(clock(eager_ms, spread), trace=clock(eager_trace, spread) if eager_trace else None)
    timing = dataclasses.replace(
        factories.timing(),
        fused=fused,
        baselines={"eager": eager},
        speedup={"eager": ratio(eager_ms / fused_ms, spread)},
        speedup_kernel={"eager": ratio(eager_trace / trace, spread)} if trace and eager_trace else {},
    )
    timing = dataclasses.replace(timing, **changes)
    record = factories.record(Evidence.MEASURED, target=target, timing=timing, work=work, **cell)
    counters = (
        Counters(record.run_id, record.keys.cell_key, Evidence.MEASURED, "ncu 2026", counted) if counted else None
    )
    return Row(record, (), False, counters)


def clock(ms: float, spread: float = 0.01, samples: int = 100) -> Clock:
    """Samples around a median."""
    return Clock(ms, ms * (1 - spread), ms * (1 + spread), samples)


def ratio(value: float, spread: float) -> Ratio:
    """A ratio with its interval."""
    return Ratio(value, value * (1 - spread), value * (1 + spread))


def counted(**changes: Any) -> Counted:
    """What counters say of one function."""
    given = Counted(1, 0.5, 60, 40, 0, "k", 90.0, 88.0, 100.0, "waves", 32, 64, 4.0)
    return dataclasses.replace(given, **changes)


def found(name: str, *rows: Row, **context: Any) -> list[Finding]:
    """What one rule finds in these rows; ``probes``, ``spreads`` and ``apart`` beside them."""
    dataset = Dataset((factories.header(),), rows, (), {}, probes=context.pop("probes", ()))
    given = {"apart": (), "spreads": (), **context}
    return list(findings(dataset, only=[rule(name)], **given))


def places(name: str, *rows: Row, **context: Any) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Targets of each finding, and those it was held against."""
    return [(each.targets, each.against) for each in found(name, *rows, **context)]
