"""The comparison of targets: one row per cell and evidence, every figure worked out.

Rendering only formats what stands here. A figure that is ``None`` has its reason in the
row's ``nulls``, under the figure's name; :mod:`portkit.analysis.row_figures` has both.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from portkit.analysis.autotune import Tuning as Tuned
from portkit.analysis.autotune import tuned
from portkit.analysis.distance import Distance, distances
from portkit.analysis.drift import Drift, drifts
from portkit.analysis.findings import Finding, findings
from portkit.analysis.functions import FunctionRow, function_rows
from portkit.analysis.points import points_of
from portkit.analysis.portability import Portability, portabilities
from portkit.analysis.portability import Ratio as TargetRatio
from portkit.analysis.portability import ratios as ratios_to
from portkit.analysis.roofline import Roofline, probe_of, roofline
from portkit.analysis.row_figures import figures_of, known_occupancy, tuning_ranges, why_null
from portkit.analysis.spread import Repeats, Spread, ceiling_spread, cell_spread, repeats
from portkit.model import (
    NONFINITE_FAMILIES,
    Cell,
    DeviceProbe,
    Direction,
    Evidence,
    Header,
    Host,
    Platform,
    Record,
    Status,
    Target,
    Timing,
    Verdict,
)
from portkit.store.merge import Dataset, Row
from portkit.targets.catalog import Catalog, load_catalog

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
    catalog = load_catalog()
    rows = _table_rows(dataset, catalog)
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
        rows=rows,
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


def _table_rows(dataset: Dataset, catalog: Catalog) -> tuple[ComparisonRow, ...]:
    """Every row with its figures, in the table's order."""
    order = _target_order(dataset)
    known = {target.name: target for target in catalog}
    ran = _emulated_binaries(dataset.rows)
    made = (
        comparison_row(row, dataset.probes, known.get(row.record.cell.target), ran.get(_binaries(row.record), ()))
        for row in dataset.rows
    )
    return tuple(sorted(made, key=lambda row: _position(row, order)))


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
    figures = figures_of(row)
    occupancy = known_occupancy(record.build)
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
        ranges=tuning_ranges(record.build),
        occupancy_kind="theoretical",
        occupancy_limiter=occupancy.limiter if occupancy else None,
        nonfinite=_nonfinite(record.verdict),
        nulls={name: why_null(name, row) for name, value in figures.items() if value is None},
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


def _nonfinite(verdict: Verdict | None) -> dict[str, bool]:
    lines = verdict.families if verdict else {}
    agree = {name: lines[name].nonfinite_agree for name in NONFINITE_FAMILIES if name in lines}
    return {name: found for name, found in agree.items() if found is not None}


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
