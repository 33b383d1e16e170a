"""Excerpts behind the findings of real builds: a rule's words stand in the texts of the target that it is about."""

from __future__ import annotations

import dataclasses
import hashlib
import re

import factories
import pytest
from cells import ROWS
from looked_at import IN_TABLE
from test_findings import CATALOG, TRITON, merged

from portkit.analysis.findings import findings
from portkit.analysis.views.excerpts import LOOKS, Excerpts
from portkit.store.journal import blob_path
from portkit.store.merge import Dataset
from portkit.store.texts import BLOB


@pytest.fixture(scope="session")
def dataset(results, tmp_path_factory):
    """All builds of the run with their texts beside a report."""
    report = tmp_path_factory.mktemp("texts") / f"{factories.RUN_ID}.jsonl"
    rows = []
    for result in results.values():
        row = merged(result)
        blobs = {BLOB: kept(report, result.blobs[BLOB])} if BLOB in result.blobs else {}
        rows.append(dataclasses.replace(row, record=dataclasses.replace(row.record, blobs=blobs)))
    return Dataset((factories.header(),), tuple(rows), (), {}, {factories.RUN_ID: str(report)})


def kept(report, content):
    address = hashlib.sha256(content).hexdigest()
    path = blob_path(report, address)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return address


def test_what_a_finding_says_stands_in_a_text_where_it_holds(dataset, results):
    source = Excerpts(dataset)
    cells = [row.record.cell for row in dataset.rows if BLOB in row.record.blobs]
    seen, stages = set(), set()
    for each in findings(dataset, catalog=CATALOG):
        if each.rule not in LOOKS:
            continue
        seen.add(each.rule)
        built = {x.target for x in cells if (x.case, x.variant) == (each.kernel, each.variant or x.variant)}
        built &= set(each.targets)
        found = source.of(each)
        assert [x.holds for x in found if x.holds] == [True] * bool(built), each
        for excerpt in found:
            check(each, excerpt)
            stages.add(excerpt.stage)
    assert seen <= IN_TABLE
    if ROWS[0].triton == TRITON and {row for row in ROWS if not row.slow} <= set(results):
        assert seen == IN_TABLE
        assert {"ptx", "sass", "amdgcn"} <= stages


def check(finding, excerpt):
    assert excerpt.target in (finding.targets if excerpt.holds else finding.against)
    assert any(stage == excerpt.stage for stage, _ in LOOKS[finding.rule])
    matching = [line for line in excerpt.lines if line.match]
    assert 0 < len(matching) <= excerpt.matches
    assert not [line.text for line in excerpt.lines if re.search(r"\.loc\b|#loc|!dbg|\bloc\(", line.text)]
