"""All samples of one cell, and how they lie in the side folder; needs no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from portkit.model import DeviceState

FUSED = "fused"

EVENTS, TRACE, WARM, GRAPH = "events", "trace", "warm", "graph"
"""Clocks and modes, by their names in a record."""

Series = Mapping[str, tuple[float, ...]]
"""Function → one time a round in ms, in the order of the rounds."""


@dataclass(frozen=True)
class Samples:
    """Every sample of one cell; none is dropped."""

    milliseconds: Mapping[str, Series]  # clock or mode → function → ms; round i of one clock is one stretch of time
    flush_bytes: int
    warmup: int  # rounds before the first sample
    settled: bool = False  # whether the intervals on events were narrow enough before the time limit
    places: int = 1  # copies of the inputs, which the rounds took in turn
    results: int = 0  # that stayed alive, so that the next lay elsewhere
    order_seed: int | None = None  # of the draw of each round's order; None: always that of the functions
    hold_ms: Mapping[str, float] = field(default_factory=dict)  # clock or mode → how long the device was held back
    late: Mapping[str, int] = field(default_factory=dict)  # function → samples on events that may hold launch gaps
    kernels: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # function → kernels of each traced call
    copies: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # function → copies and fills among them
    copied_ms: Series = field(default_factory=dict)  # function → their time in each traced call
    states: tuple[DeviceState, ...] = ()  # of the device: before, now and then during, after
    nulls: Mapping[str, str] = field(default_factory=dict)  # what was not taken, and why

    def to_json(self) -> bytes:
        """The samples as they go into the side folder; times in whole nanoseconds."""
        return json.dumps(
            {
                "unit": "ns",
                "order": "one sample of each function a round",
                "flush_bytes": self.flush_bytes,
                "warmup": self.warmup,
                "settled": self.settled,
                "places": self.places,
                "results": self.results,
                "order_seed": self.order_seed,
                "hold_ms": dict(self.hold_ms),
                "samples": {clock: _nanoseconds(series) for clock, series in self.milliseconds.items()},
                "late": dict(self.late),
                "kernels": _lists(self.kernels),
                "copies": _lists(self.copies),
                "copied": _nanoseconds(self.copied_ms),
                "states": [asdict(state) for state in self.states],
                "nulls": dict(self.nulls),
            }
        ).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Samples:
        """The samples that :meth:`to_json` wrote."""
        stored = json.loads(text)
        return cls(
            milliseconds={clock: _milliseconds(series) for clock, series in stored["samples"].items()},
            flush_bytes=stored["flush_bytes"],
            warmup=stored["warmup"],
            settled=stored["settled"],
            places=stored["places"],
            results=stored["results"],
            order_seed=stored.get("order_seed"),  # samples of rounds in one order have none
            hold_ms=stored["hold_ms"],
            late=stored["late"],
            kernels=_tuples(stored["kernels"]),
            copies=_tuples(stored.get("copies", {})),  # samples of before these were told apart have none
            copied_ms=_milliseconds(stored.get("copied", {})),
            states=tuple(DeviceState(**{**each, "throttle": tuple(each["throttle"])}) for each in stored["states"]),
            nulls=stored["nulls"],
        )


def _lists(counts: Mapping[str, tuple[int, ...]]) -> dict[str, list[int]]:
    return {name: list(each) for name, each in counts.items()}


def _tuples(counts: Mapping[str, list[int]]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(each) for name, each in counts.items()}


def _nanoseconds(series: Series) -> dict[str, list[int]]:
    return {name: [round(ms * 1e6) for ms in times] for name, times in series.items()}


def _milliseconds(series: Mapping[str, list[int]]) -> dict[str, tuple[float, ...]]:
    return {name: tuple(ns / 1e6 for ns in times) for name, times in series.items()}
