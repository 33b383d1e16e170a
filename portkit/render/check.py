"""A check as text: what each target makes of a call, and why where they part ways."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from portkit.analysis.findings import Finding
from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.model import Direction
from portkit.plan.scan import Contents, Found, Parameter
from portkit.render.columns import Column, Notes, plain_table, wrapped
from portkit.render.findings import findings_plain
from portkit.render.rows import named_columns
from portkit.store.schema import plain

_COLUMNS = ("target", "evidence", "status", "registers /thread", "spills B/thread", "shared B/block", "occupancy %")
_EMULATED = "error ÷ limit"


def check_plain(compared: Comparison, findings: int | None, width: int | None) -> str:
    """The table of a check for a terminal, with its findings and notes.

    Args:
        compared: the comparison of the check's report.
        findings: the most that are told; None for all.
        width: characters of the terminal; None: as wide as it is.
    """
    notes = Notes()
    emulated = any(row.error_over_limit is not None for row in compared.rows)
    columns = [*named_columns((*_COLUMNS, *([_EMULATED] if emulated else []))), _findings_column(compared.findings)]
    table = plain_table(columns, compared.rows, _group, notes, width)
    told = findings_plain(compared.findings, findings, width)
    numbered = wrapped((f"[{number}] {text}" for number, text in notes.numbered()), width)
    return "\n\n".join(part for part in (table, told, numbered) if part)


def check_json(compared: Comparison, report: Path) -> str:
    """Rows and findings as data, with the report that they are of."""
    data = {"report": str(report), "rows": plain(list(compared.rows)), "findings": plain(list(compared.findings))}
    return json.dumps(data, indent=1, allow_nan=False)


def _findings_column(findings: Sequence[Finding]) -> Column[ComparisonRow]:
    def cell(row: ComparisonRow, notes: Notes) -> str:
        mine = (each.rule for each in findings if row.target in each.targets and _of(each, row))
        return " ".join(dict.fromkeys(mine))

    return Column(("", "", "findings"), cell)


def _of(finding: Finding, row: ComparisonRow) -> bool:
    return (finding.kernel, finding.direction, finding.shape) == (row.kernel, row.direction, row.shape)


def _group(row: ComparisonRow) -> str:
    shape = "x".join(map(str, row.shape))
    backward = row.direction.value if row.direction is Direction.BACKWARD else ""
    return " ".join(part for part in (row.kernel, shape, row.dtype if shape else "", backward) if part)


# --------------------------------------------------------------------------
# What a file needs


def needs_plain(place: str, contents: Contents) -> str:
    """What can be checked in a file, each with a command to fill in; kernel cases have arguments already.

    Args:
        place: the file, as it was named.
        contents: what it has.
    """
    if not contents.functions and not contents.cases:
        return f"{place}: no function that launches a Triton kernel, and no kernel, is defined here"
    lines = [
        *_how_cases_run(place, contents.cases),
        f"{place}: nothing says with which arguments to call these; fill in one,",
    ]
    lines += ["or write it into the file as a comment: # portkit: check FUNCTION --arg …", ""]
    for each in contents.functions:
        lines += [f"  {each.signature}  line {each.line}, {_what(each)}", f"    portkit check {_command(place, each)}"]
    return "\n".join(lines)


def _how_cases_run(place: str, cases: Sequence[str]) -> list[str]:
    if not cases:
        return []
    chosen = " or ".join(cases)
    return [
        f"{place} declares the kernel case {', '.join(cases)}, whose inputs are known; where a matrix names the file,",
        f'    pytest --benchmark --portkit-target all -k "{chosen}"',
        "",
    ]


def _what(found: Found) -> str:
    return "a kernel" if found.kernel else f"launches {', '.join(found.launches)}"


def _command(place: str, found: Found) -> str:
    name = found.name.replace(".forward", ".apply") if found.name.endswith(".forward") else found.name
    arguments = " ".join(_argument(each, found.kernel) for each in found.needs)
    return f"{place}:{name} {arguments}{' --grid BLOCKS' if found.kernel else ''}".rstrip()


def _argument(parameter: Parameter, kernel: bool) -> str:
    return f"--arg {parameter.name}={_placeholder(parameter, kernel)}"


def _placeholder(parameter: Parameter, kernel: bool) -> str:
    annotation = parameter.annotation.rpartition(".")[2]
    if annotation in ("int", "constexpr"):
        return "NUMBER"
    if annotation in ("float", "bool", "str"):
        return annotation.upper()
    if parameter.name.startswith("num_"):
        return "NUMBER"
    if kernel and not parameter.name.lower().endswith(("ptr", "ptrs")):
        return "DTYPE[SHAPE]-or-NUMBER"
    return "DTYPE[SHAPE]"
