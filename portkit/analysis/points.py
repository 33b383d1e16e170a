"""What rules look at: merged rows by the operation they are about."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from portkit.analysis.distance import Distance
from portkit.analysis.spread import Spread
from portkit.errors import CatalogError
from portkit.model import Architecture, Direction, Evidence, Launch, Platform, Record, Stage, Status, Target
from portkit.store.alike import common_clock, fused_clock, mode
from portkit.store.merge import Dataset, Row
from portkit.targets.catalog import Catalog

NO_SIGNALS: Mapping[str, int] = {}

_BEST_BUILD = (Evidence.MEASURED, Evidence.COMPILED, Evidence.EMULATED)
"""Where a target has several rows of one point, the first of these stands for its binary."""

_STARTED = (Stage.RUN, Stage.VERIFY, Stage.BASELINE, Stage.TIMING)
"""Stages that a kernel reaches only once it was launched."""

Operation = tuple[str, Direction, tuple[int, ...], str, str]
"""Case, direction, shape, dtype and source hash."""

Test = Callable[[Mapping[str, int]], bool]


@dataclass(frozen=True)
class Point:
    """All rows of one kernel case, direction, shape, dtype and variant: one operation on many targets."""

    case: str
    direction: Direction
    shape: tuple[int, ...]
    dtype: str
    variant: str
    source: str  # hash of the case's source: rows of another source are another point
    rows: tuple[Row, ...]  # by target and evidence

    @property
    def operation(self) -> Operation:
        """What its variants have alike."""
        return self.case, self.direction, self.shape, self.dtype, self.source

    @functools.cached_property
    def measured(self) -> tuple[Row, ...]:
        """Rows with a time."""
        return tuple(x for x in self.rows if x.record.evidence is Evidence.MEASURED and x.record.timing)

    @functools.cached_property
    def ran(self) -> tuple[Row, ...]:
        """Rows that were judged: measured and emulated."""
        return tuple(x for x in self.rows if x.record.verdict and x.record.evidence in _BEST_BUILD)

    @functools.cached_property
    def ran_or_died(self) -> tuple[Row, ...]:
        """Rows that were tried in silicon or emulated, whatever became of them."""
        return tuple(x for x in self.rows if x.record.evidence in (Evidence.MEASURED, Evidence.EMULATED))

    def same_families(self) -> Iterator[list[Row]]:
        """Rows that were judged, those together whose input families ran on one shape.

        Families run on a small shape of the target's own choice; a row that does not say on which is left out.
        """
        groups: dict[tuple[int, ...], list[Row]] = {}
        for row in self.ran:
            verdict = row.record.verdict
            if verdict and verdict.families_shape is not None:
                groups.setdefault(verdict.families_shape, []).append(row)
        yield from groups.values()

    @functools.cached_property
    def binaries(self) -> tuple[Row, ...]:
        """One row with a build a target."""
        best: dict[tuple[str, str | None], Row] = {}
        for row in sorted(self.rows, key=_preference):
            if row.record.evidence in _BEST_BUILD and row.record.build and row.record.build.candidates:
                best.setdefault((row.record.cell.target, row.record.cell.partition), row)
        return tuple(row for row in self.rows if any(row is kept for kept in best.values()))

    @functools.cached_property
    def attempts(self) -> tuple[Row, ...]:
        """One row a target that a compiler was asked to build for, whatever became of it."""
        best: dict[str, Row] = {}
        for row in sorted(self.rows, key=_preference):
            if row.record.evidence in _BEST_BUILD:
                best.setdefault(row.record.cell.target, row)
        return tuple(best[name] for name in sorted(best))

    @functools.cached_property
    def traces(self) -> frozenset[str]:
        """Names of all signals of its binaries."""
        return frozenset(name for row in self.binaries for each in signals(row) for name in each)

    def shows(self, *wanted: str) -> bool:
        """Whether any binary has one of these signals; names may end in ``.`` for all that begin so."""
        return any(_matches(name, one) for name in self.traces for one in wanted)

    def parted(
        self, bad: Callable[[Row], bool], good: Callable[[Row], bool], needs: Sequence[str] = ()
    ) -> tuple[list[Row], list[Row]]:
        """Binaries that are of one kind and those of the other; both empty where either is.

        Args:
            bad: whether a row is of the one kind.
            good: whether it is of the other.
            needs: signals without which no row can be ``bad``, so that most points are passed over quickly.
        """
        one = [] if needs and not self.shows(*needs) else [row for row in self.binaries if bad(row)]
        other = [row for row in self.binaries if good(row)] if one else []
        return (one, other) if other else ([], [])


def _preference(row: Row) -> tuple[str, int]:
    return row.record.cell.target, _BEST_BUILD.index(row.record.evidence) if row.record.evidence in _BEST_BUILD else 9


@dataclass(frozen=True)
class Context:
    """All that rules may look at."""

    dataset: Dataset
    points: tuple[Point, ...]
    catalog: Catalog
    distances: tuple[Distance, ...] = ()
    spreads: tuple[Spread, ...] = ()

    def target(self, row: Row) -> Target | None:
        """A row's SKU; None where the catalogue does not know it."""
        name = row.record.cell.target
        return self.catalog.get(name) if name in self.catalog else None

    def architecture(self, row: Row) -> Architecture | None:
        """Limits of a row's architecture; None where the catalogue does not know it."""
        try:
            return self.catalog.architecture(row.record.architecture or "")
        except CatalogError:
            return None


def by_operation(points: Iterable[Point]) -> dict[Operation, list[Point]]:
    """Points of one operation together, its variants in order."""
    groups: dict[Operation, list[Point]] = collections.defaultdict(list)
    for point in points:
        groups[point.operation].append(point)
    return dict(groups)


def fastest(points: Iterable[Point]) -> list[tuple[Point, list[Row]]]:
    """The measured row of the fastest variant of each operation and target, by its point: what one would run there.

    Rows of another cache mode or clock state are no rivals, and have a fastest of their own.
    """
    found: dict[int, tuple[Point, list[Row]]] = {}
    for group in by_operation(points).values():
        for point, row in _fastest(group):
            found.setdefault(id(point), (point, []))[1].append(row)
    return list(found.values())


def _fastest(group: Iterable[Point]) -> Iterable[tuple[Point, Row]]:
    best: dict[tuple[object, ...], tuple[Point, Row]] = {}
    for point in group:
        for row in point.measured:
            cell, timing = row.record.cell, row.record.timing
            if timing and row.record.outcome.status.good:
                key = cell.target, cell.partition, mode(timing)
                if key not in best or _is_faster(row, best[key][1]):
                    best[key] = point, row
    return best.values()


def _is_faster(row: Row, other: Row) -> bool:
    """On kernel times where both have them."""
    clock = common_clock([row.record, other.record])
    mine, its = fused_clock(row.record, clock), fused_clock(other.record, clock)
    return bool(mine and its and mine.median_ms < its.median_ms)


def points_of(rows: Sequence[Row]) -> tuple[Point, ...]:
    """Rows by the operation they are about, in the order of names and shapes."""
    groups: dict[tuple[str, str, tuple[int, ...], str, str, str], list[Row]] = collections.defaultdict(list)
    for row in rows:
        cell, source = row.record.cell, row.record.keys.source_hash
        groups[cell.case, cell.direction.value, cell.shape, cell.dtype, cell.variant, source].append(row)
    return tuple(
        Point(case, Direction(direction), shape, dtype, variant, source, tuple(sorted(groups[key], key=_place)))
        for key in sorted(groups)
        for case, direction, shape, dtype, variant, source in [key]
    )


def _place(row: Row) -> tuple[bool, str, str, int]:
    record = row.record
    amd = (record.architecture or "").startswith("gfx")
    return amd, record.cell.target, record.cell.partition or "", list(Evidence).index(record.evidence)


def launches(row: Row) -> Iterator[Launch]:
    """Launches of a row's binary that its figures count."""
    yield from row.record.build.candidates if row.record.build else ()


def signals(row: Row) -> Iterator[Mapping[str, int]]:
    """Signals of each launch that has been read for them."""
    yield from (each.signals for each in launches(row) if each.signals is not None)


def was_run(row: Row) -> bool:
    """Whether a GPU ran the row's kernel in any run of its source, whatever became of it."""
    return row.record.evidence is Evidence.MEASURED and any(map(_was_launched, _of_source(row)))


def was_timed(row: Row) -> bool:
    """Whether any run of its source has a time."""
    return any(record.timing for record in _of_source(row))


def _of_source(row: Row) -> Iterator[Record]:
    return (each for each in row.records if each.keys.source_hash == row.record.keys.source_hash)


def _was_launched(record: Record) -> bool:
    outcome = record.outcome
    started = outcome.stage in _STARTED and outcome.status is not Status.LAUNCH_ERROR
    return bool(record.verdict or record.timing or started)


def some_launch(row: Row, test: Test) -> bool:
    """Whether the signals of any launch are so."""
    return any(test(each) for each in signals(row))


def total(row: Row, *wanted: str) -> int:
    """How often signals count over all launches; names may end in ``.`` for all that begin so."""
    found = (each.items() for each in signals(row))
    return sum(n for items in found for name, n in items if any(_matches(name, one) for one in wanted))


def count(each: Mapping[str, int], *wanted: str) -> int:
    """The same of one launch."""
    return sum(n for name, n in each.items() if any(_matches(name, one) for one in wanted))


def _matches(name: str, wanted: str) -> bool:
    return name.startswith(wanted) if wanted.endswith(".") else name == wanted


def platform(row: Row) -> Platform:
    """Platform of a row's target, by its architecture's name."""
    return Platform.ROCM if (row.record.architecture or "").startswith("gfx") else Platform.CUDA


def broken(row: Row, word: str) -> str:
    """The first limit of the target that the row's binary breaks and that has this word; empty where none."""
    build = row.record.build
    return next((text for text in (build.limits_broken if build else ()) if text.startswith(word)), "")
