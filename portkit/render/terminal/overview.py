"""``portkit report``: which kernels do not carry over and why, at a glance.

What does not carry over, each with its cause, then kernels × targets with a mark for each evidence, the gravest
findings, and the times. Tables are divided where the terminal is narrow, never cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from portkit.analysis.findings.rule import Severity
from portkit.analysis.findings.summary import Alike, alike, top
from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.analysis.views.kernels import kernel_summaries
from portkit.analysis.views.marks import Gap, Mark, gaps, marks, targets_by_platform
from portkit.analysis.views.operations import operation_of
from portkit.analysis.views.standing import Standing
from portkit.model import Direction, Evidence, Platform
from portkit.render.columns import NONE, decimals, milliseconds, one_line, percent, whole
from portkit.render.table import EVIDENCE_MEANS, GPU_OF
from portkit.render.verdict import Tone, verdict

SIGNS: Final[Mapping[Standing, tuple[str, str]]] = {
    Standing.GOOD: ("✓", "green"),
    Standing.BAD: ("✗", "bold red"),
    Standing.NO_VERDICT: ("?", "bold magenta"),
    Standing.EXPECTED: ("!", "yellow"),
    Standing.EXCLUDED: ("-", "dim"),
}
"""Standing → its sign and style; the sign alone tells it, where there is no colour."""

MEANS: Final[Mapping[Standing, str]] = {
    Standing.GOOD: "good",
    Standing.BAD: "does not run there, or is wrong there",
    Standing.NO_VERDICT: "no verdict: portkit or the host failed",
    Standing.EXPECTED: "a gap that the matrix expects",
    Standing.EXCLUDED: "left out by the plan",
}

FINDINGS: Final = 5
"""Findings that are told unless asked for more."""

MOST_GAPS: Final = 12
MOST_TIMES: Final = 16

_SEVERITY: Final[Mapping[Severity, str]] = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "yellow",
    Severity.INFO: "cyan",
}

TIMES_MEAN: Final = (
    "ms events: median on device events, end to end; ms trace: the kernels alone. × vs eager: with its 95 % interval. "
    "% of ceiling: of the device's measured bandwidth or arithmetic, whichever bounds. occ. got/th.: achieved by "
    "hardware counters, and theoretical."
)

_TONES: Final[Mapping[Tone, str]] = {
    Tone.BAD: "bold red",
    Tone.NO_VERDICT: "bold magenta",
    Tone.GOOD: "bold green",
    Tone.COST: "yellow",
    Tone.NOTHING: "dim",
}
"""How the lines of the verdict look."""

_VENDORS: Final = {Platform.CUDA: "NVIDIA", Platform.ROCM: "AMD", None: "CPU"}


def print_overview(console: Console, comparison: Comparison, findings: int | None, next_steps: Sequence[str]) -> None:
    """Write the overview.

    Args:
        console: where to.
        comparison: what to show.
        findings: the most that are told, those alike counted once; None for all.
        next_steps: commands that say more, each with what it says.
    """
    parts = list(_parts(comparison, console.width, findings))
    for part in parts:
        console.print(part)
    if console.is_terminal and sum(len(console.render_lines(part)) for part in parts) > console.height:
        for part in _section("In short", _verdict(comparison)):  # the first lines have left the screen
            console.print(part)
    for part in _section("Next", [Text(step) for step in next_steps] if comparison.rows else []):
        console.print(part, soft_wrap=True)  # to be copied: never broken


def _parts(comparison: Comparison, width: int, findings: int | None) -> Iterator[RenderableType]:
    yield _head(comparison)
    if not comparison.rows:
        return
    yield from _section("Not good, and why", _gap_lines(gaps(comparison.rows)))
    yield from _section("Kernels by target", [Text(_signs(comparison), "dim")])
    yield from _grids(comparison, width)
    yield from _section("Findings", _finding_lines(comparison, findings))
    yield from _section("Times", _times(comparison, width))
    yield from _section("What the words mean", _legend(comparison))


def _section(title: str, parts: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """A titled part of the overview; nothing where it has no lines."""
    if lines := list(parts):
        yield Text()
        yield Rule(Text(title, style="bold"), align="left", style="dim", characters="─")
        yield Group(*lines)


def _head(comparison: Comparison) -> RenderableType:
    lines = [*_verdict(comparison), *_counts(comparison)]
    lines += [Text(f"No row here was run on {GPU_OF[each]}.", "yellow") for each in comparison.not_measured]
    lines += [Text(f"MISSING: no row of {name}", "bold red") for name in comparison.missing]
    lines += [Text(f"warning: {one_line(text)}", "yellow") for text in comparison.warnings]
    return Group(*lines)


def _verdict(comparison: Comparison) -> Iterator[Text]:
    for kind, text in verdict(kernel_summaries(comparison)):
        yield Text(text, _TONES[kind])


def _counts(comparison: Comparison) -> Iterator[Text]:
    parts = [
        f"{evidence} " + ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        for evidence, counts in comparison.counts.items()
    ]
    reports = f"{len(comparison.runs)} report{'s' * (len(comparison.runs) != 1)}"
    toolchain = [f"Triton {comparison.triton}"] if comparison.triton else []
    yield Text(" · ".join([reports, *toolchain, *parts]))


# -- kernels × targets


def _grids(comparison: Comparison, width: int) -> Iterator[RenderableType]:
    """A table a vendor, divided where its targets have no room beside each other; the worst kernels first."""
    found = marks(comparison.rows)
    pages = [each.page for each in kernel_summaries(comparison)]
    for platform, targets in targets_by_platform(comparison.rows).items():
        for part in _divided(targets, pages, found, width):
            yield Text()
            yield _grid(_VENDORS[platform], part, pages, found)


_Marks = Mapping[tuple[str, str], tuple[Mark, ...]]


def _divided(targets: Sequence[str], pages: Sequence[str], found: _Marks, width: int) -> Iterator[list[str]]:
    """Targets that fit beside each other; one at least."""
    room = width - max(map(len, ["NVIDIA", *pages]))
    part: list[str] = []
    used = 0
    for target in targets:
        needed = 2 + max(len(target), *(len(_cell(found.get((page, target), ()))) for page in pages))
        if part and used + needed > room:
            yield part
            part, used = [], 0
        part.append(target)
        used += needed
    if part:
        yield part


def _grid(vendor: str, targets: Sequence[str], pages: Sequence[str], found: _Marks) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(Text(vendor), no_wrap=True, overflow="ellipsis")
    for target in targets:
        table.add_column(Text(target), no_wrap=True)
    for page in pages:
        table.add_row(Text(page), *(_cell(found.get((page, target), ())) for target in targets))
    return table


def _cell(of: Sequence[Mark]) -> Text:
    """``M✓ C✗2/5``: by evidence the worst of its rows, and how many are so where not all are."""
    text = Text() if of else Text(NONE, "dim")
    for mark in of:
        sign, style = SIGNS[mark.standing]
        some = "" if mark.alike == mark.rows else f"{mark.alike}/{mark.rows}"
        text.append(" " if text else "")
        text.append(f"{mark.evidence.value[0].upper()}{sign}{some}", style)
    return text


# -- what is not good


def _gap_lines(found: Sequence[Gap]) -> Iterator[RenderableType]:
    for gap in found[:MOST_GAPS]:
        sign, style = SIGNS[gap.standing]
        head = Text.assemble(
            (f"{sign} {gap.what}", style),
            f": {gap.status} on {', '.join(gap.targets)} ",
            (f"({', '.join(gap.evidence)}, {len(gap.rows)} row{'s' * (len(gap.rows) > 1)})", "dim"),
        )
        yield head
        if gap.cause:
            yield Padding(Text(one_line(gap.cause)), (0, 0, 0, 2))
    if len(found) > MOST_GAPS:
        yield Text(f"and {len(found) - MOST_GAPS} more kinds of failure: portkit merge has them", "dim")


# -- findings


def _finding_lines(comparison: Comparison, most: int | None) -> Iterator[RenderableType]:
    shown, more = top(alike(comparison.findings), most)
    for group in shown:
        yield _finding_head(group)
        yield Padding(Text(group.first.explanation), (0, 0, 0, 2))
        yield Padding(Text.assemble(("Remedy: ", "bold"), group.first.remedy), (0, 0, 0, 2))
    if more:
        yield Text(f"and {more} more findings: --findings all tells them", "dim")


def _finding_head(group: Alike) -> Text:
    first = group.first
    backward = " backward" if first.direction is Direction.BACKWARD else ""
    others = f" and {group.others} more" if group.others else ""
    shape = "x".join(map(str, first.shape))
    return Text.assemble(
        (f"{first.rule} {first.severity}", _SEVERITY[first.severity]),
        (f" {first.title}: ", "bold"),
        f"{first.kernel}{backward} {shape} {first.dtype} {first.variant or 'all variants'}{others}",
    )


# -- times


@dataclass(frozen=True)
class _TimeColumn:
    head: str
    cell: Callable[[ComparisonRow], str]
    right: bool = True


def _cell_name(row: ComparisonRow) -> str:
    found = operation_of(row)
    return f"{found.page} {found.label}"


def _speedup(row: ComparisonRow) -> str:
    if row.speedup is None:
        return NONE
    ends = row.speedup_low, row.speedup_high
    return decimals(row.speedup) + (f" ({ends[0]:.2f}–{ends[1]:.2f})" if None not in ends else "")


def _occupancy(row: ComparisonRow) -> str:
    theory = whole(row.occupancy_pct) if row.occupancy_pct is not None else NONE
    achieved = whole(row.occupancy_achieved_pct) if row.occupancy_achieved_pct is not None else NONE
    return f"{achieved}/{theory}"


def _attained(row: ComparisonRow) -> str:
    share = row.roofline.attainment_measured if row.roofline else None
    return percent(share) if share is not None else NONE


def _figure(name: str, form: Callable[[float], str]) -> Callable[[ComparisonRow], str]:
    return lambda row: form(getattr(row, name)) if getattr(row, name) is not None else NONE


_TIME_COLUMNS: Final = (
    _TimeColumn("cell", _cell_name, right=False),
    _TimeColumn("target", lambda row: row.target, right=False),
    _TimeColumn("ms events", _figure("median_ms", milliseconds)),
    _TimeColumn("× vs eager", _speedup),
    _TimeColumn("% of ceiling", _attained),
    _TimeColumn("occ. got/th. %", _occupancy),
    _TimeColumn("ms trace", _figure("trace_ms", milliseconds)),
    _TimeColumn("spills B", _figure("spill_bytes_per_thread", whole)),
)
"""The most telling first: those behind are left out where they have no room."""


def _times(comparison: Comparison, width: int) -> Iterator[RenderableType]:
    rows = [row for row in comparison.rows if row.median_ms is not None]
    if not rows:
        return
    shown = rows[:MOST_TIMES]
    yield _time_table(shown, width)
    if len(rows) > MOST_TIMES:
        yield Text(f"and {len(rows) - MOST_TIMES} more rows: portkit merge has them", "dim")


def _time_table(rows: Sequence[ComparisonRow], width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    used = 0
    columns: list[_TimeColumn] = []
    for column in _TIME_COLUMNS:
        used += 2 + max(len(column.head), *(len(column.cell(row)) for row in rows))
        if len(columns) > 2 and used - 2 > width:
            break
        columns.append(column)
        table.add_column(Text(column.head), justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(column.cell(row)) for column in columns))
    return table


# -- legend


def _signs(comparison: Comparison) -> str:
    """What letters and signs of the tables stand for, in a line."""
    letters = [f"{each.value[0].upper()} {each}" for each in Evidence if each in comparison.counts]
    found = [mark for each in marks(comparison.rows).values() for mark in each]
    signs = [f"{SIGNS[each][0]} {MEANS[each]}" for each in Standing if any(mark.standing is each for mark in found)]
    some = ["2/5: 2 of 5 rows are so"] if any(mark.alike != mark.rows for mark in found) else []
    kernels, targets = ({place[n] for place in marks(comparison.rows)} for n in (0, 1))
    gaps_there = [f"{NONE} no rows"] if len(kernels) * len(targets) > len(marks(comparison.rows)) else []
    return f"{', '.join(letters)} · {', '.join([*signs, *some, *gaps_there])}"


def _legend(comparison: Comparison) -> Iterator[RenderableType]:
    for evidence in comparison.counts:
        yield Text(f"{evidence}: {EVIDENCE_MEANS[evidence]}")
    if any(row.median_ms is not None for row in comparison.rows):
        yield Text(TIMES_MEAN)
