"""JUnit files, as CI systems read them: a suite a target, a case a cell."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from xml.etree import ElementTree

from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.render.columns import field_text
from portkit.render.rows import fields


class Result(enum.StrEnum):
    """What a CI system counts a case as; the value is the tag."""

    PASSED = ""
    FAILURE = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


_COUNTS: Final = {Result.FAILURE: "failures", Result.ERROR: "errors", Result.SKIPPED: "skipped"}


@dataclass(frozen=True)
class Case:
    """One case of a suite."""

    suite: str
    group: str  # the kernel
    name: str
    result: Result
    told: str = ""  # why it did not pass, or what is said of one that did
    properties: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None


def suites(name: str, cases: Sequence[Case]) -> str:
    """A JUnit file of cases, the suites in the order in which they first come."""
    root = ElementTree.Element("testsuites", name=xml_text(name))
    for suite in dict.fromkeys(case.suite for case in cases):
        _suite(root, suite, [case for case in cases if case.suite == suite])
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: ElementTree.Element, name: str, cases: Iterable[Case]) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=xml_text(name))
    counts = dict.fromkeys(_COUNTS.values(), 0)
    number = 0
    for case in cases:
        number += 1
        _case(suite, case)
        if case.result in _COUNTS:
            counts[_COUNTS[case.result]] += 1
    suite.attrib.update({"tests": str(number), **{name: str(count) for name, count in counts.items()}})


def _case(suite: ElementTree.Element, case: Case) -> None:
    element = ElementTree.SubElement(suite, "testcase", classname=xml_text(f"{case.suite}.{case.group}"))
    element.set("name", xml_text(case.name))
    if case.seconds is not None:
        element.set("time", f"{case.seconds:.3f}")
    if case.properties:
        properties = ElementTree.SubElement(element, "properties")
        for name, value in case.properties.items():
            ElementTree.SubElement(properties, "property", name=xml_text(name), value=xml_text(value))
    if case.result is not Result.PASSED:
        ElementTree.SubElement(element, case.result.value, message=xml_text(case.told))
    elif case.told:
        ElementTree.SubElement(element, "system-out").text = xml_text(case.told)


def xml_text(text: str) -> str:
    """A text with no character that XML can't have; ElementTree escapes the rest."""
    return _NO_XML.sub("?", text)


_NO_XML: Final = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def comparison_junit(comparison: Comparison, findings: int | None = None, width: int | None = None) -> str:
    """The rows of a comparison; a gap that the matrix expects is skipped, as pytest's xfail is.

    What is our side's or the host's fault is an error, what is the kernel's a failure.
    """
    del findings, width  # a finding is no verdict
    return suites("portkit", [_of_row(row) for row in comparison.rows]).removesuffix("\n")


def _of_row(row: ComparisonRow) -> Case:
    known = {name: getattr(row, of) for name, of in _PROPERTIES.items()}
    return Case(
        suite=row.target,
        group=row.kernel,
        name=row.label,
        result=_result(row),
        told=f"{row.status}: {row.cause}" if row.cause else "",
        properties={name: field_text(value) for name, value in known.items() if value is not None},
        seconds=row.seconds,
    )


def _result(row: ComparisonRow) -> Result:
    if row.status.skipped or (row.expected and not row.status.good):
        return Result.SKIPPED
    if row.as_wanted:
        return Result.PASSED
    return Result.ERROR if row.no_verdict else Result.FAILURE


_NAMES: Final = frozenset({"kernel", "direction", "shape", "dtype", "variant", "target", "partition", "cause"})
_PROPERTIES: Final = {name: of for name, of in fields().items() if name not in _NAMES}
"""Fields that the case's own name and message do not tell."""
