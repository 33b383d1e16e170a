"""Application efficiency, performance portability and ratios to a reference target.

Definitions (S. J. Pennycook, J. D. Sewall, V. W. Lee: "A metric for performance portability",
PMBS 2016, arXiv:1611.07409; "Implications of a metric for performance portability", Future
Generation Computer Systems 92, 2019):

- application efficiency of an application on a platform = best known time for the same problem
  there ÷ its time.
- performance portability over a set of platforms = their number ÷ Σ 1 ÷ efficiency, which is the
  harmonic mean, and 0 where one of them does not run it.

Here an application is the fused function in one variant, a problem is an operation (case,
direction, shape, dtype), a platform is a target. The best known time is the least of all
variants and baselines that were right, on the same clock, over all merged runs of that target. A
target counts as not running it where a row proves so: the build is refused or over a limit, or the
result is wrong. One that was only compiled, or could not be tried for reasons of the host, has no
efficiency and is in no set. Each figure names its set, for it means nothing without.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from portkit.analysis.points import Point, by_operation
from portkit.errors import ReportError, nearest
from portkit.model import Direction, Evidence, Record, Status, Timed, Timing
from portkit.store.alike import why_targets_apart, why_times_apart
from portkit.store.merge import Row
from portkit.targets.catalog import Catalog
from portkit.targets.markets import Market, market

UNSUPPORTED = frozenset(
    {
        *(Status.UNSUPPORTED, Status.OUT_OF_RESOURCES, Status.COMPILE_ERROR, Status.COMPILER_CRASH),
        *(Status.MISCOMPILED, Status.LAUNCH_ERROR, Status.DEVICE_FAULT, Status.WRONG_RESULT),
        *(Status.OUT_OF_BOUNDS, Status.DATA_RACE, Status.NONDETERMINISTIC),
    }
)
"""Statuses that prove that a target does not run the operation in this variant."""

_OF_THE_EMULATOR = frozenset({Status.UNSUPPORTED, Status.LAUNCH_ERROR})
"""Of an emulated row they say what the instruction interpreter can't do, and nothing of the target."""


@dataclass(frozen=True)
class Efficiency:
    """One variant on one target."""

    target: str
    efficiency: float | None  # 0 to 1; 0: proven not to run; None: not known
    time_ms: float | None  # of the fused function, on the clock of its operation
    best_ms: float | None  # least of what is known for the operation there
    best: str | None  # whose it is: a variant, or a baseline by name
    reason: str | None = None  # why the efficiency is 0 or unknown


@dataclass(frozen=True)
class Share:
    """Performance portability of one variant over one set of targets."""

    over: str  # all, nvidia, amd, data centre, workstation, consumer
    targets: tuple[str, ...]
    portability: float  # 0 to 1
    cascade: tuple[tuple[str, float], ...]  # targets by falling efficiency, each with the PP of those up to it
    left_out: Mapping[str, str] = field(default_factory=dict)  # target of that set → why it has no efficiency


@dataclass(frozen=True)
class Portability:
    """One variant of one operation over targets."""

    kernel: str
    direction: Direction
    shape: tuple[int, ...]
    dtype: str
    variant: str
    clock: str  # trace or events
    efficiencies: tuple[Efficiency, ...]
    shares: tuple[Share, ...]  # one a set that has a target with an efficiency


@dataclass(frozen=True)
class Ratio:
    """One variant on a target against the reference target."""

    kernel: str
    direction: Direction
    shape: tuple[int, ...]
    dtype: str
    variant: str
    target: str
    reference: str
    clock: str
    speed: float | None  # reference time ÷ time: above 1 is faster than the reference
    speedup: float | None  # speedup over eager ÷ that on the reference: above 1 gains more by fusing
    reason: str | None = None  # why a figure is None


def harmonic_mean(efficiencies: Sequence[float]) -> float:
    """Performance portability of efficiencies: their harmonic mean, 0 where one is 0.

    Raises:
        ValueError: there is none, or one is not within 0 and 1.

    >>> harmonic_mean([1.0, 0.5])
    0.6666666666666666
    >>> harmonic_mean([1.0, 0.0])
    0.0
    """
    if not efficiencies:
        raise ValueError("performance portability of no platforms is not defined")
    if any(not 0 <= each <= 1 for each in efficiencies):
        raise ValueError(f"an efficiency is not within 0 and 1: {efficiencies}")
    if 0 in efficiencies:
        return 0.0
    return len(efficiencies) / sum(1 / each for each in efficiencies)


def cascade(efficiencies: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Targets by falling efficiency, each with the PP of those up to and with it."""
    order = sorted(efficiencies, key=lambda target: (-efficiencies[target], target))
    return tuple((target, harmonic_mean([efficiencies[x] for x in order[: i + 1]])) for i, target in enumerate(order))


def portabilities(points: Iterable[Point], catalog: Catalog) -> tuple[Portability, ...]:
    """Efficiency and portability of every variant that any target measured."""
    return tuple(each for group in by_operation(points).values() for each in _of_operation(group, catalog))


def sets_of(targets: Iterable[str], catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Name of a set → its targets: all, one vendor's, one market's; a set equal to all is left out but for it."""
    names = tuple(sorted(targets))
    found: dict[str, list[str]] = collections.defaultdict(list)
    for name in names:
        for kind in _kinds(name, catalog):
            found[kind].append(name)
    order = ("nvidia", "amd", *Market)
    return {"all": names} | {
        kind: tuple(found[kind]) for kind in order if kind in found and tuple(found[kind]) != names
    }


def ratios(points: Iterable[Point], reference: str) -> tuple[Ratio, ...]:
    """Every measured row against that of the reference target.

    Raises:
        ReportError: no row was measured on it; the remedy has the targets that were.
    """
    points = tuple(points)
    measured = {row.record.cell.target for point in points for row in _timed(point)}
    if reference not in measured:
        raise ReportError(
            f"no row was measured on the reference target {reference!r}", remedy=nearest(reference, measured)
        )
    return tuple(each for point in points for each in _ratios(point, reference))


def _of_operation(points: Sequence[Point], catalog: Catalog) -> Iterator[Portability]:
    measured = [row for point in points for row in _timed(point)]
    if not measured:
        return
    clock = "trace" if all(_clock(row.record, "trace") for row in measured) else "events"
    candidates = _candidates(points, clock)
    for point in points:
        found = tuple(_efficiency(row, clock, candidates) for row in _one_a_target(point))
        shares = tuple(_shares(found, catalog))
        if shares:
            yield Portability(
                point.case, point.direction, point.shape, point.dtype, point.variant, clock, found, shares
            )


Candidates = Mapping[str, Sequence[tuple[float, str, Timing]]]
"""Target → times of all variants and baselines of all runs, whose each is and what it was taken with; least first."""


def _candidates(points: Iterable[Point], clock: str) -> Candidates:
    found: dict[str, list[tuple[float, str, Timing]]] = collections.defaultdict(list)
    for point in points:
        for row in _timed(point):
            for record in row.records:
                found[record.cell.target] += _times(record, clock)
    return {target: sorted(each, key=lambda x: x[:2]) for target, each in found.items()}


def _best_known(record: Record, candidates: Candidates) -> tuple[float, str] | None:
    """Least time on the record's target under its own cache mode and clock state, and whose it is."""
    own = record.timing
    if own is None:
        return None
    known = candidates.get(record.cell.target, ())
    return next(((time, name) for time, name, timing in known if why_times_apart(own, timing) is None), None)


def _times(record: Record, clock: str) -> Iterator[tuple[float, str, Timing]]:
    """Time of what was timed and right, and its name."""
    if record.timing is None or not record.outcome.status.good or record.cell.partition:
        return
    for name, timed in {record.cell.variant: record.timing.fused, **record.timing.baselines}.items():
        judged = record.baselines.get(name)
        time = _median(timed, clock)
        if time and (judged is None or judged.status.good):
            yield time, name, record.timing


def _efficiency(row: Row, clock: str, candidates: Candidates) -> Efficiency:
    record, target = row.record, row.record.cell.target
    if _proves(record):
        return Efficiency(target, 0.0, None, None, None, record.outcome.message or record.outcome.status.value)
    time = _clock(record, clock) if record.outcome.status.good else None
    best = _best_known(record, candidates)
    if time is None or best is None:
        return Efficiency(target, None, None, None, None, _why_unknown(record, clock))
    least, whose = best
    return Efficiency(target, least / time, time, least, whose)


def _why_unknown(record: Record, clock: str) -> str:
    if not record.outcome.status.good:
        return record.outcome.message or record.outcome.status.value
    return record.nulls.get(f"timing.{clock}") or record.nulls.get("timing") or "it was not timed"


def _shares(efficiencies: Sequence[Efficiency], catalog: Catalog) -> Iterator[Share]:
    """Portability over each set of targets whose efficiency is known, if any of them has a time."""
    known = {each.target: each.efficiency for each in efficiencies if each.efficiency is not None}
    if all(each.time_ms is None for each in efficiencies):
        return
    unknown = {each.target: each.reason or "" for each in efficiencies if each.efficiency is None}
    for name, targets in sets_of(known, catalog).items():
        steps = cascade({target: known[target] for target in targets})
        left_out = {x: why for x, why in unknown.items() if name == "all" or name in _kinds(x, catalog)}
        yield Share(name, targets, steps[-1][1], steps, left_out)


def _one_a_target(point: Point) -> list[Row]:
    """A target's measured row; else one that proves that it does not run there; else any."""
    best: dict[str, Row] = {}
    for row in sorted((*point.measured, *point.attempts, *point.ran_or_died), key=_weight):
        if row.record.cell.partition is None:
            best.setdefault(row.record.cell.target, row)
    return [best[target] for target in sorted(best)]


def _weight(row: Row) -> int:
    return 0 if row.record.timing else 1 if _proves(row.record) else 2


def _proves(record: Record) -> bool:
    """Whether the row proves that its target does not run the operation."""
    status = record.outcome.status
    return status in UNSUPPORTED and not (record.evidence is Evidence.EMULATED and status in _OF_THE_EMULATOR)


def _kinds(name: str, catalog: Catalog) -> Iterator[str]:
    if name not in catalog:  # asked before: the error of an unknown name looks for near ones, which takes long
        return
    target = catalog.get(name)
    yield target.vendor
    if found := market(target):
        yield found.value


def _ratios(point: Point, reference: str) -> Iterator[Ratio]:
    rows = {row.record.cell.target: row for row in _timed(point)}
    base = rows.get(reference)
    for target, row in sorted(rows.items()):
        if target != reference:
            yield _ratio(point, row, base, reference)


def _ratio(point: Point, row: Row, base: Row | None, reference: str) -> Ratio:
    both = base is not None and all(_clock(each.record, "trace") for each in (row, base))
    clock = "trace" if both else "events"
    speed = speedup = None
    reason = _why_no_ratio(row.record, base.record, reference) if base else f"it was not measured on {reference}"
    if base and reason is None:
        mine, its = _clock(row.record, clock), _clock(base.record, clock)
        speed = its / mine if mine and its else None
        speedup = _gain_by_gain(row.record, base.record)
        reason = None if speedup is not None else "no eager baseline was timed on both"
    place = (point.case, point.direction, point.shape, point.dtype, point.variant)
    return Ratio(*place, row.record.cell.target, reference, clock, speed, speedup, reason)


def _why_no_ratio(record: Record, base: Record, reference: str) -> str | None:
    """Why times of two targets are not compared: another cache mode, or one throttled alone."""
    if record.timing is None or base.timing is None:
        return f"it was not timed on both, {record.cell.target} and {reference}"
    return why_targets_apart(record.timing, base.timing)


def _gain_by_gain(record: Record, base: Record) -> float | None:
    """Speedup over eager ÷ that on the reference."""
    gains = [each.timing.speedup.get("eager") if each.timing else None for each in (record, base)]
    return gains[0].value / gains[1].value if gains[0] and gains[1] and gains[1].value else None


def _timed(point: Point) -> list[Row]:
    """Measured rows that were right, of whole devices."""
    return [x for x in point.measured if x.record.outcome.status.good and x.record.cell.partition is None]


def _clock(record: Record, clock: str) -> float | None:
    return _median(record.timing.fused, clock) if record.timing else None


def _median(timed: Timed, clock: str) -> float | None:
    found = getattr(timed, clock)
    return found.median_ms or None if found else None
