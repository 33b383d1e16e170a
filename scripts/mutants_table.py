#!/usr/bin/env python3
"""What became of mutants of kernels: tables of what ``mutate_emulated.py`` wrote, plain or compressed by xz.

    python scripts/mutants_table.py reports/mutants-2026-11-30.csv.xz [--write | --check]

``--write`` puts them into docs/emulation.md and docs/emulation-ptx.md, ``--check`` looks whether they stand there.
Exit code 1 where they do not, and where a mutant of what orders (barriers, mbarriers, arrivals, waits, commits, fences)
was missed: nothing was found, and no reason is known why there is nothing to find.
"""

from __future__ import annotations

import argparse
import csv
import io
import lzma
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path

from tabulate import tabulate
from told import told

from portkit.errors import ReportError

WORDS = {
    "barrier": "barriers",
    "mbarrier": "mbarriers made and ended",
    "arrive": "arrivals and announced bytes",
    "wait": "waits",
    "commit": "commits",
    "fence": "fences",
    "other": "other instructions",
}
"""Kind of instruction → the name of its row."""

MISSED = "MISSED"
DELETED = "deleted"


@dataclass(frozen=True)
class Line:
    """A mutant and what became of it, as texts."""

    triton: str  # version
    source: str  # digest of the emulator and the kernel's text
    case: str
    architecture: str
    kind: str  # of ``WORDS``
    change: str  # ``DELETED``, or what the instruction becomes
    line: str  # of the text
    instruction: str
    by: str  # the finding, or the inputs on which the bits differ; empty: not noticed
    verdict: str  # whether a cell's verdict would notice it alone: "yes" or empty
    why: str  # of what is not noticed: why there is nothing to find, or ``MISSED``

    @property
    def vendor(self) -> str:
        """Whose instruction set it is."""
        return "NVIDIA" if self.architecture.startswith("sm_") else "AMD"

    @property
    def counts(self) -> bool:
        """Whether there is something to notice, or nobody knows that there is not."""
        return bool(self.by) or self.why == MISSED or self.kind == "other"


def read(path: Path) -> list[Line]:
    """Lines of a file; what a run that was killed left of its last line is passed over.

    Raises:
        ReportError: it is no such table.
    """
    raw = path.read_bytes()
    text = (lzma.decompress(raw) if path.suffix == ".xz" else raw).decode()
    with io.StringIO(text, newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames != [each.name for each in fields(Line)]:
            raise ReportError("is no table of mutate_emulated.py", place=str(path), remedy="name one that it wrote")
        return [Line(**row) for row in rows if None not in row and None not in row.values()]


def write(path: Path, lines: Iterable[Line], *, more: bool = False) -> None:
    """A whole table, or with ``more`` lines behind those that are there."""
    with path.open("a" if more else "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not more:
            writer.writerow([each.name for each in fields(Line)])
        writer.writerows(astuple(line) for line in lines)


# -- tables


def by_kind(lines: Sequence[Line]) -> str:
    """A row a kind of instruction and way of changing it, and one of all."""
    groups: dict[str, Callable[[Line], bool]] = {}
    for kind, word in WORDS.items():
        groups[word if kind == "other" else f"{word}, deleted"] = partial(_is, kind, True)
        groups[f"{word}, changed"] = partial(_is, kind, False)
    groups["all"] = lambda line: True
    rows = [[name, *_counts(list(filter(chosen, lines)))] for name, chosen in groups.items()]
    header = ["", "mutants", "nothing to notice", "noticed", "missed", "by the verdict alone"]
    return tabulate([row for row in rows if row[1]], header, tablefmt="github")


def _is(kind: str, deleted: bool, line: Line) -> bool:
    return line.kind == kind and (line.change == DELETED) is deleted


def _counts(lines: Sequence[Line]) -> list[int | str]:
    counting = [line for line in lines if line.counts]
    noticed, alone = sum(bool(line.by) for line in counting), sum(line.verdict == "yes" for line in counting)
    missed = sum(line.why == MISSED for line in lines)
    return [len(lines), len(lines) - len(counting), _share(noticed, counting), missed, _share(alone, counting)]


def _share(count: int, of: Sequence[Line]) -> str:
    return f"{count} of {len(of)} ({100 * count / max(1, len(of)):.1f} %)"


def by_architecture(lines: Sequence[Line]) -> str:
    """A row an architecture: what orders, and the others."""
    rows = []
    for name in dict.fromkeys(line.architecture for line in lines):
        own = [line for line in lines if line.architecture == name]
        orders, others = ([line for line in own if (line.kind == "other") is other] for other in (False, True))
        kernels = len({line.case for line in own})
        rows.append([name, kernels, *_counts(orders)[:3], _counts(others)[2]])
    header = ["", "kernels", "mutants of what orders", "nothing to notice", "noticed", "other instructions noticed"]
    return tabulate(rows, header, tablefmt="github")


def reasons(lines: Sequence[Line]) -> str:
    """Survivors by kind and reason."""
    survivors = [line for line in lines if not line.by]
    counts = Counter((line.why, WORDS[line.kind]) for line in survivors)
    order = {why: place for place, why in enumerate(sorted({why for why, _ in counts}))}
    places = list(WORDS.values())
    rows = sorted(counts.items(), key=lambda item: (order[item[0][0]], places.index(item[0][1])))
    return tabulate([[why, word, count] for (why, word), count in rows], ["why", "", "survivors"], tablefmt="github")


def report(lines: Sequence[Line]) -> Iterator[str]:
    """All tables, of each vendor and version of Triton."""
    for vendor, triton in sorted({(line.vendor, line.triton) for line in lines}):
        own = [line for line in lines if (line.vendor, line.triton) == (vendor, triton)]
        yield f"{vendor}, Triton {triton}\n"
        yield from (f"{table(own)}\n" for table in (by_kind, by_architecture, reasons))


DOCUMENTS = {"AMD": "docs/emulation.md", "NVIDIA": "docs/emulation-ptx.md"}
ROOT = Path(__file__).resolve().parent.parent
END = "<!-- end -->"


def document(lines: Sequence[Line], vendor: str) -> tuple[Path, str, str]:
    """A vendor's document, as it is and as it should be with its tables between the marks.

    Raises:
        ReportError: the document has no place for them.
    """
    path, mark = ROOT / DOCUMENTS[vendor], f"<!-- {vendor}'s mutants, made by scripts/mutants_table.py -->"
    now = path.read_text(encoding="utf-8")
    head, found, rest = now.partition(mark)
    _, ended, tail = rest.partition(END)
    if not (found and ended):
        raise ReportError("has no place for the tables", place=str(path), remedy=f"put {mark} and {END} into it")
    own = [line for line in lines if line.vendor == vendor]
    return path, now, "\n".join([head + mark, "", *report(own), END + tail])


def missed(lines: Iterable[Line]) -> list[Line]:
    """Mutants of what orders that nothing finds, and that nothing explains."""
    return [line for line in lines if line.why == MISSED]


def told_of(line: Line) -> str:
    """A mutant in a line."""
    return f"{line.why:10s} {line.case} {line.architecture} line {line.line}: {line.instruction} → {line.change}"


def main(arguments: Sequence[str]) -> int:
    """Print the tables of some files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="of mutate_emulated.py -o")
    parser.add_argument("--survivors", action="store_true", help="list them, too")
    parser.add_argument("--write", action="store_true", help="put the tables into the documents")
    parser.add_argument("--check", action="store_true", help="exit code 1 where other tables stand in the documents")
    options = parser.parse_args(arguments)
    lines = [line for path in options.files for line in read(path)]
    print(*report(lines), sep="\n")
    left = missed(lines)
    print(*map(told_of, [line for line in lines if not line.by] if options.survivors else left), sep="\n")
    stale = list(_written(lines, write=options.write)) if options.write or options.check else []
    return int(bool(left or (options.check and stale)))


def _written(lines: Sequence[Line], *, write: bool) -> Iterator[Path]:
    """Documents whose tables were others; with ``write`` they are so no longer."""
    for vendor in DOCUMENTS:
        path, now, then = document(lines, vendor)
        if now != then:
            print(f"{path.relative_to(ROOT)}: other tables")
            if write:
                path.write_text(then, encoding="utf-8")
            yield path


if __name__ == "__main__":
    sys.exit(told(partial(main, sys.argv[1:])))
