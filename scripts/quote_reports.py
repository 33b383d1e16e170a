#!/usr/bin/env python3
"""Makes what the repository quotes from its kept report: README's tables and reports/comparison.md.

    .venv/bin/python scripts/quote_reports.py [--check]

README has a table between ``<!-- quote: KERNEL TARGETS -->`` and ``<!-- end of quote -->``:
the rows of ``portkit merge reports/KEPT -k KERNEL -t TARGETS --format plain``, without
its head and its notes. ``KEPT`` is the newest folder of reports/ by name. With --check
nothing is written, and the exit code tells whether anything would change.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from portkit.analysis.choice import choose
from portkit.analysis.rows import Comparison, comparison
from portkit.render.table import render, tables
from portkit.store.merge import merge

ROOT = Path(__file__).parents[1]
QUOTE = re.compile(r"(<!-- quote: (\S+) (\S+) -->\n)(.*?)(<!-- end of quote -->)", re.DOTALL)


def kept() -> Path:
    """The newest folder of reports that the repository keeps."""
    return max(path for path in (ROOT / "reports").iterdir() if path.is_dir() and path.name != "local")


def quoted(text: str, merged: Comparison) -> str:
    """A text with its quotes made anew."""

    def quote(found: re.Match[str]) -> str:
        part = choose(merged, [found[2]], found[3].split(","))
        return f"{found[1]}```\n{tables(part)}\n```\n{found[5]}"

    return QUOTE.sub(quote, text)


def made() -> dict[Path, str]:
    """File → what it must hold."""
    merged = comparison(merge([kept()]))
    readme = ROOT / "README.md"
    return {
        readme: quoted(readme.read_text(encoding="utf-8"), merged),
        ROOT / "reports" / "comparison.md": render(merged, "github"),
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
