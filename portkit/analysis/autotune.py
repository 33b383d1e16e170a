"""Which variant wins on which target, and what the winner of one costs on another.

Pure: merged rows come in. Times are of the fused function, on the device trace where every row
of an operation has one, on device events otherwise; the two never meet. A variant that a target
can't run has no time there, and its penalty is unknown with that reason, not infinite.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from portkit.analysis.points import Point, by_operation
from portkit.analysis.portability import harmonic_mean
from portkit.model import Direction, Record
from portkit.store.alike import mode
from portkit.store.merge import Row


@dataclass(frozen=True)
class Transfer:
    """The winner of one target, run on another."""

    of: str  # target whose winner it is
    on: str  # target that it runs on
    variant: str
    penalty: float | None  # its time ÷ that of the own winner there, 1 at least; None: it has no time there
    reason: str | None = None  # why it has none


@dataclass(frozen=True)
class Compromise:
    """The single variant that loses least over all targets."""

    variant: str
    portability: float  # harmonic mean of its efficiencies against the winners
    costs: Mapping[str, float]  # target → its time ÷ the winner's


@dataclass(frozen=True)
class Tuning:
    """Variants of one operation over the targets that measured them."""

    kernel: str
    direction: Direction
    shape: tuple[int, ...]
    dtype: str
    clock: str  # trace or events, ms
    times: Mapping[str, Mapping[str, float]]  # variant → target → ms
    winners: Mapping[str, str]  # target → variant
    transfers: tuple[Transfer, ...]  # of every winner on every other target
    best: Compromise | None  # None where no variant ran on all these targets


def tuned(points: Iterable[Point]) -> tuple[Tuning, ...]:
    """Operations of which two targets or more have times of two variants or more."""
    made = (_tuning(tuple(group)) for group in by_operation(points).values())
    return tuple(each for each in made if each is not None)


def winners(times: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """Target → its fastest variant; of equal ones the first by name."""
    targets = sorted({target for found in times.values() for target in found})
    return {
        target: min((found[target], variant) for variant, found in sorted(times.items()) if target in found)[1]
        for target in targets
    }


def compromise(times: Mapping[str, Mapping[str, float]]) -> Compromise | None:
    """The variant with the highest harmonic mean of efficiencies, of those that every target ran."""
    best = winners(times)
    found = []
    for variant, on in sorted(times.items()):
        if set(on) == set(best):
            costs = {target: on[target] / times[best[target]][target] for target in best}
            found.append(Compromise(variant, harmonic_mean([1 / cost for cost in costs.values()]), costs))
    return max(found, key=lambda each: each.portability, default=None)


def transfers(times: Mapping[str, Mapping[str, float]], reasons: Mapping[tuple[str, str], str]) -> Iterator[Transfer]:
    """What each target's winner costs on each other one.

    Args:
        times: variant → target → time.
        reasons: variant and target → why there is no time.
    """
    best = winners(times)
    for of, variant in best.items():
        for on in best:
            if on != of:
                time = times[variant].get(on)
                why = None if time is not None else reasons.get((variant, on), "it was not measured there")
                yield Transfer(of, on, variant, time / times[best[on]][on] if time is not None else None, why)


def _tuning(points: tuple[Point, ...]) -> Tuning | None:
    timed = {(point.variant, row.record.cell.target): row for point in points for row in _timed(point)}
    rows = _of_one_mode(timed)
    if len({variant for variant, _ in rows}) < 2 or len({target for _, target in rows}) < 2:
        return None
    clock = "trace" if all(time_ms(row.record, "trace") is not None for row in rows.values()) else "events"
    times: dict[str, dict[str, float]] = collections.defaultdict(dict)
    for (variant, target), row in rows.items():
        time = time_ms(row.record, clock)
        if time is not None:
            times[variant][target] = time
    first = points[0]
    return Tuning(
        kernel=first.case,
        direction=first.direction,
        shape=first.shape,
        dtype=first.dtype,
        clock=clock,
        times={variant: dict(sorted(found.items())) for variant, found in sorted(times.items())},
        winners=winners(times),
        transfers=tuple(transfers(times, dict.fromkeys(timed.keys() - rows.keys(), _APART) | _reasons(points))),
        best=compromise(times),
    )


_APART: Final = "its time was taken in another cache mode or clock state than the others there"


def _of_one_mode(timed: Mapping[tuple[str, str], Row]) -> dict[tuple[str, str], Row]:
    """Rows that may be compared with one another on their target: of the mode that most of them have."""
    modes: dict[str, collections.Counter[tuple[bool, bool]]] = collections.defaultdict(collections.Counter)
    for (_, target), row in sorted(timed.items()):
        if row.record.timing:
            modes[target][mode(row.record.timing)] += 1
    most = {
        target: max(counts, key=lambda each: (counts[each], each[0], not each[1])) for target, counts in modes.items()
    }
    return {key: row for key, row in timed.items() if row.record.timing and mode(row.record.timing) == most[key[1]]}


def _timed(point: Point) -> list[Row]:
    """Measured rows that were right, of whole devices."""
    return [x for x in point.measured if x.record.outcome.status.good and x.record.cell.partition is None]


def _reasons(points: Iterable[Point]) -> dict[tuple[str, str], str]:
    """Variant and target → why it has no time, where a row says so."""
    bad = [row for point in points for row in point.rows if not row.record.outcome.status.good]
    return {
        (row.record.cell.variant, row.record.cell.target): row.record.outcome.message or row.record.outcome.status.value
        for row in bad
    }


def time_ms(record: Record, clock: str) -> float | None:
    """Median of the fused function on a clock, ``trace`` or ``events``; None where it was not taken, or is 0."""
    found = getattr(record.timing.fused, clock) if record.timing else None
    return found.median_ms or None if found else None
