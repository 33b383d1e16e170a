"""``portkit diff``: one kernel on two targets, stage by stage, side by side or one under the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from portkit.analysis.cells import label_of
from portkit.analysis.lowering import IGNORED, STAGES, Compared, Hunk, Line, Pair, Side, compare
from portkit.render.columns import NONE
from portkit.store.texts import STAGES as MEANS

RESOURCES: Final = "resources"
SIDE_BY_SIDE: Final = 140
"""Columns from which on two texts have room beside each other."""


@dataclass(frozen=True)
class Wanted:
    """What is shown of a pair."""

    stages: Sequence[str]  # of STAGES, and resources
    raw: bool = False  # lines as they are
    context: int = 3  # equal lines around each difference
    beside: bool | None = None  # side by side; None: where the terminal is wide enough


def print_pair(console: Console, pair: Pair, wanted: Wanted) -> None:
    """Write one operation on two targets."""
    console.print(Text.assemble((label_of(pair.left), "bold"), " and ", (label_of(pair.right), "bold")))
    if pair.others:
        told = f"{pair.others} more operations of this kernel were built for both: -k SHAPE, DTYPE or VARIANT chooses"
        console.print(Text(told, "dim"))
    console.print(Text("Lines are compared as they are." if wanted.raw else f"Not compared: {IGNORED} (--raw does)."))
    for text in pair.unpaired:
        console.print(Text(text, "yellow"))
    for left, right in pair.kernels:
        _print_kernel(console, left, right, wanted)


def _print_kernel(console: Console, left: Side, right: Side, wanted: Wanted) -> None:
    names = dict.fromkeys((left.launch.kernel, right.launch.kernel))
    _print_title(console, " / ".join(names))
    if RESOURCES in wanted.stages:
        console.print(_resources(left, right))
    for stage in STAGES:
        found = compare(left, right, stage, raw=wanted.raw)
        if found is None:
            console.print(Text(f"\n{stage}: {_why_not(left, right, stage)}", "yellow"))
        elif stage in wanted.stages:
            _print_stage(console, found, (left.target, right.target), wanted)
        else:
            hint = f": --stage {stage} shows it" if found.changed else ""
            console.print(Text(f"\n{_summary(found)}{hint}", "dim"))


def _print_title(console: Console, title: str) -> None:
    console.print()
    console.print(Rule(Text(title, style="bold"), align="left", style="dim", characters="─"))


def _why_not(left: Side, right: Side, stage: str) -> str:
    told = {side.target: side.texts.nulls.get(stage) for side in (left, right)}
    return ", ".join(f"{why} on {target}" for target, why in told.items() if why) or "not kept for both"


# -- resources


def _resources(left: Side, right: Side) -> Table:
    """Figures of both binaries; those that differ are marked."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("resources")
    for side in (left, right):
        table.add_column(Text(side.target), overflow="fold")
    ones, others = _figures(left), _figures(right)
    for name in dict.fromkeys((*ones, *others)):
        one, other = ones.get(name, NONE), others.get(name, NONE)
        style = "" if one == other else "bold yellow"
        table.add_row("" if one == other else "≠", Text(name), Text(one, style), Text(other, style))
    return table


def _figures(side: Side) -> Mapping[str, str]:
    launch = side.launch
    resources, theory = launch.resources, launch.occupancy
    options = {name: value for name, value in launch.options.items() if name not in ("num_warps", "num_stages")}
    figures: Mapping[str, Any] = {
        "kernel": launch.kernel,
        "registers/thread": resources.registers_per_thread,
        "spills B/thread": resources.spill_bytes_per_thread,
        "shared B/block": resources.shared_bytes_per_block,
        "threads/block": resources.threads_per_block,
        "threads/warp": resources.warp_size,
        "occupancy % (theoretical)": f"{theory.percent:.0f}",
        "limited by": theory.limiter,
        "grid": "×".join(map(str, launch.grid)),
        "warps": launch.num_warps,
        "stages": launch.num_stages,
        **{f"constant {name}": value for name, value in launch.constants.items()},
        **{f"option {name}": value for name, value in options.items()},
        **{f"argument {name}": value for name, value in launch.specialization.items()},
        **{f"signal {name}": value for name, value in (launch.signals or {}).items()},
    }
    return {name: str(value) for name, value in figures.items()}


# -- texts


def _summary(found: Compared) -> str:
    names = dict.fromkeys(found.names)
    counts = f"{len(found.left)} and {len(found.right)} lines"
    told = "the same" if not found.changed else f"{found.changed} differ"
    told = told if found.comparable else "in two languages"
    return f"{' / '.join(names)} ({', '.join(MEANS[name] for name in names)}): {counts}, {told}"


def _print_stage(console: Console, found: Compared, targets: tuple[str, str], wanted: Wanted) -> None:
    console.print(Text(f"\n{_summary(found)}", "bold"))
    if not found.changed:
        return
    wide = console.width >= SIDE_BY_SIDE
    if wide if wanted.beside is None else wanted.beside:
        console.print(_beside(found, targets, console.width, wanted.context))
        return
    console.print(Text.assemble((f"--- {targets[0]}", "red"), "  ", (f"+++ {targets[1]}", "green")))
    for line in _unified(found, wanted.context):
        console.print(line, soft_wrap=True)  # its sign stands for the whole line


def _grouped(hunks: Sequence[Hunk], context: int) -> Iterator[Hunk]:
    """Hunks with no more equal lines than the context; what is left out stands as ``skip``."""
    last = len(hunks) - 1
    for number, (what, a, b, c, d) in enumerate(hunks):
        if what != "equal":
            yield what, a, b, c, d
            continue
        before, after = (context if number else 0), (context if number < last else 0)
        if b - a <= before + after + 1:
            yield what, a, b, c, d
            continue
        yield what, a, a + before, c, c + before
        yield "skip", a + before, b - after, c + before, d - after
        yield what, b - after, b, d - after, d


def _unified(found: Compared, context: int) -> Iterator[Text]:
    for what, a, b, c, d in _grouped(found.hunks, context):
        if what == "skip":
            yield Text(f"  … {b - a} equal lines", "dim")
        elif what == "equal":
            yield from (Text(f"  {line.text}") for line in found.left[a:b])
        else:
            yield from (Text(f"- {line.text}", "red") for line in found.left[a:b])
            yield from (Text(f"+ {line.text}", "green") for line in found.right[c:d])


def _beside(found: Compared, targets: tuple[str, str], width: int, context: int) -> Table:
    half = (width - 5) // 2
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(Text(targets[0]), width=half, overflow="fold")
    table.add_column("", width=1)
    table.add_column(Text(targets[1]), width=half, overflow="fold")
    for what, a, b, c, d in _grouped(found.hunks, context):
        if what == "skip":
            table.add_row(Text(f"… {b - a} equal lines", "dim"), "", "")
            continue
        for one, other in _rows(found.left[a:b], found.right[c:d]):
            table.add_row(*_cells(what, one, other))
    return table


def _rows(ones: Sequence[Line], others: Sequence[Line]) -> Iterator[tuple[Line | None, Line | None]]:
    for number in range(max(len(ones), len(others))):
        yield (
            ones[number] if number < len(ones) else None,
            others[number] if number < len(others) else None,
        )


def _cells(what: str, one: Line | None, other: Line | None) -> tuple[Text, Text, Text]:
    if what == "equal":
        return Text(one.text if one else ""), Text(), Text(other.text if other else "")
    sign = "|" if one and other else "<" if one else ">"
    return Text(one.text if one else "", "red"), Text(sign, "dim"), Text(other.text if other else "", "green")
