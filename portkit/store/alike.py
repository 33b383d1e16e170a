"""Whether two records of one cell may be compared, and if not, why.

Builds depend on source and compiler, times on much more: they are alike only where source,
toolchain, cache mode and the state of the clocks agree, and where both clocks are the same
one (:func:`common_clock`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from portkit.model import Clock, Evidence, Record, Timing

CLOCK_TOLERANCE: Final = 0.03
"""Share by which the SM clocks of two runs may differ; boost steps of one board are about 1 %."""


def by_toolchain(record: Record) -> bool:
    """Whether a row depends on the compiler alone, so that its version ranks before age."""
    return record.evidence in (Evidence.COMPILED, Evidence.EMULATED)


def version_set(record: Record) -> str | None:
    """What must be equal for two records of a cell to come from one toolchain.

    Triton's version alone where nothing ran on a GPU; torch, driver, toolkit and settings too where it did.
    """
    return record.triton if by_toolchain(record) else record.keys.env_key


def why_apart(one: Record, other: Record) -> str | None:
    """Why two records of one cell and evidence are no repetition of each other; None where they are."""
    if one.keys.source_hash != other.keys.source_hash:
        return "another source"
    if version_set(one) != version_set(other):
        return f"Triton {other.triton}" if by_toolchain(other) else "another toolchain"
    if one.timing is None or other.timing is None:
        return None if one.timing is other.timing else "not timed"
    return why_times_apart(one.timing, other.timing)


def why_times_apart(one: Timing, other: Timing) -> str | None:
    """Why times of one SKU can't be compared: cache mode or clock state; None where they can."""
    if why := why_targets_apart(one, other):
        return why
    clocks = sm_clock_mhz(one), sm_clock_mhz(other)
    if None not in clocks and apart(*clocks):
        return f"SM clock {clocks[0]:.0f} and {clocks[1]:.0f} MHz"
    return None


def mode(timing: Timing) -> tuple[bool, bool]:
    """What times of different targets and variants must share: whether caches were flushed, whether it throttled."""
    return timing.flush_bytes > 0, bool(timing.throttled)


def why_targets_apart(one: Timing, other: Timing) -> str | None:
    """The same of two SKUs, whose clocks differ by design."""
    if (one.flush_bytes > 0) != (other.flush_bytes > 0):
        return "caches flushed in one of them alone"
    if bool(one.throttled) != bool(other.throttled):
        return f"throttled in one of them alone ({', '.join(one.throttled or other.throttled)})"
    return None


def apart(one: float | None, other: float | None) -> bool:
    """Whether two SM clocks differ by more than :data:`CLOCK_TOLERANCE` of the first; unknown ones do not."""
    return one is not None and other is not None and abs(other - one) > CLOCK_TOLERANCE * one


def sm_clock_mhz(timing: Timing) -> float | None:
    """SM clock while it was timed; None where the device does not tell."""
    state = timing.states.get("during")
    return state.sm_clock_mhz if state else None


def common_clock(records: Iterable[Record]) -> str:
    """The clock that all timed records have: ``trace``, else ``events``."""
    timed = [record.timing for record in records if record.timing]
    return "trace" if timed and all(each.fused.trace for each in timed) else "events"


def fused_clock(record: Record, name: str) -> Clock | None:
    """The fused function's median on a clock, with its interval."""
    clock: Clock | None = getattr(record.timing.fused, name) if record.timing else None
    return clock
