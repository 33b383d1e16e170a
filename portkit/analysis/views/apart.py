"""How far outputs of targets lie apart on the same inputs: every two of them, those of different vendors first."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, TypeVar

from portkit.analysis.distance import FINGERPRINT, Distance, OutputDistance, between, same_inputs
from portkit.analysis.rows import Comparison
from portkit.analysis.views.operations import Operation, operation_of
from portkit.analysis.views.targets import NO_VENDOR, targets
from portkit.model import Record
from portkit.store.merge import Dataset


@dataclass(frozen=True)
class Pair:
    """The outputs of two runs, by the output that lies farthest apart."""

    one: str  # target and evidence, and the host where two are alike
    other: str
    across: bool  # whether their GPUs are of different vendors
    identical: bool  # all bits of every whole output
    ulp: int | None  # most steps between neighbouring numbers over the samples; None: NaN or Inf differ
    absolute: float | None  # likewise
    relative: float | None  # likewise
    samples: int  # of all outputs
    differing: int  # of the samples
    outputs: Mapping[str, int | None]  # output, by position or as "grad x" → its ulp


@dataclass(frozen=True)
class Apart:
    """All pairs of one operation and variant that had the same inputs."""

    operation: Operation
    inputs: str  # hash
    pairs: tuple[Pair, ...]  # of different vendors first, then with the interpreter, then of one vendor


def apart(comparison: Comparison, dataset: Dataset) -> tuple[Apart, ...]:
    """One an operation and inputs of which outputs of two runs could be compared, in the order of names."""
    vendors = {target.name: target.vendor for target in targets(comparison)}
    shown = {(operation_of(row), row.target) for row in comparison.rows}
    made = (_apart(group, vendors, dataset.paths) for group in _chosen(dataset, shown))
    return tuple(each for each in made if each.pairs)


def _chosen(dataset: Dataset, shown: Set[tuple[Operation, str]]) -> Iterator[list[Record]]:
    """Runs on the same inputs that the comparison shows."""
    for group in same_inputs(dataset.rows):
        kept = [record for record in group if (_operation(record), record.cell.target) in shown]
        if len(kept) > 1:
            yield kept


def _operation(record: Record) -> Operation:
    cell = record.cell
    return Operation(cell.case, cell.direction, cell.shape, cell.dtype, cell.variant)


def _apart(records: Sequence[Record], vendors: Mapping[str, str], paths: Mapping[str, str]) -> Apart:
    order = list(vendors)
    records = sorted(records, key=lambda record: order.index(record.cell.target))
    names = _names(records)
    known: dict[tuple[str, str], Distance] = {}

    def distance(one: Record, other: Record) -> Distance:
        """Worked out once for equal fingerprints, which most targets share."""
        key = one.blobs[FINGERPRINT], other.blobs[FINGERPRINT]
        if key not in known:
            known[key] = between(one, other, paths)
        return known[key]

    ranked = [(_rank(one, other, vendors), one, other) for one, other in itertools.combinations(records, 2)]
    pairs = _pairs(sorted(ranked, key=lambda each: each[0]), names, distance)
    first = records[0]
    return Apart(_operation(first), first.verdict.input_hash if first.verdict else "", tuple(pairs))


def _names(records: Sequence[Record]) -> Mapping[int, str]:
    """Target and evidence of each record by its ``id``, and its host where that is not enough."""
    plain = {id(record): f"{record.cell.target} {record.evidence}" for record in records}
    count = collections.Counter(plain.values())
    host = {id(record): f" ({record.host_id})" if count[plain[id(record)]] > 1 else "" for record in records}
    return {key: name + host[key] for key, name in plain.items()}


ACROSS: Final = 0
"""Rank of pairs of different vendors."""


def _rank(one: Record, other: Record, vendors: Mapping[str, str]) -> int:
    of = {vendors[one.cell.target], vendors[other.cell.target]}
    if len(of) == 1:
        return 2
    return 1 if NO_VENDOR in of else ACROSS


def _pairs(
    ranked: Sequence[tuple[int, Record, Record]],
    names: Mapping[int, str],
    distance: Callable[[Record, Record], Distance],
) -> Iterator[Pair]:
    for rank, one, other in ranked:
        outputs = distance(one, other).outputs
        if outputs:
            yield _pair(names[id(one)], names[id(other)], outputs, across=rank == ACROSS)


def _pair(one: str, other: str, outputs: Sequence[OutputDistance], *, across: bool) -> Pair:
    return Pair(
        one,
        other,
        across,
        identical=all(out.identical for out in outputs),
        ulp=_most([0 if out.identical else out.max_ulp for out in outputs]),
        absolute=_most([out.max_abs for out in outputs]),
        relative=_most([out.max_rel for out in outputs]),
        samples=sum(out.samples for out in outputs),
        differing=sum(out.differing for out in outputs),
        outputs={out.output: 0 if out.identical else out.max_ulp for out in outputs},
    )


Number = TypeVar("Number", int, float)


def _most(values: Sequence[Number | None]) -> Number | None:
    """The largest; None where any is None."""
    known = [value for value in values if value is not None]
    return max(known, default=None) if len(known) == len(values) else None
