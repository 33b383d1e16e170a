"""How far a cell is from the limits of its device: the roofline, and the bound of fusion.

Pure: a record, what its device was measured to do, and its datasheet come in, figures
go out. A figure that is ``None`` has its reason in ``nulls`` under its name.

Definitions:

- intensity = ``flops`` ÷ ``fused_bytes`` of the work model, flop per byte.
- memory ceiling: the highest of copy, read and write bandwidth; compute ceiling: the
  matrix rate of the cell's dtype. A kernel without matrix instructions can't reach the
  latter, so a cell below the ridge is bound by memory whatever it computes with.
- ridge = compute ceiling ÷ memory ceiling: below it memory bounds, from it on arithmetic.
- attainment = achieved rate ÷ the ceiling that bounds.
- share of the fusion bound = ``speedup_kernel`` over ``eager`` ÷ (``unfused_bytes`` ÷ ``fused_bytes``).

Source of the model: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful
visual performance model for multicore architectures", CACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from portkit.model import Clock, Counted, Counters, DeviceProbe, Record, Target, Timing, Work

MEASURED: Final = "measured"
DATASHEET: Final = "datasheet"
MEMORY: Final = "memory"
COMPUTE: Final = "compute"

_KINDS: Final[Mapping[str, str]] = {
    "float32": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "int8": "int8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "float8_e4m3fnuz": "fp8",
    "float8_e5m2fnuz": "fp8",
}
"""Dtype of a cell → the kind of arithmetic whose matrix rate is its compute ceiling."""


@dataclass(frozen=True)
class Ceilings:
    """The two roofs of a device, from one origin."""

    origin: str  # measured or datasheet
    memory_gbs: float | None  # GB/s
    memory_by: str | None  # the access that reached it: copy_gbs, read_gbs or write_gbs; None on a datasheet
    compute_tflops: float | None  # TFLOP/s of the cell's kind of arithmetic

    @property
    def ridge(self) -> float | None:
        """Flop per byte at which the roofs meet; None where one is unknown."""
        if not self.memory_gbs or not self.compute_tflops:
            return None
        return self.compute_tflops * 1e3 / self.memory_gbs


@dataclass(frozen=True)
class Roofline:
    """How far one cell is from the limits of its device."""

    intensity: float | None  # flop per byte
    arithmetic: str | None  # kind whose matrix rate is the compute ceiling: float32, float16, bfloat16, fp8, int8
    ridge: float | None  # flop per byte
    bound: str | None  # memory or compute
    ceilings: str | None  # origin of ridge and bound: measured, or datasheet
    clock: str | None  # that achieved rates are of: trace, or events where there is no trace
    achieved_gbs: float | None  # fused_bytes ÷ time
    achieved_tflops: float | None  # flops ÷ time
    attainment_measured: float | None  # of the bounding ceiling, as measured on that device
    attainment_datasheet: float | None  # of the bounding ceiling, as the vendor states it
    share_of_fusion_bound: float | None  # on kernel time, against eager
    counted_gbs: Mapping[str, float] = field(default_factory=dict)  # function → DRAM bytes ÷ time, both counted
    counted_over_model: float | None = None  # DRAM bytes counted for the fused function ÷ fused_bytes
    nulls: Mapping[str, str] = field(default_factory=dict)  # figure → why it is None


Figure = tuple[float | None, str]
"""A figure, or None and the reason."""


def roofline(
    record: Record, probe: DeviceProbe | None, target: Target | None, counters: Counters | None = None
) -> Roofline:
    """Roofline of one record.

    Args:
        record: of any evidence; without a time there are no achieved rates.
        probe: of the device that ran it, see :func:`probe_of`.
        target: its SKU in the catalogue; None where the catalogue does not know it.
        counters: of the record.
    """
    kind = _KINDS.get(record.cell.dtype)
    roofs = (measured_ceilings(probe, kind), datasheet_ceilings(target, kind))
    intensity = _intensity(record)
    place, bound = _place(intensity, roofs, record.cell.dtype)
    clock, time_ms = _time(record.timing)
    rates = _rates(record, time_ms)
    figures: dict[str, Figure] = {
        "intensity": intensity,
        "ridge": (place.ridge if place else None, bound[1]),
        **rates,
        "attainment_measured": _attainment(rates, intensity, roofs[0], _why_no_probe(record, probe)),
        "attainment_datasheet": _attainment(rates, intensity, roofs[1], "no datasheet figure is in the catalogue"),
        "share_of_fusion_bound": _share(record),
        "counted_over_model": _over_model(record.work, counters),
    }
    reasons = {name: why for name, (value, why) in figures.items() if value is None}
    if bound[0] is None:
        reasons["bound"] = bound[1]
    return Roofline(
        arithmetic=kind,
        bound=bound[0],
        ceilings=place.origin if place else None,
        clock=clock,
        counted_gbs=_counted_gbs(counters),
        nulls=reasons,
        **{name: value for name, (value, _) in figures.items()},
    )


def probe_of(record: Record, probes: Iterable[DeviceProbe]) -> DeviceProbe | None:
    """What the record's own device was measured to do in its run."""
    return next((x for x in probes if (x.run_id, x.device_id) == (record.run_id, record.device_id)), None)


def measured_ceilings(probe: DeviceProbe | None, kind: str | None) -> Ceilings:
    """Roofs as measured; None where they were not."""
    if probe is None:
        return Ceilings(MEASURED, None, None, None)
    reached = {name: getattr(probe, name) for name in ("copy_gbs", "read_gbs", "write_gbs")}
    known = {name: value for name, value in reached.items() if value is not None}
    by = max(known, key=lambda name: known[name], default=None)
    return Ceilings(MEASURED, known[by] if by else None, by, probe.matmul_tflops.get(kind or ""))


def datasheet_ceilings(target: Target | None, kind: str | None) -> Ceilings:
    """Roofs as the vendor states them; None where no source gave them."""
    if target is None:
        return Ceilings(DATASHEET, None, None, None)
    return Ceilings(DATASHEET, target.memory_bandwidth_gbs, None, target.peak_tflops.get(kind or ""))


def _intensity(record: Record) -> Figure:
    if record.work is None:
        return None, record.nulls.get("work", "the record has no work model")
    if record.work.fused_bytes <= 0:
        return None, "the work model moves no bytes"
    return record.work.flops / record.work.fused_bytes, ""


def _place(
    intensity: Figure, roofs: tuple[Ceilings, Ceilings], dtype: str
) -> tuple[Ceilings | None, tuple[str | None, str]]:
    """The ceilings that decide, and what bounds; where none can, the reason."""
    value, why = intensity
    place = next((each for each in roofs if each.ridge is not None), None)
    if place is None or place.ridge is None:
        return None, (None, f"no pair of ceilings is known, measured or stated, for {dtype}")
    if value is None:
        return place, (None, why)
    return place, (_bound(value, place.ridge), "")


def _bound(intensity: float, ridge: float) -> str:
    return MEMORY if intensity < ridge else COMPUTE


def _time(timing: Timing | None) -> tuple[str | None, float | None]:
    """The clock that rates are of, and its median in ms."""
    if timing is None:
        return None, None
    name, clock = ("trace", timing.fused.trace) if timing.fused.trace else ("events", timing.fused.events)
    assert isinstance(clock, Clock)
    return name, clock.median_ms


def _rates(record: Record, time_ms: float | None) -> dict[str, Figure]:
    why = record.nulls.get("timing", "it was not timed") if time_ms is None else ""
    if record.work is None:
        why = record.nulls.get("work", "the record has no work model")
    if record.work is None or not time_ms:
        return dict.fromkeys(("achieved_gbs", "achieved_tflops"), (None, why or "its time is 0"))
    return {
        "achieved_gbs": (record.work.fused_bytes / time_ms / 1e6, ""),
        "achieved_tflops": (record.work.flops / time_ms / 1e9, ""),
    }


def _attainment(rates: Mapping[str, Figure], intensity: Figure, roofs: Ceilings, why_none: str) -> Figure:
    """Achieved rate ÷ the ceiling that bounds, both roofs of one origin."""
    gbs, why = rates["achieved_gbs"]
    tflops = rates["achieved_tflops"][0]
    if gbs is None or tflops is None:
        return None, why
    if intensity[0] is None:
        return None, intensity[1]
    if roofs.memory_gbs is None:
        return None, why_none
    if roofs.ridge is None or roofs.compute_tflops is None:
        return None, f"the compute ceiling is not known as {roofs.origin}, so neither is what bounds"
    if _bound(intensity[0], roofs.ridge) == MEMORY:
        return gbs / roofs.memory_gbs, ""
    return tflops / roofs.compute_tflops, ""


def _why_no_probe(record: Record, probe: DeviceProbe | None) -> str:
    if probe is None:
        return "its device was not measured in that run" if record.device_id else "it ran on no device"
    return probe.nulls.get("copy_gbs") or "no bandwidth of its device was measured"


def _share(record: Record) -> Figure:
    if record.timing is None:
        return None, record.nulls.get("timing", "it was not timed")
    if record.work is None:
        return None, record.nulls.get("work", "the record has no work model")
    ratio = record.timing.speedup_kernel.get("eager")
    if ratio is None:
        return None, _why_no_kernel_speedup(record)
    return ratio.value / record.work.fusion_bound, ""


def _why_no_kernel_speedup(record: Record) -> str:
    names = ("speedup_kernel.eager", "speedup.eager", "timing.eager", "timing.trace")
    told = next((record.nulls[name] for name in names if name in record.nulls), None)
    return told or "no kernel time of the eager chain was taken"


def _counted_gbs(counters: Counters | None) -> dict[str, float]:
    """Function → DRAM bytes ÷ its kernels' durations, of one profile."""
    functions = counters.functions if counters else {}
    rates = {name: _dram_gbs(counted) for name, counted in functions.items()}
    return {name: rate for name, rate in rates.items() if rate is not None}


def _dram_gbs(counted: Counted) -> float | None:
    total = dram_bytes(counted)
    return total / counted.duration_ms / 1e6 if total is not None and counted.duration_ms else None


def dram_bytes(counted: Counted) -> int | None:
    """Bytes that crossed the device's memory in one call, both ways; None where either is unknown."""
    if counted.dram_read_bytes is None or counted.dram_write_bytes is None:
        return None
    return counted.dram_read_bytes + counted.dram_write_bytes


def _over_model(work: Work | None, counters: Counters | None) -> Figure:
    if work is None or work.fused_bytes <= 0:
        return None, "there is no work model to compare with"
    if counters is None:
        return None, "no counters were taken"
    counted = counters.functions.get("fused")
    total = dram_bytes(counted) if counted else None
    if total is None:
        names = ("fused.dram_read_bytes", "fused.dram_write_bytes", "fused", "functions")
        told = next((counters.nulls[name] for name in names if name in counters.nulls), None)
        return None, told or "its DRAM bytes were not counted"
    return total / work.fused_bytes, ""
