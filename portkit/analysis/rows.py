"""The comparison of targets: one row per cell and evidence, every figure worked out.

Rendering only formats what stands here. A figure that is ``None`` has its reason in the
row's ``nulls``, under the figure's name.
"""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from portkit.analysis.autotune import Tuning as Tuned
from portkit.analysis.autotune import tuned
from portkit.analysis.distance import Distance, distances
from portkit.analysis.drift import Drift, drifts
from portkit.analysis.findings import Finding, findings
from portkit.analysis.findings.points import points_of
from portkit.analysis.functions import FUSED, NO_COUNTERS, FunctionRow, function_rows
from portkit.analysis.portability import Portability, portabilities
from portkit.analysis.portability import Ratio as TargetRatio
from portkit.analysis.portability import ratios as ratios_to
from portkit.analysis.roofline import Roofline, probe_of, roofline
from portkit.analysis.spread import Repeats, Spread, ceiling_spread, cell_spread, repeats
from portkit.model import (
    NONFINITE_FAMILIES,
    Build,
    Cell,
    Counters,
    DeviceProbe,
    Direction,
    Evidence,
    Header,
    Host,
    Occupancy,
    Platform,
    Record,
    Status,
    Target,
    Timing,
    Verdict,
    Work,
)
from portkit.store.merge import Dataset, Row
from portkit.targets.catalog import load_catalog

Figures = dict[str, float | None]

NOT_RUN: Final = "compiled only: it was not run"
NO_TIME: Final = "only a GPU has a time"
NO_BINARY: Final = "interpreted: there is no binary"
CLUSTERS: Final = "clusters of blocks (num_ctas > 1) are not modelled"
NO_EAGER: Final = "no eager baseline was timed"
NO_REASON: Final = "no reason was recorded"

BY_EVIDENCE: Final = frozenset({NOT_RUN, NO_TIME, NO_BINARY})
"""Reasons that an evidence's mark alone tells."""

PLATFORM_PREFIXES: Final[Mapping[str, Platform]] = {"sm_": Platform.CUDA, "gfx": Platform.ROCM}
"""How the architectures of a platform begin."""


@dataclass(frozen=True)
class ComparisonRow:
    """A row of the comparison; names and units are those of the record."""

    kernel: str
    direction: Direction
    shape: tuple[int, ...]
    dtype: str
    variant: str
    target: str
    partition: str | None
    platform: Platform | None  # None for the interpreter
    architecture: str | None
    evidence: Evidence
    older_source: bool  # another evidence of the cell has a newer source
    status: Status
    expected: bool  # the matrix expects this status
    cause: str | None  # why it is not good, or why the gap is expected
    launches: int | None  # kernels of one call; figures of the build are the worst of them
    configurations: int | None  # that an autotuner chooses among where nobody knows which it takes
    configurations_usable: int | None  # of them, those that built within the target's limits
    ranges: Mapping[str, tuple[float, float]]  # figure → lowest and highest over these
    registers_per_thread: float | None
    spill_bytes_per_thread: float | None
    shared_bytes_per_block: float | None
    occupancy_pct: float | None
    occupancy_kind: str  # theoretical
    occupancy_limiter: str | None
    occupancy_achieved_pct: float | None  # of the longest kernel, of the cycles in which a unit had work
    occupancy_achieved_elapsed_pct: float | None  # the same of all cycles: like for like between vendors
    median_ms: float | None  # on device events, end to end
    low_ms: float | None
    high_ms: float | None
    trace_ms: float | None  # kernels alone, by the device trace
    speedup: float | None  # eager median ÷ fused median on events
    speedup_low: float | None
    speedup_high: float | None
    speedup_kernel: float | None  # the same on the trace
    fusion_bound: float | None  # bytes of the unfused chain ÷ bytes of the fused kernel
    share_of_bound: float | None  # speedup_kernel ÷ fusion bound
    error: float | None  # of the output nearest to its limit
    error_limit: float | None
    error_over_limit: float | None  # at most 1 where the cell is right
    nonfinite: Mapping[str, bool]  # family nan or inf → whether the output has them where the reference has
    nulls: Mapping[str, str]  # figure → why it is None
    triton: str | None
    run_id: str
    host_id: str
    other_runs: tuple[str, ...]  # run ids of records that this one stands before
    device_id: str | None = None
    throttled: tuple[str, ...] = ()  # reasons that slowed the device down while it was timed
    settled: bool | None = None  # whether the intervals were narrow enough before the time limit
    functions: tuple[FunctionRow, ...] = ()  # the fused one and its baselines, where it was timed
    roofline: Roofline | None = None  # how far it is from the limits of its device
    emulated: tuple[str, ...] = ()  # of a compiled row: shape and status of emulated rows of the very same binaries
    repeats: Repeats | None = None  # its time over all runs that repeat the one shown, on every node
    apart: Mapping[str, int] = field(default_factory=dict)  # why other runs of it are no repetitions → how many
    incomparable: tuple[str, ...] = ()  # why its time is not to be compared with that of ordinary rows
    cell_key: str = ""  # names the cell in every run
    no_verdict: bool = False  # our side or the host is to blame: nothing was learned of the kernel
    seconds: float = 0.0  # that the cell took

    @property
    def label(self) -> str:
        """The row's name within its matrix."""
        cell = Cell(self.kernel, self.direction, self.shape, self.dtype, self.variant, self.target, self.partition)
        return cell.label(self.evidence)

    @property
    def as_wanted(self) -> bool:
        """Whether it is good, and the matrix expects nothing else."""
        return self.status.good and self.cause is None

    @property
    def shape_text(self) -> str:
        """The shape as ids write it: ``4096x4096``."""
        return "x".join(map(str, self.shape))


@dataclass(frozen=True)
class Comparison:
    """All that the comparison table shows."""

    runs: tuple[Header, ...]
    partial: Mapping[str, str]  # run id → why
    hosts: tuple[Host, ...]
    counts: Mapping[Evidence, Mapping[Status, int]]
    expected: Mapping[Evidence, int]  # rows whose bad status the matrix expects
    warnings: tuple[str, ...]
    not_measured: tuple[Platform, ...]  # platforms of which no row was run on a GPU
    rows: tuple[ComparisonRow, ...]
    distances: tuple[Distance, ...] = ()  # of outputs on the same inputs, from fingerprints
    probes: tuple[DeviceProbe, ...] = ()  # what devices were measured to do
    spreads: tuple[Spread, ...] = ()  # how far devices of one SKU are apart
    triton: str | None = None  # version of all compiled and emulated rows
    drift: tuple[Drift, ...] = ()  # how their figures are under other versions
    findings: tuple[Finding, ...] = ()  # the gravest first
    portability: tuple[Portability, ...] = ()  # of every variant that was measured
    tuning: tuple[Tuned, ...] = ()  # of operations with times of several variants on several targets
    reference: str | None = None  # target that ``ratios`` are taken to
    ratios: tuple[TargetRatio, ...] = ()
    expected_targets: tuple[str, ...] = ()  # targets that must have rows, as they were asked for
    missing: tuple[str, ...] = ()  # those of them that have none

    @property
    def older_source(self) -> bool:
        """Whether any row stands beside one of a newer source."""
        return any(row.older_source for row in self.rows)


def comparison(dataset: Dataset, reference: str | None = None, *, explain: bool = True) -> Comparison:
    """Kernels × targets with every figure, in the table's order.

    Args:
        dataset: merged reports.
        reference: target to take ratios to; none are taken unless it is given.
        explain: whether to look for findings.

    Raises:
        ReportError: nothing was measured on the reference.
    """
    order = _target_order(dataset)
    catalog = load_catalog()
    known = {target.name: target for target in catalog}
    ran = _emulated_binaries(dataset.rows)
    made = (
        comparison_row(row, dataset.probes, known.get(row.record.cell.target), ran.get(_binaries(row.record), ()))
        for row in dataset.rows
    )
    rows = sorted(made, key=lambda row: _position(row, order))
    points, apart, spreads = points_of(dataset.rows), distances(dataset), cell_spread(dataset)
    measured = {row.platform for row in rows if row.evidence is Evidence.MEASURED}
    return Comparison(
        runs=dataset.headers,
        partial=dataset.partial,
        hosts=tuple(_distinct(header.host for header in dataset.headers)),
        counts=counts_of(rows),
        expected=expected_of(rows),
        warnings=dataset.warnings,
        not_measured=tuple(platform for platform in Platform if platform not in measured),
        rows=tuple(rows),
        distances=apart,
        probes=dataset.probes,
        spreads=(*ceiling_spread(dataset.probes), *spreads),
        findings=findings(dataset, catalog=catalog, apart=apart, spreads=spreads) if explain else (),
        portability=portabilities(points, catalog),
        tuning=tuned(points),
        reference=reference,
        ratios=ratios_to(points, reference) if reference else (),
        triton=dataset.triton,
        drift=drifts(dataset),
    )


def counts_of(rows: Iterable[ComparisonRow]) -> Mapping[Evidence, Mapping[Status, int]]:
    """How many rows have which status, evidence by evidence; only what there is."""
    found = collections.Counter((row.evidence, row.status) for row in rows)
    by_evidence = {
        each: {status: n for (evidence, status), n in found.items() if evidence is each} for each in Evidence
    }
    return {evidence: counts for evidence, counts in by_evidence.items() if counts}


def expected_of(rows: Iterable[ComparisonRow]) -> Mapping[Evidence, int]:
    """How many rows are as the matrix expects, by evidence."""
    return dict(collections.Counter(row.evidence for row in rows if row.expected))


def _binaries(record: Record) -> tuple[str | None, str]:
    return record.keys.build_key, record.cell.target


def _emulated_binaries(rows: Iterable[Row]) -> Mapping[tuple[str | None, str], list[str]]:
    """Binaries → shape and status of the emulated rows that ran them, all of them."""
    found: dict[tuple[str | None, str], list[str]] = collections.defaultdict(list)
    for record in sorted((row.record for row in rows), key=lambda record: record.cell.shape):
        if record.evidence is Evidence.EMULATED and record.build and not record.build.tuning:
            shape = "x".join(map(str, record.cell.shape))
            found[_binaries(record)].append(f"{shape} {record.outcome.status}")
    return found


def comparison_row(
    row: Row,
    probes: Iterable[DeviceProbe] = (),
    target: Target | None = None,
    emulated: Iterable[str] = (),
) -> ComparisonRow:
    """One row's figures, and for each that is None the reason.

    Args:
        row: the merged row.
        probes: what devices were measured to do.
        target: the row's SKU where the catalogue has it; its datasheet is the other ceiling.
        emulated: shape and status of the emulated rows of the same binaries.
    """
    record = row.record
    figures = {
        **_build_figures(record.build),
        **_time_figures(record.timing, record.work),
        **_achieved_figures(row.counters),
        **_error_figures(record.verdict),
    }
    occupancy = _occupancy(record.build)
    tuning = record.build.tuning if record.build else None
    return ComparisonRow(
        kernel=record.cell.case,
        direction=record.cell.direction,
        shape=record.cell.shape,
        dtype=record.cell.dtype,
        variant=record.cell.variant,
        target=record.cell.target,
        partition=record.cell.partition,
        platform=platform_of(record.architecture),
        architecture=record.architecture,
        evidence=record.evidence,
        older_source=row.older_source,
        status=record.outcome.status,
        expected=record.expected is record.outcome.status,
        cause=_cause(record),
        launches=record.build.launch_count if record.build else None,
        configurations=tuning.configurations if tuning else None,
        configurations_usable=tuning.usable if tuning else None,
        ranges=_ranges(record.build),
        occupancy_kind="theoretical",
        occupancy_limiter=occupancy.limiter if occupancy else None,
        nonfinite=_nonfinite(record.verdict),
        nulls={name: _why_null(name, row) for name, value in figures.items() if value is None},
        triton=record.triton,
        run_id=record.run_id,
        host_id=record.host_id,
        other_runs=tuple(other.run_id for other in row.other_runs),
        device_id=record.device_id,
        throttled=record.timing.throttled if record.timing else (),
        settled=record.timing.settled if record.timing else None,
        functions=function_rows(row),
        roofline=roofline(record, probe_of(record, probes), target, row.counters),
        emulated=tuple(emulated) if record.evidence is Evidence.COMPILED else (),
        repeats=repeats(row),
        apart=row.apart,
        incomparable=_incomparable(record.timing),
        cell_key=record.keys.cell_key,
        no_verdict=record.outcome.no_verdict,
        seconds=record.seconds,
        **figures,
    )


POWER_CAP: Final = "throttled while it was timed (SwPowerCap)"
"""Reason of a row that only the limit of power slowed down: products at full rate always meet it."""


def _incomparable(timing: Timing | None) -> tuple[str, ...]:
    throttled = timing.throttled if timing else ()
    warm = timing is not None and timing.flush_bytes == 0
    return (
        *([f"throttled while it was timed ({', '.join(throttled)})"] if throttled else []),
        *(["its caches were not flushed"] if warm else []),
    )


def platform_of(architecture: str | None) -> Platform | None:
    """Platform of an architecture by its name; None for the interpreter."""
    prefixes = PLATFORM_PREFIXES.items()
    return next((platform for prefix, platform in prefixes if (architecture or "").startswith(prefix)), None)


def _ranges(build: Build | None) -> Mapping[str, tuple[float, float]]:
    ranges = build.tuning.ranges if build and build.tuning else {}
    return {name: ends for name, ends in ranges.items() if name != "occupancy_pct" or not _clusters(build)}


def _occupancy(build: Build | None) -> Occupancy | None:
    """The worst occupancy, unless a launch makes clusters, which the rules of occupancy do not know."""
    return None if build is None or _clusters(build) else build.worst_occupancy


def _clusters(build: Build | None) -> bool:
    return build is not None and any((x.options.get("num_ctas") or 1) > 1 for x in build.candidates)


def _build_figures(build: Build | None) -> Figures:
    occupancy = _occupancy(build)
    return {
        "registers_per_thread": build.registers_per_thread if build else None,
        "spill_bytes_per_thread": build.spill_bytes_per_thread if build else None,
        "shared_bytes_per_block": build.shared_bytes_per_block if build else None,
        "occupancy_pct": occupancy.percent if occupancy else None,
    }


def _time_figures(timing: Timing | None, work: Work | None) -> Figures:
    eager = timing.speedup.get("eager") if timing else None
    kernel = timing.speedup_kernel.get("eager") if timing else None
    bound = work.fusion_bound if work else None
    return {
        **_fused_times(timing),
        "speedup": eager.value if eager else None,
        "speedup_low": eager.low if eager else None,
        "speedup_high": eager.high if eager else None,
        "speedup_kernel": kernel.value if kernel else None,
        "fusion_bound": bound,
        "share_of_bound": kernel.value / bound if kernel and bound else None,
    }


def _fused_times(timing: Timing | None) -> Figures:
    events = timing.fused.events if timing else None
    trace = timing.fused.trace if timing else None
    return {
        "median_ms": events.median_ms if events else None,
        "low_ms": events.low_ms if events else None,
        "high_ms": events.high_ms if events else None,
        "trace_ms": trace.median_ms if trace else None,
    }


def _achieved_figures(counters: Counters | None) -> Figures:
    fused = counters.functions.get(FUSED) if counters else None
    return {name: getattr(fused, name) if fused else None for name in _ACHIEVED}


_ACHIEVED: Final = ("occupancy_achieved_pct", "occupancy_achieved_elapsed_pct")


def _error_figures(verdict: Verdict | None) -> Figures:
    """Error of the output nearest to its limit; None where one output's is unknown."""
    outputs = [(x.fused_error, x.limit) for x in verdict.outputs] if verdict else []
    known = [(_ratio(error, limit), error, limit) for error, limit in outputs if error is not None]
    ratio, error, limit = max(known) if known and len(known) == len(outputs) else (None, None, None)
    if ratio is None or not math.isfinite(ratio):
        return {"error": None, "error_limit": limit, "error_over_limit": None}
    return {"error": error, "error_limit": limit, "error_over_limit": ratio}


def _nonfinite(verdict: Verdict | None) -> dict[str, bool]:
    lines = verdict.families if verdict else {}
    agree = {name: lines[name].nonfinite_agree for name in NONFINITE_FAMILIES if name in lines}
    return {name: found for name, found in agree.items() if found is not None}


def _ratio(error: float, limit: float) -> float:
    """Error in units of its limit; a NaN counts as the worst there is."""
    if math.isnan(error):
        return math.inf
    return error / limit if limit else (math.inf if error else 0.0)


_FIGURE_PARTS: Mapping[str, tuple[str, frozenset[Evidence], str]] = {
    # figure → part of the record, evidences that have it, why the others have not
    **dict.fromkeys(
        ("registers_per_thread", "spill_bytes_per_thread", "shared_bytes_per_block", "occupancy_pct"),
        ("build", frozenset(Evidence) - {Evidence.INTERPRETED}, NO_BINARY),
    ),
    **dict.fromkeys(
        (
            *("median_ms", "low_ms", "high_ms", "trace_ms", "share_of_bound"),
            *("speedup", "speedup_low", "speedup_high", "speedup_kernel"),
        ),
        ("timing", frozenset({Evidence.MEASURED}), NO_TIME),
    ),
    **dict.fromkeys(_ACHIEVED, ("counters", frozenset({Evidence.MEASURED}), NO_TIME)),
    "fusion_bound": ("work", frozenset(Evidence), ""),
    **dict.fromkeys(
        ("error", "error_limit", "error_over_limit"),
        ("verdict", frozenset(Evidence) - {Evidence.COMPILED}, NOT_RUN),
    ),
}


def _why_null(figure: str, row: Row) -> str:
    record = row.record
    if figure == "occupancy_pct" and _clusters(record.build):
        return CLUSTERS
    part, evidences, otherwise = _FIGURE_PARTS[figure]
    if record.evidence not in evidences:
        return otherwise
    if given := _given_reason(figure, part, row):
        return given
    if part == "verdict" and record.verdict:
        return _why_no_error(record.verdict)
    if record.outcome.status.good:
        return _why_derived_null(figure, row)
    return record.outcome.message or record.outcome.status.value


def _given_reason(figure: str, part: str, row: Row) -> str | None:
    nulls = row.record.nulls
    if part == "counters" and row.counters:
        told = row.counters.nulls
        return told.get(f"{FUSED}.{figure}") or told.get(FUSED) or told.get("functions")
    return nulls.get(figure) or nulls.get(part) or nulls.get("nulls")


def _why_derived_null(figure: str, row: Row) -> str:
    record = row.record
    if figure == "share_of_bound" and record.work is None:
        return record.nulls.get("work", NO_REASON)
    if record.timing and (function := _FUNCTION_OF.get(figure)):
        name, its_figure = function
        return next((x.nulls.get(its_figure, NO_REASON) for x in function_rows(row) if x.name == name), NO_EAGER)
    return NO_COUNTERS if figure in _ACHIEVED else NO_REASON


_FUNCTION_OF: Final[Mapping[str, tuple[str, str]]] = {
    "trace_ms": (FUSED, "trace"),
    **dict.fromkeys(("speedup", "speedup_low", "speedup_high"), ("eager", "speedup")),
    **dict.fromkeys(("speedup_kernel", "share_of_bound"), ("eager", "speedup_kernel")),
}
"""Figure of a row → the function and its figure whose reason holds for it too."""


def _why_no_error(verdict: Verdict) -> str:
    if not all(output.nonfinite_agree for output in verdict.outputs):
        return "NaN or infinity where the reference has none, or the reverse"
    return "the error is not finite"


def _cause(record: Record) -> str | None:
    """Why a row is not good or not what the matrix expects, in the matrix's words where it has any."""
    status, expected = record.outcome.status, record.expected
    told = None if status.good else record.outcome.message or status.value
    if expected is None or status.skipped:
        return told
    reason = record.expected_reason or expected.value
    if expected is status:
        return f"expected: {reason}. Found: {told}"
    return f"{told or 'the gap has closed'}; the matrix expects {expected}: {reason}"


_EVIDENCES = list(Evidence)


def _position(row: ComparisonRow, targets: Mapping[str, int]) -> tuple[object, ...]:
    return (
        row.kernel,
        row.direction is Direction.BACKWARD,
        row.shape,
        row.dtype,
        _natural(row.variant),
        targets[row.target],
        row.partition or "",
        _EVIDENCES.index(row.evidence),
    )


def _natural(text: str) -> list[tuple[str, int]]:
    """Sort key that puts w8 before w16."""
    return [(word, int(number or 0)) for word, number in re.findall(r"(\D*)(\d*)", text)]


def _target_order(dataset: Dataset) -> dict[str, int]:
    """Targets as the newest plan has them, those of a platform together."""
    platforms: dict[str, Platform | None] = {}
    for row in sorted(dataset.rows, key=lambda row: row.record.cell.target):
        platforms.setdefault(row.record.cell.target, platform_of(row.record.architecture))
    planned = [target for header in reversed(dataset.headers) for target in header.targets]
    targets = [target for target in dict.fromkeys([*planned, *platforms]) if target in platforms]
    groups = list(dict.fromkeys(platforms[target] for target in targets if platforms[target]))

    def by_group(target: str) -> int:
        return (*groups, None).index(platforms[target])

    return {target: place for place, target in enumerate(sorted(targets, key=by_group))}


def _distinct(hosts: Iterable[Host]) -> list[Host]:
    seen: list[Host] = []
    for host in hosts:
        if host not in seen:
            seen.append(host)
    return seen
