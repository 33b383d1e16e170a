"""What torch.compile makes of a model: the first call, Inductor's code, its bytes, graph breaks.

Code and bytes come from Inductor's own hooks (``GraphLowering.save_output_code``, the log of its
metrics). They are not part of PyTorch's stable interface: where a release lacks one, the figure is
None with that reason. Compilation is cold: Inductor's caches on disk are switched off.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo
import torch._inductor.config
from torch._inductor import compile_fx, metrics
from torch._inductor.graph import GraphLowering

from portkit.run.scrub import scrub
from portkit.run.toggle.generated import generated
from portkit.run.toggle.subjects import Arguments, Model
from portkit.store.toggled import Break, Generated

_MODES_OF_ONE_CODE = 64  # torch.compile gives up after eight of one function, and each mode counts


@dataclass(frozen=True)
class Compiled:
    """A compiled model after its first call."""

    model: Model
    result: Any
    first_call_s: float
    code: Generated | None
    moved_bytes: int | None
    nulls: dict[str, str] = field(default_factory=dict)


def prepare() -> None:
    """Settings of this process that the experiment needs."""
    torch._inductor.config.force_disable_caches = True
    torch._dynamo.config.recompile_limit = max(_MODES_OF_ONE_CODE, torch._dynamo.config.recompile_limit)


def load(device: str) -> float:
    """Load the compiler and all that it prepares once in a process; seconds.

    What it compiles for that is a sum of two numbers, so that the first call of a mode is the mode's alone.
    """
    start = time.perf_counter()
    with contextlib.suppress(Exception):  # the first mode meets the same, and tells it
        torch.compile(lambda x: x + 1)(torch.ones(2, device=device))
    torch._dynamo.reset()
    return time.perf_counter() - start


def way_of(mode: str) -> str:
    """Name of the way that calls a model in a mode of torch.compile."""
    return f"compile {mode}"


def calling(compiled: Model, arguments: Arguments) -> Callable[[], Any]:
    """The call of a compiled model."""

    def call() -> Any:
        torch.compiler.cudagraph_mark_step_begin()  # results of the call before may be overwritten
        return arguments.call(compiled)

    return call


def compile_model(model: Model, mode: str, arguments: Arguments, finish: Callable[[], object]) -> Compiled:
    """Compile a model by its first call.

    Raises:
        Exception: whatever the compiler, or the compiled model, raises.
    """
    compiled = torch.compile(model, mode=mode)
    with _watched() as seen:
        start = time.perf_counter()
        result = arguments.call(compiled)
        finish()
        seconds = time.perf_counter() - start
    if not seen.codes:
        why = "Inductor handed over no code: nothing of the model was compiled"
        return Compiled(compiled, result, seconds, None, None, {"generated": why, "moved_bytes": why})
    code = generated(seen.codes, _operations())
    nulls = {} if seen.moved_bytes else {"moved_bytes": "this PyTorch counts no bytes of Inductor's code"}
    return Compiled(compiled, result, seconds, code, seen.moved_bytes or None, nulls)


def graph_breaks(model: Model, arguments: Arguments) -> tuple[Break, ...]:
    """Where torch.compile cuts the model's graph, and why.

    Raises:
        Exception: whatever Dynamo raises where it can't follow the model at all.
    """
    found = torch._dynamo.explain(model)(*arguments.positional, **arguments.named)
    torch._dynamo.reset()
    return tuple(_break(each) for each in found.break_reasons if getattr(each, "graph_break", True))


@dataclass
class _Seen:
    codes: list[str] = field(default_factory=list)
    moved_bytes: int = 0


@contextmanager
def _watched() -> Iterator[_Seen]:
    """What Inductor writes and counts meanwhile."""
    seen = _Seen()
    log = getattr(compile_fx, "inductor_metrics_log", logging.getLogger("portkit"))
    level, propagates = log.level, log.propagate
    metrics.reset()
    log.setLevel(logging.INFO)  # only then are bytes counted
    log.propagate = False
    try:
        with _handed_to(seen.codes.append):
            yield seen
        seen.moved_bytes = int(metrics.num_bytes_accessed)
    finally:
        log.setLevel(level)
        log.propagate = propagates


@contextmanager
def _handed_to(take: Callable[[str], None]) -> Iterator[None]:
    """Code that Inductor writes meanwhile is handed over, by the method that it has for that."""
    kept = GraphLowering.__dict__.get("save_output_code")
    GraphLowering.save_output_code = staticmethod(take)
    try:
        yield
    finally:
        if kept is None:
            del GraphLowering.save_output_code
        else:
            GraphLowering.save_output_code = kept


def _break(reason: Any) -> Break:
    frame = reason.user_stack[-1] if reason.user_stack else None
    place = scrub(f"{frame.filename}:{frame.lineno}") if frame else "place unknown"
    return Break(place, _reason(reason.reason))


def _reason(text: str) -> str:
    """Dynamo's headline with its explanation; its links and context stay away."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    explained = [each.removeprefix("Explanation: ") for each in lines[1:] if each.startswith("Explanation: ")]
    return scrub(": ".join([*lines[:1], *explained]))[:300]


def _operations() -> frozenset[str]:
    names = torch._C._dispatch_get_all_op_names()
    return frozenset(each.removeprefix("aten::").partition(".")[0] for each in names if each.startswith("aten::"))
