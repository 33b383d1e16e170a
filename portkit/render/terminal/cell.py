"""``portkit show``: everything about one cell, every raw field with its unit or the reason why it is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from portkit.analysis.cells import CellView, label_of
from portkit.analysis.findings.rule import Finding
from portkit.analysis.views.raw import Field, raw_fields
from portkit.render.cell import Section, figures, sections
from portkit.render.columns import NONE, one_line
from portkit.store.journal import blob_path
from portkit.store.merge import Dataset


def print_cell(console: Console, view: CellView, dataset: Dataset) -> None:
    """Write all of one cell.

    Args:
        console: where to.
        view: the cell.
        dataset: merged reports; its side folders have the blobs.
    """
    record = view.record
    style = "bold green" if record.outcome.status.good else "bold red"
    console.print(Text.assemble((label_of(view.row), "bold"), "  ", (record.outcome.status.value, style)))
    if cause := view.figures.cause:
        console.print(Text(one_line(cause)))
    _print_section(console, *figures(view.figures))
    _print_findings(console, view.findings)
    for title, lines in _sections(view):
        _print_section(console, title, lines)
    _print_blobs(console, view, dataset)


def _sections(view: CellView) -> Iterator[Section]:
    yield from sections(view.row)
    yield "host", raw_fields(view.header.host, {})
    if view.probe:
        yield "device", raw_fields(view.probe, view.probe.nulls)


def _print_section(console: Console, title: str, fields: Iterable[Field]) -> None:
    most = max(20, console.width // 2)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, overflow="fold")
    table.add_column(overflow="fold")
    for field in fields:
        table.add_row(Text("\n".join(_broken(field.path, most))), _value(field))
    if table.row_count:
        _print_title(console, title)
        console.print(table)


def _broken(name: str, most: int) -> Iterator[str]:
    """A field's name in lines, broken where it is joined."""
    while len(name) > most:
        cut = max(name.rfind(sign, 1, most) for sign in "._") + 1 or most
        yield name[:cut]
        name = name[cut:]
    yield name


def _print_title(console: Console, title: str) -> None:
    console.print()
    console.print(Rule(Text(title, style="bold"), align="left", style="dim", characters="─"))


def _value(field: Field) -> Text:
    if field.value is None:
        return Text.assemble(NONE, (f"  {field.reason}", "dim"))
    text = ", ".join(map(str, field.value)) if isinstance(field.value, list) else _plain(field.value)
    return Text(f"{text or 'none'} {field.unit}".rstrip())


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _print_findings(console: Console, found: Sequence[Finding]) -> None:
    if not found:
        return
    _print_title(console, "findings that name it")
    for each in found:
        console.print(Text.assemble((f"{each.rule} {each.severity} {each.title}", "bold")))
        console.print(Padding(Text(f"{each.explanation} Remedy: {each.remedy}"), (0, 0, 0, 2)))


def _print_blobs(console: Console, view: CellView, dataset: Dataset) -> None:
    counters = view.row.counters.blobs if view.row.counters else {}
    blobs = {**view.record.blobs, **{f"counters.{name}": address for name, address in counters.items()}}
    if not blobs:
        return
    _print_title(console, "in the side folder")
    report = Path(dataset.paths[view.record.run_id])
    archived = dataset.sources is not None and dataset.sources.in_archive(report)
    for name, address in blobs.items():
        path = blob_path(report, address)
        place = f"{path.relative_to(report.parent)} in the archive" if archived else path
        size = f"{path.stat().st_size:,} B" if path.is_file() else "absent: the report was moved without its folder"
        console.print(Text(f"{name}  {place}  {size}"), soft_wrap=True)
