"""A toggle as text, and as data."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from portkit.analysis.toggle import Spent, spent
from portkit.plan.baselines import EAGER
from portkit.render.columns import NONE, Column, Notes, plain_table, wrapped
from portkit.store.schema import plain
from portkit.store.toggled import Fused, Toggled, Way

MOST_KERNELS = 12
"""Fused kernels that are told of one mode; --json has all."""


def toggle_plain(found: Toggled, width: int | None) -> str:
    """What was found, for a terminal of a width."""
    notes = Notes()
    table = plain_table(_columns(found), found.ways, lambda _: "", notes, width)
    parts = [wrapped(_head(found), width), table, _breaks(found, width), *_fusions(found), _times(found, width)]
    parts.append(_not_compiled(found, width))
    parts.append(wrapped((f"[{number}] {text}" for number, text in notes.numbered()), width))
    return "\n\n".join(part for part in parts if part)


def toggle_json(found: Toggled) -> str:
    """What was found as data, with where the time goes."""
    bounds = {way.name: asdict(spent(way, found)) for way in found.ways}
    return json.dumps({**plain(asdict(found)), "time_goes_to": bounds}, indent=2)


def _head(found: Toggled) -> Iterator[str]:
    yield f"{found.model} on {', '.join(found.inputs)}: {found.dtype}, {found.device}, torch {found.torch}"
    settled = "every median known to half a per cent" if found.settled else "medians did not settle in them"
    yield f"wall clock, warm, {found.rounds} rounds, each way once a round in an order drawn anew; {settled}"
    if found.loading_s is not None:
        yield f"the compiler itself took {found.loading_s:.1f} s to load, once; it is in no first call"
    if any(way.mode is None and way.name != EAGER and way.wall for way in found.ways):
        yield "variants run in processes of their own; a sample of any way is its second call in a row"
    if not found.on_gpu and any(way.mode == "reduce-overhead" for way in found.ways):
        yield "on a CPU: reduce-overhead, which is CUDA graphs, is the same as default there"
    yield from (found.nulls[name] for name in ("reference", "agreement", "counts", "flops") if name in found.nulls)


# --------------------------------------------------------------------------
# The table


def _columns(found: Toggled) -> Sequence[Column[Way]]:
    called = "launches" if found.on_gpu else "calls"
    kernel = (Column[Way](("kernel", "time", "ms"), _kernel_ms, right=True),) if found.on_gpu else ()
    return (
        Column(("", "", "way"), lambda way, _: way.name),
        Column(("", "", "ms"), lambda way, _: _three(way.wall.median_ms) if way.wall else NONE, right=True),
        Column(("", "", "speedup"), lambda way, _: _speedup(way), right=True),
        Column(("", "", "95 %"), lambda way, _: _interval(way)),
        Column(("first", "call", "s"), lambda way, _: _or_none(way.first_call_s, "{:.1f}"), right=True),
        *kernel,
        Column(("", "", called), lambda way, notes: _noted(way, "launches", way.launches, notes), right=True),
        Column(("", "", "MB moved"), lambda way, notes: _noted(way, "moved_bytes", _mb(way), notes), right=True),
        *_counted(found),
        Column(("", "", "result"), _result),
    )


def _counted(found: Toggled) -> Sequence[Column[Way]]:
    """The column of hardware counters, where they were asked for."""
    if not any(way.dram_bytes is not None or "dram_bytes" in way.nulls for way in found.ways):
        return ()
    return (Column[Way](("", "MB", "counted"), _dram_mb, right=True),)


def _dram_mb(way: Way, notes: Notes) -> str:
    megabytes = None if way.dram_bytes is None else f"{way.dram_bytes / 1e6:.1f}"
    return _noted(way, "dram_bytes", megabytes, notes)


def _kernel_ms(way: Way, notes: Notes) -> str:
    return _noted(way, "kernel_ms", None if way.kernel_ms is None else _three(way.kernel_ms), notes)


def _three(milliseconds: float) -> str:
    """Three digits, or all before the point."""
    digits = 2 - math.floor(math.log10(milliseconds)) if milliseconds > 0 else 2
    return f"{milliseconds:.{max(0, digits)}f}"


def _speedup(way: Way) -> str:
    return _or_none(way.speedup.value if way.speedup else None, "{:.2f}")


def _interval(way: Way) -> str:
    if way.speedup is None or way.speedup.low is None or way.speedup.high is None:
        return ""
    unclear = ", may be 1" if way.speedup.low <= 1 <= way.speedup.high else ""
    return f"{way.speedup.low:.2f} to {way.speedup.high:.2f}{unclear}"


def _mb(way: Way) -> str | None:
    return None if way.moved_bytes is None else f"{way.moved_bytes / 1e6:.1f}"


def _or_none(value: float | None, form: str) -> str:
    return NONE if value is None else form.format(value)


def _noted(way: Way, name: str, value: object, notes: Notes) -> str:
    if value is not None:
        return str(value)
    return NONE + (notes.mark(way.nulls[name]) if name in way.nulls and way.failed is None else "")


def _result(way: Way, notes: Notes) -> str:
    if way.failed is not None:
        return f"fails{notes.mark(way.failed)}"
    if way.agreement is None:
        return f"{NONE}{notes.mark(way.nulls['agreement'])}" if "agreement" in way.nulls else "what others are held to"
    if not way.agreement.right:
        return f"wrong{notes.mark(way.agreement.why_wrong)}"
    weights = notes.mark(way.nulls["weights"]) if "weights" in way.nulls else ""
    return f"right, rms {way.agreement.rms:.1g} of {way.agreement.rms_limit:.1g}{weights}"


# --------------------------------------------------------------------------
# What torch.compile did


def _breaks(found: Toggled, width: int | None) -> str:
    if found.breaks is None:
        return wrapped([f"Graph breaks: {found.nulls.get('breaks', 'not known')}"], width)
    if not found.breaks:
        return "Graph breaks: none" if any(way.mode for way in found.ways) else ""
    told = (f"  {each.place}  {each.reason}" for each in found.breaks)
    return f"Graph breaks: {len(found.breaks)}\n{wrapped(told, width)}"


def _not_compiled(found: Toggled, width: int | None) -> str:
    if not any(way.mode and way.failed is not None for way in found.ways):
        return ""
    remedy = "keep what it can't compile out of it by torch.compiler.disable, or leave the mode out of --modes"
    return wrapped([f"A mode does not compile: {remedy}"], width)


def _fusions(found: Toggled) -> Iterator[str]:
    told: dict[str, list[str]] = {}
    for way in found.ways:
        if way.generated is not None:
            told.setdefault("\n".join(_kernels(way)), []).append(way.name)
    for text, names in told.items():
        yield f"Inductor's code, {', '.join(names)}:\n{text}"


def _kernels(way: Way) -> Iterator[str]:
    assert way.generated is not None
    kernels = _alike(way.generated.kernels)
    for text, calls in list(kernels.items())[:MOST_KERNELS]:
        yield f"  {calls:>4} × {text}"
    if len(kernels) > MOST_KERNELS:
        yield f"         and {len(kernels) - MOST_KERNELS} more kinds of kernel (--json has them)"
    for name, calls in way.generated.library.items():
        yield f"  {calls:>4} × {name}, a library's"


def _alike(kernels: Sequence[Fused]) -> dict[str, int]:
    """Kernels of the same operations are one line."""
    calls: dict[str, int] = {}
    for each in kernels:
        text = " + ".join(each.operations) or each.kernel
        calls[text] = calls.get(text, 0) + each.calls
    return dict(sorted(calls.items(), key=lambda pair: -pair[1]))


# --------------------------------------------------------------------------
# Where the time goes


def _times(found: Toggled, width: int | None) -> str:
    if not found.on_gpu:
        return "Where the time goes: not known, since no ceilings are measured on a CPU"
    lines = (f"  {way.name}: {_spent(spent(way, found))}" for way in found.ways)
    return f"Where the time goes\n{wrapped(lines, width)}"


def _spent(judged: Spent) -> str:
    idle = "" if judged.idle is None else f"the device is idle for {judged.idle:.0%} of the wall clock"
    if judged.bound is None:
        return "; ".join(part for part in (judged.why, idle) if part)
    near = "" if judged.attained is None else f", its kernels at {judged.attained:.0%} of that ceiling"
    return f"{judged.bound}-bound{near}; {idle}"
