"""What fusion saves of a forward pass: time, launches, bytes, GPU-hours and money, from measured rows alone.

A kernel of a workload is met by a measured row of the same case, direction, shape and dtype on that
target, never by one of another shape. Times are medians on device events with flushed caches, of
the fused function and of one baseline that was timed in the same rounds.

Intervals. A row's median has a 95 % bootstrap interval. Sums, differences and ratios are by interval arithmetic
(:mod:`portkit.analysis.estimate`), so they hold however kernels, and fused and baseline of one row, err together. The
choice of the fastest variant, and how devices of one SKU differ, are in none of them.

Definitions:

- saved = time of the baseline - time fused, of the kernels that were measured.
- GPU-hours of n tokens = n ÷ tokens of a pass × time of a pass.
- cost per million tokens = price per hour ÷ tokens per hour × 10⁶.
- floor: what no fusion removes; the fused time of kernels that compute bounds. What no row was measured
  of is named beside it and is in no figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from portkit.analysis.estimate import Estimate, total
from portkit.analysis.functions import FUSED, FunctionRow
from portkit.analysis.roofline import COMPUTE
from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.analysis.usable import is_capped, why_unusable
from portkit.model import Clock, DeviceProbe, Evidence, Work
from portkit.plan.baselines import EAGER
from portkit.plan.prices import Price
from portkit.plan.workloads import Use, Workload
from portkit.store.merge import Dataset

BILLION: Final = 10**9

Place = tuple[str, str | None]
"""Target and partition mode."""


@dataclass(frozen=True)
class Line:
    """One kernel of the pass that was measured; figures are of all its calls in one pass."""

    use: Use
    variant: str  # the fastest of those measured
    run_id: str
    unfused_ms: Estimate
    fused_ms: Estimate
    launches_unfused: int | None  # kernels on the device; None where neither trace nor counters tell
    launches_fused: int | None
    bytes_saved: int | None  # by the work model; None for another baseline than the chain it is of
    bound: str | None  # memory or compute
    capped: bool = False  # whether the device was at its limit of power meanwhile

    @property
    def saved_ms(self) -> Estimate:
        """Time that fusion takes off the pass; negative where it is slower."""
        return self.unfused_ms - self.fused_ms

    @property
    def launches_saved(self) -> int | None:
        """Kernels on the device that a pass no longer launches; None where one of both is not known."""
        if self.launches_unfused is None or self.launches_fused is None:
            return None
        return self.launches_unfused - self.launches_fused


@dataclass(frozen=True)
class Missing:
    """One kernel of the pass that has no usable measured row."""

    use: Use
    reason: str


@dataclass(frozen=True)
class Money:
    """What the measured kernels cost."""

    price: Price
    unfused_per_million: Estimate  # US dollars per million tokens
    fused_per_million: Estimate
    job_tokens: int
    whole: bool  # whether all kernels of the pass are measured; else what follows is their part, and not rounded
    unfused_bill: Estimate  # US dollars of a job of that many tokens on one GPU, as it is billed
    fused_bill: Estimate

    @property
    def saved_per_million(self) -> Estimate:
        """US dollars per million tokens."""
        return self.unfused_per_million - self.fused_per_million


@dataclass(frozen=True)
class Savings:
    """One workload on one target."""

    workload: Workload
    target: str
    partition: str | None
    baseline: str
    lines: tuple[Line, ...]
    missing: tuple[Missing, ...]
    launch_us: float | None  # the host's time for a launch there, measured
    money: Money | None
    no_money: str  # why there is none

    @property
    def unfused_ms(self) -> Estimate:
        """Time of the baseline in one pass, of the measured kernels."""
        return total(line.unfused_ms for line in self.lines)

    @property
    def fused_ms(self) -> Estimate:
        """The same, fused."""
        return total(line.fused_ms for line in self.lines)

    @property
    def saved_ms(self) -> Estimate:
        """Their difference."""
        return self.unfused_ms - self.fused_ms

    @property
    def speedup(self) -> Estimate:
        """Of the measured kernels together."""
        return self.unfused_ms / self.fused_ms

    @property
    def launches_saved(self) -> int | None:
        """Kernels on the device that a pass no longer launches; None where a row does not know."""
        return _known_sum(x.launches_saved for x in self.lines)

    @property
    def bytes_saved(self) -> int | None:
        """Bytes that a pass no longer moves, by the work model."""
        return _known_sum(x.bytes_saved for x in self.lines)

    @property
    def compute_ms(self) -> Estimate:
        """The floor: fused time of kernels that compute bounds."""
        return total(x.fused_ms for x in self.lines if x.bound == COMPUTE)

    @property
    def unplaced(self) -> tuple[Line, ...]:
        """Measured kernels of which nobody knows what bounds them."""
        return tuple(x for x in self.lines if x.bound is None)

    def hours(self, time_ms: Estimate, tokens: float) -> Estimate:
        """GPU-hours of so many tokens, where a pass takes that time."""
        return time_ms * (tokens / self.workload.tokens / 3.6e6)


def _known_sum(parts: Iterable[int | None]) -> int | None:
    found = list(parts)
    return None if None in found else sum(part for part in found if part is not None)


@dataclass(frozen=True)
class Question:
    """What is asked of the rows."""

    workload: Workload
    baseline: str = EAGER
    job_tokens: int = BILLION


def savings(
    comparison: Comparison, works: Mapping[str, Work], prices: Mapping[str, Price], question: Question, place: Place
) -> Savings:
    """What fusion saves of a workload on one target.

    Args:
        comparison: rows of all evidence; only measured ones give figures.
        works: cell key → the record's work model.
        prices: target → price.
        question: workload, baseline, and the size of the job that is billed.
        place: target and partition mode.
    """
    rows = [row for row in comparison.rows if (row.target, row.partition) == place]
    found = [_find(use, rows, question.baseline, works) for use in question.workload.uses]
    lines = tuple(each for each in found if isinstance(each, Line))
    plain = Savings(
        workload=question.workload,
        target=place[0],
        partition=place[1],
        baseline=question.baseline,
        lines=lines,
        missing=tuple(each for each in found if isinstance(each, Missing)),
        launch_us=_launch_us(comparison.probes, {line.run_id for line in lines}, place[0]),
        money=None,
        no_money="",
    )
    return _priced(plain, prices.get(place[0]), question.job_tokens)


def _priced(found: Savings, price: Price | None, job_tokens: int) -> Savings:
    if not found.lines:
        return _with_money(found, None, "no kernel of it was measured there, and only measured time costs money")
    if price is None:
        return _with_money(found, None, f"no price of {found.target} is known: give one with --prices")
    per_million = price.usd_per_hour
    return _with_money(
        found,
        Money(
            price=price,
            unfused_per_million=found.hours(found.unfused_ms, 1e6) * per_million,
            fused_per_million=found.hours(found.fused_ms, 1e6) * per_million,
            job_tokens=job_tokens,
            whole=not found.missing,
            unfused_bill=_bill(price, found.hours(found.unfused_ms, job_tokens), whole=not found.missing),
            fused_bill=_bill(price, found.hours(found.fused_ms, job_tokens), whole=not found.missing),
        ),
        "",
    )


def _bill(price: Price, hours: Estimate, *, whole: bool) -> Estimate:
    """US dollars of a job; of a part of one, what the time costs: only whole jobs are billed by steps."""
    if not whole:
        return hours * price.usd_per_hour
    return Estimate(*(price.bill(each) for each in (hours.value, hours.low, hours.high)))


def _with_money(found: Savings, money: Money | None, reason: str) -> Savings:
    return Savings(**{**vars(found), "money": money, "no_money": reason})


def measured_works(dataset: Dataset) -> Mapping[str, Work]:
    """Cell key → the work model of its measured record."""
    records = (row.record for row in dataset.rows)
    return {x.keys.cell_key: x.work for x in records if x.evidence is Evidence.MEASURED and x.work is not None}


def measured_places(rows: Iterable[ComparisonRow]) -> tuple[Place, ...]:
    """Targets and partitions with a measured row, in the table's order."""
    return tuple(dict.fromkeys((row.target, row.partition) for row in rows if row.evidence is Evidence.MEASURED))


def _find(use: Use, rows: Sequence[ComparisonRow], baseline: str, works: Mapping[str, Work]) -> Line | Missing:
    met = [row for row in rows if _is_of(row, use)]
    usable = [row for row in met if not why_unusable(row, baseline)]
    if not usable:
        return Missing(use, _reason(met, baseline))
    best = min(usable, key=lambda row: _events(row, FUSED).median_ms)
    return _line(use, best, baseline, works.get(best.cell_key))


def _is_of(row: ComparisonRow, use: Use) -> bool:
    return (row.kernel, row.direction, row.shape, row.dtype) == (use.case, use.direction, use.shape, use.dtype)


def _reason(met: Sequence[ComparisonRow], baseline: str) -> str:
    """The reason of the row that came nearest: a measured one before others."""
    nearest_first = sorted(met, key=lambda row: row.evidence is not Evidence.MEASURED)
    return next((why_unusable(row, baseline) for row in nearest_first), "no row of this shape and dtype")


def _function(row: ComparisonRow, name: str) -> FunctionRow:
    return next(each for each in row.functions if each.name == name)


def _events(row: ComparisonRow, name: str) -> Clock:
    clock = _function(row, name).events
    assert clock is not None
    return clock


def _line(use: Use, row: ComparisonRow, baseline: str, work: Work | None) -> Line:
    chain = work if baseline == EAGER else None
    return Line(
        use=use,
        variant=row.variant,
        run_id=row.run_id,
        unfused_ms=_estimate(_events(row, baseline)) * use.count,
        fused_ms=_estimate(_events(row, FUSED)) * use.count,
        launches_unfused=_times(_function(row, baseline).kernels, use.count),
        launches_fused=_times(_function(row, FUSED).kernels, use.count),
        bytes_saved=_times(chain.unfused_bytes - chain.fused_bytes if chain else None, use.count),
        bound=row.roofline.bound if row.roofline else None,
        capped=is_capped(row),
    )


def _estimate(clock: Clock) -> Estimate:
    return Estimate(clock.median_ms, clock.low_ms, clock.high_ms)


def _times(value: int | None, count: int) -> int | None:
    return None if value is None else value * count


def _launch_us(probes: Iterable[DeviceProbe], runs: set[str], target: str) -> float | None:
    found = (x.launch_us for x in probes if x.run_id in runs and x.target == target and x.launch_us is not None)
    return next(found, None)
