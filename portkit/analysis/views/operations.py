"""Rows by what they are about: a kernel, and one operation of it in one variant."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from portkit.analysis.rows import ComparisonRow
from portkit.model import Direction


@dataclass(frozen=True)
class Operation:
    """What rows of several targets have alike."""

    kernel: str
    direction: Direction
    shape: tuple[int, ...]
    dtype: str
    variant: str | None  # None: of all variants together

    @property
    def page(self) -> str:
        """Kernel and, of a backward pass, its direction: what a section of a report is about."""
        return self.kernel if self.direction is Direction.FORWARD else f"{self.kernel} {self.direction}"

    @property
    def shape_text(self) -> str:
        """The shape as tables write it: ``4096x4096``."""
        return "x".join(map(str, self.shape))

    @property
    def label(self) -> str:
        """Shape, dtype and variant in words."""
        return " ".join(part for part in (self.shape_text, self.dtype, self.variant) if part)


def operation_of(row: ComparisonRow) -> Operation:
    """The operation and variant that a row is about."""
    return Operation(row.kernel, row.direction, row.shape, row.dtype, row.variant)


def by_operation(rows: Iterable[ComparisonRow]) -> Iterator[tuple[Operation, list[ComparisonRow]]]:
    """Rows of a comparison by operation and variant, in its order."""
    for key, group in itertools.groupby(rows, operation_of):
        yield key, list(group)
