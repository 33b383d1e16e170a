"""The catalogue of GPUs as a table for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from portkit.model import Target
from portkit.render.columns import NONE, Column, Notes, plain_table, wrapped
from portkit.targets.tables import GIB, PEAKS


def targets_plain(targets: Sequence[Target], width: int | None) -> str:
    """A line a target, and what the signs mean.

    Args:
        targets: in the order of the lines.
        width: characters of the terminal; None: as wide as it is.
    """
    table = plain_table(_COLUMNS, targets, lambda _: "", Notes(), width, "--json")
    return f"{table}\n\n" + wrapped([f"{NONE} unknown or without a source. Dense peaks in TFLOP/s."], width)


def _text(name: str, cell: Callable[[Target], str], spare: int = 0) -> Column[Target]:
    return Column(("", "", name), lambda target, notes: cell(target), spare=spare)


def _figure(head: tuple[str, str], cell: Callable[[Target], float | None], spare: int = 0) -> Column[Target]:
    return Column(("", *head), lambda target, notes: _number(cell(target)), right=True, spare=spare)


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:g}"


def _memory_gib(target: Target) -> float | None:
    return None if target.memory_bytes is None else round(target.memory_bytes / GIB)


def _peak(kind: str, spare: int) -> Column[Target]:
    return _figure(("", kind), lambda target: target.peak_tflops.get(kind), spare)


_PEAK_SPARE: Final = {"float32": 2, "tf32": 8, "float16": 5, "bfloat16": 3, "fp8": 6}

_COLUMNS: Final = (
    _text("name", lambda target: target.name),
    _text("title", lambda target: target.title, 10),
    _text("vendor", lambda target: target.vendor, 9),
    _text("arch", lambda target: target.architecture.name),
    _figure(("", "units"), lambda target: target.units),
    _figure(("", "GB/s"), lambda target: target.memory_bandwidth_gbs),
    _figure(("memory", "GiB"), _memory_gib, 4),
    _figure(("L2", "MiB"), lambda target: target.l2_mib, 7),
    *(_peak(kind, _PEAK_SPARE[kind]) for kind in PEAKS),
)
