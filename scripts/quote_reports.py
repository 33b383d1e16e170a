#!/usr/bin/env python3
"""Makes what the repository quotes from its kept report: tables, output of commands, reports/comparison.md.

    .venv/bin/python scripts/quote_reports.py [--check]

README has a table between ``<!-- quote: KERNEL TARGETS SHAPE -->`` and ``<!-- end of quote -->``:
the rows of that shape of ``portkit merge reports/KEPT -k KERNEL -t TARGETS --format plain``, without
its head and its notes. ``KEPT`` is that of scripts/kept.py. A document of docs/ has
what a command prints between ``<!-- run LINES: portkit ARGUMENTS -->`` and the same end: of
``portkit ARGUMENTS KEPT`` the first LINES lines, 100 columns wide. With ``alone`` behind LINES no report is
named, and all such commands of a document are called one after the other in a new empty folder; with ``failing`` the
report is that of kernels that do not carry over; with ``with texts`` a quote stays as it is where the report has no
texts of its kernels. In a paragraph behind ``<!-- kept -->`` the
report's path is renewed. With --check nothing is written, and the exit code tells whether anything would change.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner
from kept import FAILING, KEPT

from portkit.analysis.choice import choose
from portkit.analysis.rows import Comparison, comparison
from portkit.cli import cli
from portkit.errors import ReportError
from portkit.render.table import render, tables
from portkit.store.merge import merge

ROOT = Path(__file__).parents[1]
QUOTE = re.compile(r"(<!-- quote: (\S+) (\S+) (\S+) -->\n)(.*?)(<!-- end of quote -->)", re.DOTALL)

RUN = re.compile(
    r"(<!-- run (\d+)( alone| with texts| failing)?: portkit (.+?) -->\n)(.*?)(<!-- end of quote -->)", re.DOTALL
)

PARAGRAPH = re.compile(r"<!-- kept -->\n\n(?:.+\n)+")
PATH = re.compile(r"reports/h200-\d{4}-\d\d-\d\d(?![\w/])")


def quoted(text: str, merged: Comparison) -> str:
    """A text with its quotes made anew."""

    def quote(found: re.Match[str]) -> str:
        part = choose(merged, [found[2]], found[3].split(","))
        rows = tuple(row for row in part.rows if row.shape_text == found[4])
        return f"{found[1]}```\n{tables(dataclasses.replace(part, rows=rows))}\n```\n{found[6]}"

    return QUOTE.sub(quote, text)


def printed(text: str) -> str:
    """A text with the output of its commands made anew."""
    with tempfile.TemporaryDirectory() as folder:
        return RUN.sub(lambda found: f"{found[1]}{_shown(found, folder)}{found[6]}", text)


def _shown(found: re.Match[str], folder: str) -> str:
    """A command and the first lines of what it prints; as it was where the report has not what is asked for."""
    alone, texts, failing = (found[3] == f" {how}" for how in ("alone", "with texts", "failing"))
    words = found[4] if alone else f"{found[4]} {named(FAILING if failing else KEPT)}"
    try:
        return f"```\n{_called(words, int(found[2]), Path(folder) if alone else ROOT)}\n```\n"
    except ReportError:
        if not texts:
            raise
        return found[5]


def _called(words: str, lines: int, folder: Path) -> str:
    with contextlib.chdir(folder):
        done = CliRunner(env={"COLUMNS": "100"}).invoke(cli, shlex.split(words), catch_exceptions=False)
    told = done.stdout.rstrip("\n").split("\n")
    return "\n".join([f"$ portkit {words}", *told[:lines], *(["…"] if len(told) > lines else [])])


def renewed(text: str) -> str:
    """A text whose paragraphs about the kept report name the one of today."""
    return PARAGRAPH.sub(lambda found: PATH.sub(named(KEPT), found[0]), text)


def named(report: Path) -> str:
    """A report's path in the repository."""
    return report.relative_to(ROOT).as_posix()


def made() -> dict[Path, str]:
    """File → what it must hold."""
    os.chdir(ROOT)  # commands are shown with paths of the repository
    merged = comparison(merge([KEPT]))
    texts = {path: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
    quoting = {path: text for path, text in texts.items() if re.search(r"<!-- (?:run|quote|kept)\b", text)}
    return {
        ROOT / "reports" / "comparison.md": render(merged, "github"),
        **{path: renewed(printed(quoted(text, merged))) for path, text in quoting.items()},
    }


def main(arguments: list[str]) -> int:
    """Write what changed, or with --check only say it."""
    stale = {path: text for path, text in made().items() if not path.exists() or path.read_text() != text}
    for path, text in stale.items():
        print(f"{path.relative_to(ROOT)} {'is stale' if '--check' in arguments else 'written'}")
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
