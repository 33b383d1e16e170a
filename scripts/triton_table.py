"""Writes what differs between Triton releases into a document, from the results of their test runs.

    python scripts/triton_table.py build/triton-versions docs/triton-versions.md

Reads ``<version>.xml`` as ``pytest --junitxml`` wrote it. A test of a cell carries its
status as the property ``status``. Only what stands between the document's two marks
is replaced.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

BEGIN, END = "<!-- made by scripts/triton_table.py -->", "<!-- end -->"
UNKNOWN = "–"

Point = tuple[str, str, str]  # case, variant, target


@dataclass
class Results:
    """What the tests of one release came to."""

    counts: Mapping[str, int]  # tests, failures, errors, skipped
    seconds: float
    statuses: dict[Point, str] = field(default_factory=dict)
    agreed: int = 0  # cells whose test passed


def read(path: Path) -> Results:
    """The results of one release."""
    suite = ET.parse(path).getroot().find("testsuite")
    if suite is None:
        raise SystemExit(f"{path}: no results of pytest\n  remedy: make it anew with make test-triton-versions")
    counts = {key: int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")}
    results = Results(counts, float(suite.get("time", "0")))
    for test in suite.iter("testcase"):
        properties = {each.get("name"): each.get("value", "") for each in test.iter("property")}
        if "status" in properties:
            case, variant, target = properties["cell"].split(" ")
            results.statuses[case, variant, target] = properties["status"]
            results.agreed += test.find("failure") is None
    return results


def suite_table(versions: Mapping[str, Results]) -> Iterator[str]:
    """Passed, failed and skipped tests, and cells that agree with the table of what was seen."""
    yield "| Triton | passed | failed | skipped | cells as in the table | seconds |"
    yield "|---|---|---|---|---|---|"
    for version, each in versions.items():
        failed = each.counts["failures"] + each.counts["errors"]
        passed = each.counts["tests"] - failed - each.counts["skipped"]
        cells = f"{each.agreed} of {len(each.statuses)}"
        yield f"| {version} | {passed} | {failed} | {each.counts['skipped']} | {cells} | {each.seconds:.0f} |"


def differences(versions: Mapping[str, Results]) -> dict[tuple[str, str, tuple[str, ...]], list[str]]:
    """Case, variant and statuses by version → targets, where the statuses differ."""
    points = dict.fromkeys(point for each in versions.values() for point in each.statuses)
    groups = defaultdict(list)
    for case, variant, target in points:
        row = tuple(each.statuses.get((case, variant, target), UNKNOWN) for each in versions.values())
        if len({*row} - {UNKNOWN}) > 1:
            groups[case, variant, row].append(target)
    return groups


def difference_table(versions: Mapping[str, Results]) -> Iterator[str]:
    """Cells whose status is not the same on every release that has it."""
    yield f"| case | variant | targets | {' | '.join(versions)} |"
    yield f"|---|---|---|{'---|' * len(versions)}"
    for (case, variant, row), targets in sorted(differences(versions).items()):
        yield f"| {case} | `{variant}` | {' '.join(targets)} | {' | '.join(row)} |"


def insert(document: str, lines: Iterable[str]) -> str:
    """The document with the lines between its marks."""
    head, found, rest = document.partition(BEGIN)
    _, ended, tail = rest.partition(END)
    if not (found and ended):
        raise SystemExit(f"the document has no place for the table\n  remedy: put {BEGIN} and {END} into it")
    return "\n".join([head + BEGIN, *lines, END + tail])


def main(folder: str, document: str) -> None:
    """Read all results of a folder and write the tables."""
    paths = sorted(Path(folder).glob("*.xml"), key=lambda path: [int(part) for part in path.stem.split(".")])
    versions = {path.stem: read(path) for path in paths}
    lines = ["", *suite_table(versions), "", *difference_table(versions), ""]
    text = Path(document).read_text(encoding="utf-8")
    Path(document).write_text(insert(text, lines), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
