"""What a plot is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portkit.analysis.views.operations import Operation

Values = Sequence[Mapping[str, Any]]
Spec = Mapping[str, Any]


@dataclass(frozen=True)
class Plot:
    """One plot: the values that its kind's specification draws."""

    kind: str  # roofline, speedups, …: a key of ``KINDS``
    page: str | None  # kernel, and its direction if backward; None: of all kernels
    operation: str | None  # shape, dtype and variant; None: of several
    title: str
    alt: str  # what a reader who can't see it is told
    datasets: Mapping[str, Values]
    height: int  # pixels; of one panel where there are several
    detail: str = ""  # what tells it from another of its kind and operation
    dtype: str | None = None  # of the operation; None: of several
    candidates: Values = ()  # what the values were chosen from: the page chooses anew under filters
    most: int = 0  # lines that are chosen of the candidates

    @classmethod
    def of(
        cls,
        operation: Operation,
        kind: str,
        *,
        title: str,
        alt: str,
        height: int,
        datasets: Mapping[str, Values],
        detail: str = "",
    ) -> Plot:
        """A plot of one operation."""
        return cls(
            kind=kind,
            page=operation.page,
            operation=operation.label,
            title=title,
            alt=alt,
            datasets=datasets,
            height=height,
            detail=detail,
            dtype=operation.dtype,
        )

    @property
    def name(self) -> str:
        """Name for its file without an ending: letters, digits and dashes, so two kernels may have the same."""
        parts = (part for part in (self.page, self.operation, self.kind, self.detail) if part)
        return re.sub(r"[^A-Za-z0-9]+", "-", " ".join(parts)).strip("-").lower()
