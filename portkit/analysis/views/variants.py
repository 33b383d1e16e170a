"""Variants × targets: what each costs beside the winner there, and what a winner costs elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portkit.analysis.autotune import Transfer, Tuning
from portkit.analysis.rows import Comparison
from portkit.analysis.views.operations import Operation
from portkit.analysis.views.targets import targets


@dataclass(frozen=True)
class VariantCell:
    """One variant on one target."""

    variant: str
    target: str
    ms: float
    slower: float  # its time ÷ that of the winner there, 1 at least
    winner: bool


@dataclass(frozen=True)
class Variants:
    """Variants of one operation over the targets that measured them."""

    operation: Operation
    clock: str
    cells: tuple[VariantCell, ...]
    transfers: tuple[Transfer, ...]


def variants(comparison: Comparison) -> tuple[Variants, ...]:
    """One an operation of which two targets or more have times of two variants or more."""
    order = [target.name for target in targets(comparison)]
    return tuple(_variants(tuning, order) for tuning in comparison.tuning)


def _variants(tuning: Tuning, order: Sequence[str]) -> Variants:
    best = {target: tuning.times[variant][target] for target, variant in tuning.winners.items()}
    cells = tuple(
        VariantCell(variant, target, ms, ms / best[target], tuning.winners[target] == variant)
        for variant, times in tuning.times.items()
        for target, ms in sorted(times.items(), key=lambda pair: order.index(pair[0]))
    )

    def place(each: Transfer) -> tuple[int, int]:
        return order.index(each.of), order.index(each.on)

    operation = Operation(tuning.kernel, tuning.direction, tuning.shape, tuning.dtype, None)
    return Variants(operation, tuning.clock, cells, tuple(sorted(tuning.transfers, key=place)))
