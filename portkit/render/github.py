"""What GitHub shows of a comparison: a job's summary, a pull request's comment, annotations of lines.

Within GitHub's limits, cut at whole rows, and what was left out is said. Names and messages come from
reports of anyone: none of them is markup, a link, a mention or a command of the runner.

Limits: job summary 1 MiB a step (https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands,
"Adding a job summary"); comment 65,536 characters; annotations 10 errors, 10 warnings and 10 notices
a step (https://docs.github.com/rest/checks/runs, "annotations", and the runner's own limit).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from portkit.analysis.findings.rule import Finding, Severity
from portkit.analysis.findings.summary import Alike, alike
from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.analysis.views.kernels import kernel_summaries
from portkit.analysis.views.marks import Gap, Mark, gaps, marks, targets_by_platform
from portkit.analysis.views.standing import Standing
from portkit.model import Direction, Evidence
from portkit.plan.places import KernelPlaces, Place
from portkit.render.columns import NONE, Notes, escaped, one_line
from portkit.render.rows import COLUMNS, KERNEL_COLUMNS
from portkit.render.table import EVIDENCE_MEANS, GPU_OF
from portkit.render.verdict import verdict
from portkit.store.schema import clean

SUMMARY_BYTES: Final = 1 << 20
COMMENT_CHARACTERS: Final = 65_536
ANNOTATIONS: Final = 10
"""Of each level in one step."""

MARKER: Final = "<!-- portkit report -->"
"""First line of a comment, by which a workflow finds it again to renew it."""

_SIGNS: Final[Mapping[Standing, str]] = {
    Standing.GOOD: "✅",
    Standing.BAD: "❌",
    Standing.NO_VERDICT: "❔",
    Standing.EXPECTED: "⚠️",
    Standing.EXCLUDED: "➖",
}

_NOTE: Final = 200
"""Room kept in every section for the line that says what was left out."""


@dataclass(frozen=True)
class _Section:
    """A part that may be cut between its rows."""

    head: str  # title and the table's head
    rows: tuple[str, ...]
    what: str  # that a row is
    end: str = ""


# -- summary and comment


def job_summary(comparison: Comparison) -> str:
    """Markdown for ``$GITHUB_STEP_SUMMARY``, of at most 1 MiB."""
    return _fitted(_sections(comparison), SUMMARY_BYTES, lambda text: len(text.encode()))


def pull_request_comment(comparison: Comparison) -> str:
    """Markdown for a comment, of at most 65,536 characters, :data:`MARKER` first."""
    marker = _Section(MARKER, (), "")
    return _fitted([marker, *_sections(comparison)], COMMENT_CHARACTERS, len)


def _fitted(sections: Sequence[_Section], limit: int, size: Callable[[str], int]) -> str:
    """The sections with as many rows as there is room for, the first sections first."""
    room = limit - sum(size(each.head) + size(each.end) + _NOTE for each in sections)
    parts = []
    for section in sections:
        used = list(itertools.accumulate(size(row) + 1 for row in section.rows))
        count = sum(1 for total in used if total <= room)
        room -= used[count - 1] if count else 0
        parts.append("\n".join([section.head, *section.rows[:count], *_left_out(section, count), *_end(section)]))
    return "\n\n".join(parts) + "\n"


def _left_out(section: _Section, kept: int) -> Iterator[str]:
    if more := len(section.rows) - kept:
        yield f"\n*{more} more {section.what} left out: GitHub takes no longer text. `portkit merge` has all.*"


def _end(section: _Section) -> Iterator[str]:
    if section.end:
        yield f"\n{section.end}"


def _folded(title: str) -> str:
    """Head of a section that opens when it is asked for; :data:`_FOLD_END` ends it."""
    return f"<details><summary>{title}</summary>\n"


_FOLD_END: Final = "</details>"


def _sections(comparison: Comparison) -> list[_Section]:
    made = [
        _Section("\n\n".join(_head(comparison)), (), ""),
        _gap_section(gaps(comparison.rows)),
        _grid(comparison),
        *_finding_sections(alike(comparison.findings)),
        _warnings(comparison),
        _row_section(comparison),
        _Section("\n".join(_legend(comparison)), (), ""),
    ]
    return [each for each in made if each.head]


def _head(comparison: Comparison) -> Iterator[str]:
    yield "## Kernels over targets"
    yield from (f"**{text}**" for _, text in verdict(kernel_summaries(comparison), inert))
    counts = (
        f"{evidence}: " + ", ".join(f"{count} {status}" for status, count in sorted(found.items()))
        for evidence, found in comparison.counts.items()
    )
    yield "; ".join(counts)
    yield from (f"**Missing: no row of {inert(each)}.**" for each in comparison.missing)
    yield from (f"No row here was run on {GPU_OF[each]}." for each in comparison.not_measured)


def _grid(comparison: Comparison) -> _Section:
    found = marks(comparison.rows)
    targets = [name for names in targets_by_platform(comparison.rows).values() for name in names]
    pages = [each.page for each in kernel_summaries(comparison)]  # the worst first
    if not targets:
        return _Section("", (), "")
    rows = [_cells([inert(page), *(_marked(found.get((page, target), ())) for target in targets)]) for page in pages]
    return _Section("### Kernels by target\n\n" + _table_head(["kernel", *targets]), tuple(rows), "kernels")


def _marked(of: Sequence[Mark]) -> str:
    found = (
        f"{mark.evidence.value[0].upper()}{_SIGNS[mark.standing]}"
        + ("" if mark.alike == mark.rows else f"{mark.alike}/{mark.rows}")
        for mark in of
    )
    return " ".join(found) or NONE


def _gap_section(found: Sequence[Gap]) -> _Section:
    if not found:
        return _Section("", (), "")
    rows = (
        _cells(
            [
                _SIGNS[gap.standing],
                inert(gap.what),
                gap.status.value,
                inert(one_line(gap.cause or "")),
                inert(", ".join(gap.targets)),
                ", ".join(gap.evidence),
                str(len(gap.rows)),
            ]
        )
        for gap in found
    )
    heads = ["", "kernel", "status", "why", "targets", "evidence", "rows"]
    return _Section("### Not good, and why\n\n" + _table_head(heads), tuple(rows), "kinds")


def _finding_sections(found: Sequence[Alike]) -> Iterator[_Section]:
    """What costs or breaks something; what only explains is folded."""
    notes = [group for group in found if group.first.severity is Severity.INFO]
    grave = [group for group in found if group.first.severity is not Severity.INFO]
    if grave:
        yield _Section("### Findings\n", tuple(map(_finding, grave)), "findings")
    if notes:
        yield _Section(_folded(f"{len(notes)} notes"), tuple(map(_finding, notes)), "notes", _FOLD_END)


def _finding(group: Alike) -> str:
    first = group.first
    return (
        f"- **{first.rule} {first.severity}: {inert(first.title)}.** {inert(_where(group))}. "
        f"{inert(one_line(first.explanation))} *Remedy:* {inert(one_line(first.remedy))}"
    )


def _where(group: Alike) -> str:
    others = f" and {group.others} more" if group.others else ""
    return f"{group.first.operation}{others}"


def _warnings(comparison: Comparison) -> _Section:
    rows = tuple(f"- {inert(one_line(text))}" for text in comparison.warnings)
    return _Section("### Warnings\n" if rows else "", rows, "warnings")


def _row_section(comparison: Comparison) -> _Section:
    if not comparison.rows:
        return _Section("", (), "")
    notes = Notes()  # their numbers are left out: the reasons would take more room than the rows
    columns = [*KERNEL_COLUMNS, *COLUMNS]
    rows = tuple(
        _cells([inert(_unmarked(column.cell(row, notes))) for column in columns]) for row in _important(comparison)
    )
    head = f"{_folded(f'{len(rows)} rows')}\n{_table_head([column.name for column in columns])}"
    return _Section(head, rows, "rows", _FOLD_END)


def _unmarked(text: str) -> str:
    return text.partition(" [")[0]


def _important(comparison: Comparison) -> list[ComparisonRow]:
    """Rows that are not good, then those that were measured, then the others."""
    return sorted(comparison.rows, key=lambda row: (row.status.good, row.evidence is not Evidence.MEASURED))


def _legend(comparison: Comparison) -> Iterator[str]:
    marks_of = (f"{each.value[0].upper()} {each}: {EVIDENCE_MEANS[each]}" for each in comparison.counts)
    yield "<sub>" + "; ".join(marks_of) + ".</sub>"


def _table_head(heads: Sequence[str]) -> str:
    return f"{_cells([inert(head) for head in heads])}\n{_cells(['---'] * len(heads))}"


def _cells(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def inert(text: str) -> str:
    r"""A text that GitHub shows as it is: no markup or formula, and no link, mention or reference either.

    A dollar that begins no formula stands in a span, as GitHub's help on mathematical expressions says.

    >>> inert("@octo-org") == "@\u200bocto-org", inert("#12") == "#\u200b12"
    (True, True)
    """
    shown = (
        escaped(clean(text)).replace("$", "<span>$</span>").replace("*", "\\*").replace("_", "\\_").replace("~", "\\~")
    )
    for sign in ("@", "#", "://", "www."):
        shown = shown.replace(sign, f"{sign}\u200b" if len(sign) == 1 else f"{sign[:-1]}\u200b{sign[-1]}")
    return shown


# -- annotations


@dataclass(frozen=True)
class Annotation:
    """A remark on a line of the repository."""

    level: str  # error, warning or notice
    title: str
    message: str
    place: Place | None  # None: no file of this repository is known for it


LEVELS: Final[Mapping[Severity, str]] = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFO: "notice",
}

KernelNames = Callable[[Finding], Sequence[str]]
"""Names of the Triton kernels that a finding is about."""


def annotate(
    comparison: Comparison, places: Mapping[str, KernelPlaces], kernels: KernelNames = lambda finding: ()
) -> list[Annotation]:
    """An annotation for each finding, and for what is bad and no finding tells; the gravest first.

    Args:
        comparison: what to tell of.
        places: kernel case → where it stands.
        kernels: names of the functions that a finding is about, the most telling first.
    """
    told = [_of_finding(group, places, kernels) for group in alike(comparison.findings)]
    graves = [each for each in comparison.findings if each.severity is Severity.ERROR]
    untold = [_of_gap(gap, places) for gap in gaps(comparison.rows) if _fails(gap) and not _is_told(gap, graves)]
    return sorted([*untold, *told], key=lambda each: list(LEVELS.values()).index(each.level))


def _fails(gap: Gap) -> bool:
    """Whether pytest fails for it: a gap that the matrix expects does not, one that has closed does."""
    return gap.standing in (Standing.BAD, Standing.NO_VERDICT, Standing.GOOD)


def _is_told(gap: Gap, graves: Iterable[Finding]) -> bool:
    """Whether findings of the kernel speak of all targets of the gap."""
    first = gap.rows[0]
    if gap.standing is Standing.GOOD:
        return False
    of_kernel = [each for each in graves if (each.kernel, each.direction) == (first.kernel, first.direction)]
    return set(gap.targets) <= {target for each in of_kernel for target in each.targets}


def _of_finding(group: Alike, places: Mapping[str, KernelPlaces], kernels: KernelNames) -> Annotation:
    found = group.first
    stands = places.get(found.kernel)
    return Annotation(
        level=LEVELS[found.severity],
        title=f"{found.rule} {found.title}",
        message=f"{_where(group)}: {found.explanation} Remedy: {found.remedy}",
        place=stands.of(kernels(found)) if stands else None,
    )


def _of_gap(gap: Gap, places: Mapping[str, KernelPlaces]) -> Annotation:
    first = gap.rows[0]
    stands = places.get(first.kernel)
    backward = " backward" if first.direction is Direction.BACKWARD else ""
    return Annotation(
        level="warning" if gap.standing is Standing.NO_VERDICT else "error",
        title=f"{gap.status} on {', '.join(gap.targets)}",
        message=f"{first.kernel}{backward}, {len(gap.rows)} cells ({', '.join(gap.evidence)}): {gap.cause or ''}",
        place=stands.case if stands else None,
    )


def annotation_commands(found: Sequence[Annotation]) -> str:
    """Lines that a step prints: ten of each level, the last of which says how many are left out."""
    lines = []
    for level in LEVELS.values():
        of_level = [each for each in found if each.level == level]
        shown = of_level if len(of_level) <= ANNOTATIONS else of_level[: ANNOTATIONS - 1]
        lines += [_command(each) for each in shown]
        if more := len(of_level) - len(shown):
            told = f"{more} more {level}s: portkit report and portkit findings have them"
            lines.append(_command(Annotation(level, "portkit", told, None)))
    return "\n".join(lines)


def _command(found: Annotation) -> str:
    properties = {"title": found.title}
    if found.place:
        properties = {"file": found.place.file, "line": str(found.place.line), **properties}
    given = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{found.level} {given}::{_data(found.message)}"


def _data(text: str) -> str:
    """A message as the runner's own toolkit writes it."""
    return clean(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
