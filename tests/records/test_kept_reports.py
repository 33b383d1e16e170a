"""The reports that the repository keeps, and what is quoted from them."""

from __future__ import annotations

from pathlib import Path

from portkit.analysis.rows import comparison
from portkit.model import Evidence, Status
from portkit.render.table import render
from portkit.store.merge import merge

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "reports" / "h200-2026-11-29"


def test_the_comparison_is_what_merge_makes_of_the_report():
    text = render(comparison(merge([KEPT])), "github")
    assert (ROOT / "reports" / "comparison.md").read_text().strip() == text.strip()


def test_the_readme_quotes_the_report():
    rows = {" ".join(line.split()) for line in render(comparison(merge([KEPT])), "plain").splitlines()}
    quoted = (ROOT / "README.md").read_text().split("```")
    (table,) = [part for part in quoted if "softmax 1024x32768" in part]
    lines = [" ".join(line.split()) for line in table.splitlines() if line.strip()]
    assert len(lines) > 8
    assert set(lines) <= rows


def test_registers_of_the_loaded_kernel_are_those_of_the_binary_built_for_it():
    records = [row.record for row in merge([KEPT]).rows if row.record.cell.target == "h200"]
    measured = {r.keys.cell_key: r.build for r in records if r.evidence is Evidence.MEASURED}
    compiled = {r.keys.cell_key: r.build for r in records if r.evidence is Evidence.COMPILED}
    assert len(measured) == 4
    assert all(r.outcome.status in (Status.PASSED, Status.BUILT) for r in records)
    for key, build in measured.items():
        assert build.registers_per_thread == compiled[key].registers_per_thread
        assert [x.binary_hash for x in build.launches] == [x.binary_hash for x in compiled[key].launches]
