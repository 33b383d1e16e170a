"""Which rows give a time to reckon with: one answer for savings and for sweeps."""

from __future__ import annotations

from portkit.analysis.functions import FUSED
from portkit.analysis.rows import POWER_CAP, ComparisonRow
from portkit.model import Evidence


def is_capped(row: ComparisonRow) -> bool:
    """Whether its times are those under the device's limit of power; the baseline's, of the same rounds, are too."""
    return POWER_CAP in row.incomparable


def why_unusable(row: ComparisonRow, baseline: str) -> str:
    """Why a row tells no time of the fused function and a baseline; empty where it does.

    Args:
        row: of any evidence.
        baseline: what must have been timed beside the fused function.
    """
    if row.evidence is not Evidence.MEASURED:
        return f"{row.evidence} only: it has no time"
    if not row.status.good:
        return f"measured, but {row.status}"
    if others := [each for each in row.incomparable if each != POWER_CAP]:
        return f"measured, but {others[0]}"
    if row.older_source:
        return "measured of an older source of the kernel"
    timed = [x for x in row.functions if x.name in (FUSED, baseline) and x.events is not None and x.status.good]
    return "" if len(timed) == 2 else f"measured, but its baseline {baseline} was not timed, or was not right"
