"""What the rules find in every cell of the table, against the table of what they must find, and nothing else."""

from __future__ import annotations

import collections
import csv
import dataclasses
from pathlib import Path

import factories
import pytest
from cells import ROWS, cell_of

from portkit.analysis.findings import findings
from portkit.model import Evidence, PlannedCell, Status
from portkit.store.merge import Dataset
from portkit.store.merge import Row as Merged
from portkit.store.record import make_record
from portkit.targets.catalog import load_catalog

TABLE = Path(__file__).parent / "findings.csv"
TRITON = "3.7.1"  # of the table

FAILURES = {
    Status.OUT_OF_RESOURCES: {"PK103", "PK105", "PK106", "PK109"},
    Status.UNSUPPORTED: {"PK212", "PK213", "PK216", "PK306"},
    Status.COMPILER_CRASH: {"PK211", "PK217"},
    Status.COMPILE_ERROR: {"PK211", "PK212", "PK217"},
    Status.MISCOMPILED: {"PK212", "PK215"},
    Status.TIMEOUT: {"PK408"},
}
"""Status → rules of which one must name the cause."""

BY_OTHERS = {"PK107"}
"""Rules whose finding may need a target that takes long to build, and is not in every run."""


def expected() -> dict[tuple[str, str, str], set[str]]:
    """Case, variant and target → rules that find something there."""
    with TABLE.open(newline="") as file:
        return {
            (line["case"], line["variant"], line["target"]): set(line["findings"].split())
            for line in csv.DictReader(file)
        }


EXPECTED = expected()
CATALOG = load_catalog()


@pytest.fixture(scope="session")
def found(results):
    """Case of the table, variant and target → rules that find something there."""
    dataset = Dataset((factories.header(),), tuple(map(merged, results.values())), (), {})
    rules = collections.defaultdict(set)
    for each in findings(dataset, catalog=CATALOG):
        for target in each.targets:
            rules[each.kernel.partition("_")[0], each.variant, target].add(each.rule)
    return rules


def merged(result) -> Merged:
    """A row of the comparison; seconds of the compiler are left out, which depend on the cache and the host."""
    if result.build:
        launches = tuple(dataclasses.replace(x, compile_seconds=None) for x in result.build.launches)
        result = dataclasses.replace(result, build=dataclasses.replace(result.build, launches=launches))
    architecture = CATALOG.get(result.cell.target).architecture.name
    record = make_record(
        result,
        PlannedCell(result.cell, Evidence.COMPILED),
        header=factories.header(),
        params={},
        source_hash="5" * 16,
        architecture=architecture,
    )
    return Merged(record, (), False)


@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=pytest.mark.slow) if row.slow else row for row in ROWS], ids=str
)
def test_findings(row, found, results):
    rules = found[row.case, row.variant, row.target]
    status = results[row].outcome.status
    if not status.good:
        named = rules & FAILURES[status]
        built = any(each.case == row.case and each.variant == row.variant and built_(results, each) for each in results)
        assert len(named) == 1 if built or status is Status.OUT_OF_RESOURCES else len(named) <= 1, rules
    if row.triton == TRITON:
        whole = len(results) == len(ROWS)
        must = EXPECTED[row.case, row.variant, row.target]
        assert rules <= must
        assert must - rules <= (set() if whole else BY_OTHERS)


def built_(results, row) -> bool:
    """Whether a row has a binary."""
    return results[row].build is not None and results[row].outcome.status.good


def test_the_table_has_every_row(declarations):
    rows = [row for row in ROWS if row.triton == TRITON]
    assert {(row.case, row.variant, row.target) for row in rows} in (set(EXPECTED), set())
    assert all(cell_of(row, declarations) for row in rows)
