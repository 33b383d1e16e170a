"""What the scripts share that keep tables of a tier's verdicts: states of cells, lines of CSV, options."""

from __future__ import annotations

import argparse
import csv
import enum
import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

from packaging.specifiers import SpecifierSet
from told import output, seconds

from portkit.errors import ReportError
from portkit.model import VERDICT_RULE, Cell, Evidence, Matrix, PlannedCell, Status, digest, stands
from portkit.run.benchmark import Prepared
from portkit.store.journal import write_whole

ROOT = Path(__file__).resolve().parent.parent
SUITE = ROOT / "suite.yaml"

RULE, FIRST_RULE = "rule", "1"
"""Column of the verdict's rule, and what stands in it for lines of before it was there."""

Keys = tuple[str, str, str]
"""What a verdict must share with today: hash of the case's source, digest of the variant's parameters, rule."""


class Given(Protocol):
    """A verdict that was given."""

    @property
    def keys(self) -> Keys:
        """What must be of today."""

    @property
    def status(self) -> str:
        """What was found."""


Line = TypeVar("Line")
"""A dataclass of texts: a line of a table, with a column ``rule``."""


class State(enum.StrEnum):
    """Where a cell stands."""

    PASSED = "passed"
    EXPECTED = "as expected"
    UNKNOWN = "not in the catalogue"
    WRONG = "wrong"
    EARLIER = "earlier source"  # or an earlier rule of verdicts: by it, it was right
    EARLIER_WRONG = "earlier, wrong"
    NEVER = "never"


LEFT = frozenset({State.WRONG, State.NEVER, State.EARLIER, State.EARLIER_WRONG})
"""States whose cells are to run."""


def state_of_today(today: Collection[State], earlier: State | None, worst_first: Sequence[State]) -> State:
    """Where a cell stands by its verdicts of today's source and rule; without any, by the last one of earlier ones."""
    if today:
        return next(state for state in worst_first if state in today)
    if earlier is None:
        return State.NEVER
    return State.EARLIER_WRONG if earlier is State.WRONG else State.EARLIER


def expected(planned: PlannedCell, evidence: Evidence, triton: str, matrix: Matrix) -> Status | None:
    """The gap of a cell that the matrix knows of with a version of Triton, which need not be this host's."""
    for rule in matrix.expectations:
        versions = SpecifierSet(rule.select.triton or "")
        if rule.select.matches(planned.cell, evidence) and versions.contains(triton, prereleases=True):
            return rule.status
    return None


def keys_of(cell: Cell, prepared: Prepared) -> Keys:
    """What a verdict of a cell must have to be one of today."""
    declaration = prepared.declarations[cell.case]
    return declaration.source_hash, digest(declaration.variants[cell.variant]), str(VERDICT_RULE)


def is_of(now: Keys, given: Given) -> bool:
    """Whether a verdict is one of today's source and parameters, and by today's rule the same."""
    *source, rule = given.keys  # no rule: nothing tells it
    return tuple(source) == now[:2] and rule.isdecimal() and stands(given.status, int(rule))


def has_word(words: Iterable[str], cell: Cell, evidence: Evidence = Evidence.MEASURED) -> bool:
    """Whether the label of a cell has one of the words."""
    return any(word in cell.label(evidence) for word in words)


def counts(states: Iterable[State], columns: Iterable[State] = State) -> tuple[int, ...]:
    """How many cells there are, and of each state."""
    found = Counter(states)
    return (found.total(), *(found[state] for state in columns))


def read_lines(path: Path, kind: type[Line], script: str) -> Iterator[Line]:
    """Lines of a table; what a run that was killed left of its last line is passed over.

    Raises:
        ReportError: the file is no such table.
    """
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames not in (names, _without_rule(names)):
            raise ReportError(f"is no table of {script}", place=str(path), remedy="name one that it wrote")
        for row in rows:
            if None not in row and None not in row.values():
                yield kind(**{RULE: FIRST_RULE, **row})


def _without_rule(names: Sequence[str]) -> list[str]:
    """Columns of a table of before its lines had a rule."""
    return [name for name in names if name != RULE]


class Lines:
    """A table that lines are added to; each is in the file once it is added.

    Args:
        path: of the table; one that is there is gone on with.
        kind: of the lines.
        script: that writes it.

    Raises:
        ReportError: the file is another table.
    """

    def __init__(self, path: Path, kind: type[Any], script: str) -> None:
        begun = path.exists() and path.stat().st_size > 0
        if begun:  # whole lines with all columns, whatever a killed run or an earlier script left
            write_lines(path, kind, list(read_lines(path, kind, script)))
        self._file = path.open("a", newline="", encoding="utf-8")
        self._writer = csv.writer(self._file, lineterminator="\n")
        if not begun:
            self._writer.writerow([each.name for each in fields(kind)])
            self._file.flush()

    def add(self, line: Any) -> None:
        """Write a line."""
        self._writer.writerow(astuple(line))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def write_lines(path: Path, kind: type[Any], lines: Iterable[Any]) -> None:
    """A whole table, in place of what the file held; that stays where the new one can't be written whole."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([each.name for each in fields(kind)])
    writer.writerows(astuple(line) for line in lines)
    write_whole(path, text.getvalue().encode())


def add_options(parser: argparse.ArgumentParser, files: str) -> None:
    """Options that such scripts have in common."""
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help=files)
    parser.add_argument("--matrix", type=Path, default=SUITE, help="(suite.yaml)")
    parser.add_argument("--tier", default="full", help="(%(default)s)")
    parser.add_argument("--seconds", type=seconds, help="how long at most (no limit)")
    parser.add_argument("--check", action="store_true", help="exit code 1 also where a cell is not judged")
    parser.add_argument("-o", "--output", type=output, help="a CSV file for the verdicts")
