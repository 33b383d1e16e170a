"""Figures of a merged row, and for each that is None the reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from portkit.analysis.functions import FUSED, NO_COUNTERS, function_rows
from portkit.model import Build, Counters, Evidence, Occupancy, Timing, Verdict, Work
from portkit.store.merge import Row

Figures = dict[str, float | None]

NOT_RUN: Final = "compiled only: it was not run"
NO_TIME: Final = "only a GPU has a time"
NO_BINARY: Final = "interpreted: there is no binary"
CLUSTERS: Final = "clusters of blocks (num_ctas > 1) are not modelled"
NO_EAGER: Final = "no eager baseline was timed"
NO_REASON: Final = "no reason was recorded"

BY_EVIDENCE: Final = frozenset({NOT_RUN, NO_TIME, NO_BINARY})
"""Reasons that an evidence's mark alone tells."""


def figures_of(row: Row) -> Figures:
    """All figures of a row, by the names of the comparison's fields."""
    record = row.record
    return {
        **_build_figures(record.build),
        **_time_figures(record.timing, record.work),
        **_achieved_figures(row.counters),
        **_error_figures(record.verdict),
    }


def tuning_ranges(build: Build | None) -> Mapping[str, tuple[float, float]]:
    """Figure → lowest and highest over the configurations of an autotuner whose choice is open."""
    ranges = build.tuning.ranges if build and build.tuning else {}
    return {name: ends for name, ends in ranges.items() if name != "occupancy_pct" or not _clusters(build)}


def known_occupancy(build: Build | None) -> Occupancy | None:
    """The worst occupancy, unless a launch makes clusters, which the rules of occupancy do not know."""
    return None if build is None or _clusters(build) else build.worst_occupancy


def _clusters(build: Build | None) -> bool:
    return build is not None and any((x.options.get("num_ctas") or 1) > 1 for x in build.candidates)


def _build_figures(build: Build | None) -> Figures:
    occupancy = known_occupancy(build)
    return {
        "registers_per_thread": build.registers_per_thread if build else None,
        "spill_bytes_per_thread": build.spill_bytes_per_thread if build else None,
        "shared_bytes_per_block": build.shared_bytes_per_block if build else None,
        "occupancy_pct": occupancy.percent if occupancy else None,
    }


def _time_figures(timing: Timing | None, work: Work | None) -> Figures:
    eager = timing.speedup.get("eager") if timing else None
    kernel = timing.speedup_kernel.get("eager") if timing else None
    bound = work.fusion_bound if work else None
    return {
        **_fused_times(timing),
        "speedup": eager.value if eager else None,
        "speedup_low": eager.low if eager else None,
        "speedup_high": eager.high if eager else None,
        "speedup_kernel": kernel.value if kernel else None,
        "fusion_bound": bound,
        "share_of_bound": kernel.value / bound if kernel and bound else None,
    }


def _fused_times(timing: Timing | None) -> Figures:
    events = timing.fused.events if timing else None
    trace = timing.fused.trace if timing else None
    return {
        "median_ms": events.median_ms if events else None,
        "low_ms": events.low_ms if events else None,
        "high_ms": events.high_ms if events else None,
        "trace_ms": trace.median_ms if trace else None,
    }


def _achieved_figures(counters: Counters | None) -> Figures:
    fused = counters.functions.get(FUSED) if counters else None
    return {name: getattr(fused, name) if fused else None for name in _ACHIEVED}


_ACHIEVED: Final = ("occupancy_achieved_pct", "occupancy_achieved_elapsed_pct")


def _error_figures(verdict: Verdict | None) -> Figures:
    """Error of the output nearest to its limit; None where one output's is unknown."""
    outputs = [(x.fused_error, x.limit) for x in verdict.outputs] if verdict else []
    known = [(_ratio(error, limit), error, limit) for error, limit in outputs if error is not None]
    ratio, error, limit = max(known) if known and len(known) == len(outputs) else (None, None, None)
    if ratio is None or not math.isfinite(ratio):
        return {"error": None, "error_limit": limit, "error_over_limit": None}
    return {"error": error, "error_limit": limit, "error_over_limit": ratio}


def _ratio(error: float, limit: float) -> float:
    """Error in units of its limit; a NaN counts as the worst there is."""
    if math.isnan(error):
        return math.inf
    return error / limit if limit else (math.inf if error else 0.0)


_FIGURE_PARTS: Mapping[str, tuple[str, frozenset[Evidence], str]] = {
    # figure → part of the record, evidences that have it, why the others have not
    **dict.fromkeys(
        ("registers_per_thread", "spill_bytes_per_thread", "shared_bytes_per_block", "occupancy_pct"),
        ("build", frozenset(Evidence) - {Evidence.INTERPRETED}, NO_BINARY),
    ),
    **dict.fromkeys(
        (
            *("median_ms", "low_ms", "high_ms", "trace_ms", "share_of_bound"),
            *("speedup", "speedup_low", "speedup_high", "speedup_kernel"),
        ),
        ("timing", frozenset({Evidence.MEASURED}), NO_TIME),
    ),
    **dict.fromkeys(_ACHIEVED, ("counters", frozenset({Evidence.MEASURED}), NO_TIME)),
    "fusion_bound": ("work", frozenset(Evidence), ""),
    **dict.fromkeys(
        ("error", "error_limit", "error_over_limit"),
        ("verdict", frozenset(Evidence) - {Evidence.COMPILED}, NOT_RUN),
    ),
}


def why_null(figure: str, row: Row) -> str:
    """Why a figure of a row is None."""
    record = row.record
    if figure == "occupancy_pct" and _clusters(record.build):
        return CLUSTERS
    part, evidences, otherwise = _FIGURE_PARTS[figure]
    if record.evidence not in evidences:
        return otherwise
    if given := _given_reason(figure, part, row):
        return given
    if part == "verdict" and record.verdict:
        return _why_no_error(record.verdict)
    if record.outcome.status.good:
        return _why_derived_null(figure, row)
    return record.outcome.message or record.outcome.status.value


def _given_reason(figure: str, part: str, row: Row) -> str | None:
    nulls = row.record.nulls
    if part == "counters" and row.counters:
        told = row.counters.nulls
        return told.get(f"{FUSED}.{figure}") or told.get(FUSED) or told.get("functions")
    return nulls.get(figure) or nulls.get(part) or nulls.get("nulls")


def _why_derived_null(figure: str, row: Row) -> str:
    record = row.record
    if figure == "share_of_bound" and record.work is None:
        return record.nulls.get("work", NO_REASON)
    if record.timing and (function := _FUNCTION_OF.get(figure)):
        name, its_figure = function
        return next((x.nulls.get(its_figure, NO_REASON) for x in function_rows(row) if x.name == name), NO_EAGER)
    return NO_COUNTERS if figure in _ACHIEVED else NO_REASON


_FUNCTION_OF: Final[Mapping[str, tuple[str, str]]] = {
    "trace_ms": (FUSED, "trace"),
    **dict.fromkeys(("speedup", "speedup_low", "speedup_high"), ("eager", "speedup")),
    **dict.fromkeys(("speedup_kernel", "share_of_bound"), ("eager", "speedup_kernel")),
}
"""Figure of a row → the function and its figure whose reason holds for it too."""


def _why_no_error(verdict: Verdict) -> str:
    if not all(output.nonfinite_agree for output in verdict.outputs):
        return "NaN or infinity where the reference has none, or the reverse"
    return "the error is not finite"
