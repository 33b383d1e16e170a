#!/usr/bin/env python3
"""Makes what the repository quotes from its kept report: tables, output of commands, reports/comparison.md.

    .venv/bin/python scripts/quote_reports.py [--check]

README has a table between ``<!-- quote: KERNEL TARGETS -->`` and ``<!-- end of quote -->``:
the rows of ``portkit merge reports/KEPT -k KERNEL -t TARGETS --format plain``, without
its head and its notes. ``KEPT`` is the newest folder of reports/ by name. A document of docs/ has
what a command prints between ``<!-- run LINES: portkit ARGUMENTS -->`` and the same end: of
``portkit ARGUMENTS KEPT`` the first LINES lines, 100 columns wide. With ``alone`` behind LINES no report is
named, and all such commands of a document are called one after the other in a new empty folder. With --check nothing is
written, and the exit code tells whether anything would change.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner

from portkit.analysis.choice import choose
from portkit.analysis.rows import Comparison, comparison
from portkit.cli import cli
from portkit.render.table import render, tables
from portkit.store.merge import merge

ROOT = Path(__file__).parents[1]
QUOTE = re.compile(r"(<!-- quote: (\S+) (\S+) -->\n)(.*?)(<!-- end of quote -->)", re.DOTALL)

RUN = re.compile(r"(<!-- run (\d+)( alone)?: portkit (.+?) -->\n)(.*?)(<!-- end of quote -->)", re.DOTALL)


def kept() -> Path:
    """The newest folder of reports that the repository keeps."""
    return max(path for path in (ROOT / "reports").iterdir() if path.is_dir() and path.name != "local")


def quoted(text: str, merged: Comparison) -> str:
    """A text with its quotes made anew."""

    def quote(found: re.Match[str]) -> str:
        part = choose(merged, [found[2]], found[3].split(","))
        return f"{found[1]}```\n{tables(part)}\n```\n{found[5]}"

    return QUOTE.sub(quote, text)


def printed(text: str) -> str:
    """A text with the output of its commands made anew."""
    with tempfile.TemporaryDirectory() as folder:
        return RUN.sub(lambda found: f"{found[1]}```\n{_shown(found, folder)}\n```\n{found[6]}", text)


def _shown(found: re.Match[str], folder: str) -> str:
    """A command and the first lines of what it prints."""
    lines, alone, command = int(found[2]), found[3], found[4]
    words = command if alone else f"{command} {kept().relative_to(ROOT)}"
    with contextlib.chdir(folder if alone else ROOT):
        done = CliRunner(env={"COLUMNS": "100"}).invoke(cli, shlex.split(words), catch_exceptions=False)
    told = done.stdout.rstrip("\n").split("\n")
    return "\n".join([f"$ portkit {words}", *told[:lines], *(["…"] if len(told) > lines else [])])


def made() -> dict[Path, str]:
    """File → what it must hold."""
    os.chdir(ROOT)  # commands are shown with paths of the repository
    merged = comparison(merge([kept()]))
    documents = [path for path in (ROOT / "docs").glob("*.md") if "<!-- run " in path.read_text(encoding="utf-8")]
    readme = ROOT / "README.md"
    return {
        readme: quoted(readme.read_text(encoding="utf-8"), merged),
        ROOT / "reports" / "comparison.md": render(merged, "github"),
        **{path: printed(path.read_text(encoding="utf-8")) for path in documents},
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
