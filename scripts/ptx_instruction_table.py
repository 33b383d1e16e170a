"""Writes docs/emulation-ptx-instructions.md: every row of the PTX tables.

python scripts/ptx_instruction_table.py            # to the file
python scripts/ptx_instruction_table.py --check    # exit 1 where the file is out of date
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tabulate import tabulate

from portkit.emulate.core.vectors import Approximation
from portkit.emulate.ptx.isa.families import FAMILIES
from portkit.emulate.ptx.isa.registry import Entry

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "emulation-ptx-instructions.md"

HEAD = """# PTX instructions that are emulated

Written by `python scripts/ptx_instruction_table.py`. Suffixes and types that a row does not
know are `unsupported`, by name; hints for caches change nothing on memory without them.

| column | says |
|---|---|
| types | last type of the instruction, for which the row holds; empty: its own rules |
| since | compute capability × 10 |
| section | of the PTX ISA document, by title and instruction |
| bound | within which a result may lie from a device's; empty: its bits, those of a NaN apart |
| tests | modules in tests/pure that name it; "whole kernels": those of tests/emulated alone |
"""


def document() -> str:
    """The whole page."""
    parts = [HEAD]
    for family, table in FAMILIES.items():
        rows = [row for name, entries in sorted(table.items()) for row in _rows(name, entries)]
        headers = ["name", "types", "since", "section", "bound", "tests"]
        parts.append(f"## {family[0].upper()}{family[1:]}\n\n{tabulate(rows, headers, tablefmt='github')}\n")
    return "\n".join(parts)


def _rows(name: str, entries: tuple[Entry, ...]) -> Iterator[tuple[str, ...]]:
    for entry in entries:
        types = " ".join(sorted(kind.suffix for kind in entry.types))
        yield f"`{name}`", types, str(entry.since or ""), entry.section, _bound(entry.approximation), _tests(name)


def _bound(bound: Approximation | None) -> str:
    if bound is None:
        return ""
    sizes = (
        f"{bound.ulps} ulp" if bound.ulps else "",
        f"{bound.absolute:.2g}" if bound.absolute else "",
        f"{bound.relative:.2g} of the sizes" if bound.relative else "",
        ", ".join(f"{each.absolute:.2g} up to {each.reach / math.pi:g}π" for each in bound.ranges),
    )
    return " or ".join(each for each in sizes if each) + f" ({bound.why})"


def _tests(name: str) -> str:
    """Modules whose text has the instruction."""
    word = re.compile(rf"(?<![\w.]){re.escape(name)}(?![\w])")
    modules = sorted((ROOT / "tests" / "pure").glob("test_ptx_*.py"))
    found = [path.stem for path in modules if word.search(path.read_text().replace("\\n", " "))]
    return ", ".join(found) or "whole kernels"


def main() -> int:
    """Write the page, or compare it."""
    page = document()
    if "--check" in sys.argv:
        return int(TARGET.read_text() != page)
    TARGET.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
