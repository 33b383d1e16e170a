"""Writes docs/emulation-instructions.md from the emulator's tables and from what the tests say they are about.

``python scripts/instruction_table.py`` writes the page; with ``--check`` it says what is out of date, and which
entries have neither a test of their own nor a place among those that only whole kernels exercise, and fails.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "emulation-instructions.md"
TESTS = ROOT / "tests" / "pure"

sys.path[:0] = [str(ROOT), str(TESTS)]

from isa_claims import MODULES, WHOLE_KERNELS, Collector  # noqa: E402

from portkit.emulate.amdgcn.architecture import ARCHITECTURES, Generation  # noqa: E402
from portkit.emulate.amdgcn.isa.families import FAMILIES  # noqa: E402
from portkit.emulate.amdgcn.isa.lookup import all_entries  # noqa: E402
from portkit.emulate.amdgcn.isa.registry import Entry  # noqa: E402

HEAD = """# Instructions that are emulated

Written by `python scripts/instruction_table.py` from the tables in `portkit/emulate/amdgcn/isa/`; a test
compares the two.
What stands for the device's arithmetic, and how far, says [what emulated means](emulation.md#arithmetic).

- A mnemonic stands without the suffix of its encoding (`_e32`, `_e64`, `_dpp`, `_sdwa`).
  What is not listed is `unsupported`.
- "Own tests" are modules of `tests/pure/`: they run the instruction alone, on edges of its operands, against values
  that Python's integers and fractions give. Each test names its instructions, and fails if it does not run them.
- "Within" is how far a result may lie from the device's; without it, bits are the device's, those of NaN apart.
- Sections are those of AMD's ISA reference guides. Where an entry has CDNA's and RDNA's, those of CDNA4 and RDNA4
  have the same numbers as the ones that stand here.
"""


def claimed() -> dict[str, set[str]]:
    """Entry → modules with tests of it."""
    collector = Collector()
    files = [str(path) for path in sorted(TESTS.glob(f"{MODULES}*.py"))]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *files], [collector]
        )
    if code != pytest.ExitCode.OK:
        sys.exit(said.getvalue())
    return collector.modules


def page(modules: Mapping[str, set[str]]) -> str:
    """The whole page."""
    parts = [HEAD, "## Architectures\n", *_generations(), "", f"{len(all_entries())} mnemonics.\n"]
    for family, table in FAMILIES.items():
        parts += [f"## {family[0].upper()}{family[1:]}\n", *_rows(table, modules), ""]
    parts += ["## Exercised only by whole kernels\n", *_whole_kernels()]
    return "\n".join(parts).rstrip() + "\n"


def _generations() -> Iterable[str]:
    yield "| generation | architectures |\n|---|---|"
    for generation in Generation:
        names = [item.name for item in ARCHITECTURES.values() if item.generation is generation]
        yield f"| {generation.value} | {', '.join(names)} |"


def _rows(table: Mapping[str, Entry], modules: Mapping[str, set[str]]) -> Iterable[str]:
    """Mnemonics that agree in all columns share a row."""
    yield "| mnemonics | generations | ISA document and section | within | own tests |\n|---|---|---|---|---|"
    rows: dict[tuple[str, ...], list[str]] = {}
    for name, entry in table.items():
        tests = ", ".join(sorted(module.removesuffix(".py") for module in modules.get(name, ()))) or "none"
        rows.setdefault((_names(entry), entry.source, _within(entry), tests), []).append(name)
    for columns, names in rows.items():
        yield f"| {' '.join(f'`{name}`' for name in names)} | {' | '.join(columns)} |"


def _names(entry: Entry) -> str:
    having = [generation.value for generation in Generation if generation in entry.generations]
    return "all" if len(having) == len(Generation) else ", ".join(having)


def _within(entry: Entry) -> str:
    bound = entry.approximation
    return "" if bound is None else f"{bound.ulps} ulp" if bound.ulps else f"{bound.absolute:.1g}"


def _whole_kernels() -> Iterable[str]:
    if not WHOLE_KERNELS:
        yield "None: each entry above has tests of its own."
    yield from (f"- `{name}`: {why}" for name, why in sorted(WHOLE_KERNELS.items()))


def complaints(modules: Mapping[str, set[str]]) -> list[str]:
    """What is wrong with tests, list and page."""
    entries, tested, listed = set(all_entries()), set(modules), set(WHOLE_KERNELS)
    found = [f"{name}: no test of its own (tests/pure/{MODULES}*.py)" for name in sorted(entries - tested - listed)]
    found += [f"{name}: among WHOLE_KERNELS, but tested by {modules[name]}" for name in sorted(tested & listed)]
    found += [f"{name}: among WHOLE_KERNELS, but no entry" for name in sorted(listed - entries)]
    wanted, there = page(modules).splitlines(), PAGE.read_text().splitlines() if PAGE.is_file() else []
    changes = list(difflib.unified_diff(there, wanted, str(PAGE.name), "as it should be", lineterm="", n=0))
    return found + (["the page is out of date; run python scripts/instruction_table.py", *changes] if changes else [])


def main() -> int:
    """Write the page, or say what is wrong with it."""
    modules = claimed()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(modules))
        return 0
    found = complaints(modules)
    print("\n".join(found) or f"{len(all_entries())} entries, each with tests of its own or listed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
