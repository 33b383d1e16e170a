"""``portkit show``: everything about one cell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from portkit.analysis.cells import CellView, cell_views, find_cells, label_of
from portkit.cli.options import REPORTS, triton_option
from portkit.cli.reading import read_reports
from portkit.errors import ReportError
from portkit.render.terminal.cell import print_cell
from portkit.render.terminal.console import make_console
from portkit.store.schema import plain


@click.command("show", short_help="Everything about one cell.")
@click.argument("names", metavar="CELL [PATHS]...", nargs=-1)
@click.option(
    "-k", "words", metavar="WORDS", help="In place of CELL: words of its name, such as 'softmax h200 measured'."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@triton_option
def command(names: tuple[str, ...], words: str | None, *, as_json: bool, triton: str | None) -> None:
    """Everything about one cell: every raw field with its unit, or why it is unknown.

    CELL is a name that tables and pytest show, such as softmax[h200-4096x4096-float32-w8-measured],
    a cell's key, how either begins, or a pattern as in a shell. PATHS are reports, archives of
    reports, or folders of them; reports/local by default.
    """
    name, paths = (words, names) if words is not None else (names[0] if names else None, names[1:])
    if not name:
        raise ReportError("no cell is named", remedy="portkit show CELL [PATHS], or -k WORDS; `portkit merge` has them")
    dataset = read_reports([Path(each) for each in paths] or [REPORTS], triton)
    views = cell_views(dataset, find_cells(dataset.rows, name))
    if as_json:
        click.echo(json.dumps([_data(view) for view in views], indent=1, allow_nan=False))
        return
    console = make_console()
    for number, view in enumerate(views):
        if number:
            console.print()
        print_cell(console, view, dataset)


def _data(view: CellView) -> Mapping[str, Any]:
    """All of a cell as plain values."""
    row = view.row
    return {
        "label": label_of(row),
        "record": plain(row.record),
        "counters": plain(row.counters) if row.counters else None,
        "figures": plain(view.figures),
        "findings": plain(list(view.findings)),
        "host": plain(view.header.host),
        "device": plain(view.probe) if view.probe else None,
        "other_runs": [each.run_id for each in row.other_runs],
    }
