"""What a merge says beside the figures: targets that must be there, and drift between versions of Triton."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Final

from tabulate import tabulate

from portkit.analysis.drift import Drift
from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.render.columns import NONE, escaped
from portkit.store.merge import in_order

MISSING: Final = "MISSING"

_MOST_DRIFTS = 40  # lines; JSON has all


def targets_table(comparison: Comparison, layout: str) -> str:
    """Kernels × the targets that must be there, those that are not marked MISSING; empty where none must."""
    if not comparison.expected_targets:
        return ""
    asked = dict.fromkeys(comparison.expected_targets)
    heads = [f"{name} {MISSING}" if name in comparison.missing else name for name in asked]
    kernels = dict.fromkeys(row.kernel for row in comparison.rows)
    body = [_line(kernel, list(asked), comparison) for kernel in kernels]
    return tabulate(body, [escaped(head) for head in ["kernel", *heads]], tablefmt=layout, disable_numparse=True)


def _line(kernel: str, asked: Sequence[str], comparison: Comparison) -> list[str]:
    rows = [row for row in comparison.rows if row.kernel == kernel]
    return [escaped(kernel), *(MISSING if name in comparison.missing else _found(name, rows) for name in asked)]


def _found(asked: str, rows: Sequence[ComparisonRow]) -> str:
    """Rows of a target, or of ``target:evidence``."""
    target, _, evidence = asked.partition(":")
    return _counts([row for row in rows if row.target == target and evidence in ("", row.evidence.value)])


def _counts(rows: Sequence[ComparisonRow]) -> str:
    """Good rows of all, by evidence."""
    every = collections.Counter(row.evidence for row in rows)
    good = collections.Counter(row.evidence for row in rows if row.status.good)
    return ", ".join(f"{evidence} {good[evidence]}/{every[evidence]}" for evidence in every) or NONE


def drift_lines(comparison: Comparison) -> Iterator[str]:
    """First how much each version differs from the table's, then what does."""
    for triton in in_order(each.triton for each in comparison.drift):
        yield _summary(triton, [each for each in comparison.drift if (each.triton or "unknown") == triton])
    changed = [each for each in comparison.drift if each.changes]
    yield from (_changes(each) for each in changed[:_MOST_DRIFTS])
    if len(changed) > _MOST_DRIFTS:
        yield f"and {len(changed) - _MOST_DRIFTS} more cells, which the JSON layout names"


def _summary(triton: str, drifts: Sequence[Drift]) -> str:
    only = sum(each.shown is None for each in drifts)
    differ = sum(bool(each.changes) for each in drifts)
    return f"Triton {triton}: {len(drifts) - only - differ} cells as in the table, {differ} differ, {only} not in it"


def _changes(drift: Drift) -> str:
    figures = (f"{name} {_figure(other)} → {_figure(shown)}" for name, (other, shown) in drift.changes.items())
    label = drift.cell.label(drift.evidence)
    return f"{label}, Triton {drift.triton} → {drift.shown}: {', '.join(figures)}"


def _figure(value: object) -> str:
    return NONE if value is None else f"{value:g}" if isinstance(value, float) else str(value)
