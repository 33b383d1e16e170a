"""What real builds say of their lowering, and what rules make of it."""

from __future__ import annotations

import dataclasses
import re

import factories
import many_targets
import pytest
from looked_at import IN_TABLE
from workshop import cell_of

from portkit.analysis.findings import findings, rule
from portkit.analysis.findings.rule import Finding
from portkit.analysis.views.excerpts import LOOKS, Excerpts
from portkit.model import Evidence, PlannedCell
from portkit.store.merge import Dataset, Row
from portkit.store.record import make_record
from portkit.store.texts import BLOB, unpack
from portkit.targets.catalog import load_catalog

LARGE = (2**15, 2**17)  # 2^32 elements
CATALOG = load_catalog()

POINTS = {
    # case → shape, dtype, targets
    "narrow": (LARGE, "float32", "h200 mi300x"),
    "apart": (LARGE, "float32", "h200 mi300x"),
    "small_apart": ((256, 256), "float32", "h200 mi300x"),
    "wide": (LARGE, "float32", "h200 mi300x"),
    "evicting": ((256, 256), "float32", "h200 mi300x"),
    "dividing": ((256, 256), "float32", "h200 mi300x"),
    "calling": ((256, 256), "float32", "h200 mi300x"),
    "walking": ((256, 256), "float32", "h200 mi300x strixhalo rx9070xt"),
    "specializing": ((256, 256), "float16", "b200 mi300x"),
    "quantizing": ((256, 256), "float32", "h200 mi300x"),
    "moving": ((256, 256), "float32", "h200"),
}


@pytest.fixture(scope="module")
def results(workshop):
    cells = [
        cell_of(name, target, shape, dtype)
        for name, (shape, dtype, targets) in POINTS.items()
        for target in targets.split()
    ]
    return {(x.cell.case, x.cell.target): x for x in workshop.build_cases("lowered.py", *cells)}


def launch_of(results, name, target):
    result = results[name, target]
    assert result.outcome.status.good, result.outcome.message
    (launch,) = result.build.launches
    assert launch.signals is not None
    return launch


def record_of(result):
    return make_record(
        dataclasses.replace(result, work=None),
        PlannedCell(result.cell, result.evidence),
        header=factories.header(),
        params={},
        source_hash="5" * 16,
        architecture=CATALOG.get(result.cell.target).architecture.name,
    )


def targets_of(results, name, rule_id):
    """Targets on which a rule finds something in one case."""
    rows = [Row(record_of(result), (), False) for (case, _), result in results.items() if case == name]
    found = findings(Dataset((factories.header(),), tuple(rows), (), {}), catalog=CATALOG, only=[rule(rule_id)])
    return {target for each in found for target in each.targets}


@pytest.mark.parametrize("target", ["h200", "mi300x"])
def test_extents_of_the_arguments(results, target):
    launch = launch_of(results, "narrow", target)
    assert (launch.largest_elements, launch.largest_bytes) == (2**32, 2**34)
    assert launch_of(results, "dividing", target).largest_bytes == 256 * 256 * 4


def test_offsets_of_32_bits(results):
    assert launch_of(results, "narrow", "h200").signals["offsets32"] == 2
    assert "offsets32" not in launch_of(results, "wide", "h200").signals
    assert targets_of(results, "narrow", "PK207") == {"h200", "mi300x"}
    assert targets_of(results, "wide", "PK207") == set()


def test_memory_over_2_gib(results):
    """Where all threads share the base and offsets from it are small, buffer operations stay."""
    assert launch_of(results, "apart", "mi300x").signals["global_operations"] > 0
    assert launch_of(results, "narrow", "mi300x").signals["buffer_operations"] > 0
    assert targets_of(results, "apart", "PK206") == {"mi300x"}
    for name in ("narrow", "small_apart"):
        assert targets_of(results, name, "PK206") == set()


def test_64_bit_division(results):
    assert launch_of(results, "dividing", "h200").signals["division64"] == 2
    assert targets_of(results, "dividing", "PK208") == {"h200", "mi300x"}
    assert targets_of(results, "wide", "PK208") == set()


def test_eviction(results):
    for target in ("h200", "mi300x"):
        assert launch_of(results, "evicting", target).signals["ask.eviction"] == 1
    assert launch_of(results, "evicting", "h200").signals["eviction"] > 0
    assert targets_of(results, "evicting", "PK209") == {"mi300x"}
    assert targets_of(results, "wide", "PK209") == set()


def test_device_library(results):
    assert launch_of(results, "calling", "h200").signals["library.nvidia"] == 1
    assert launch_of(results, "calling", "mi300x").signals["library.amd"] == 1
    assert targets_of(results, "calling", "PK212") == set()


def test_exponentials_of_scalars_keep_denormals_too(results):
    """On gfx1151 and gfx1201 the one of a scalar is scaled back by a product instead of v_ldexp."""
    for target in ("mi300x", "strixhalo", "rx9070xt"):
        signals = launch_of(results, "walking", target).signals
        assert signals["exp"] == 2
        assert signals["exp_scaled"] > 2
        assert "exp_flushing" not in signals
    assert targets_of(results, "walking", "PK302") == set()
    assert targets_of(results, "walking", "PK303") == {"mi300x", "strixhalo", "rx9070xt"}


def test_warp_specialisation(results):
    assert launch_of(results, "specializing", "mi300x").signals["ask.warp_specialize"] == 1
    assert "mi300x" in targets_of(results, "specializing", "PK209")
    if "warp_specialized" in launch_of(results, "specializing", "b200").signals:
        assert "b200" not in targets_of(results, "specializing", "PK209")


LOOKED = {
    # rule → where its words stand: case, target, stage, a word of the first line
    "PK207": ("narrow", "h200", "ttir", "arith.muli"),
    "PK208": ("dividing", "mi300x", "llir", "div"),
    "PK209": ("evicting", "mi300x", "ttir", "evict_first"),
    "PK210": ("narrow", "mi300x", "ttgir", "threadsPerWarp = [64]"),
    "PK212": ("calling", "h200", "ttir", "__nv_asinhf"),
    "PK215": ("moving", "h200", "ttir", "mov.b32"),
    "PK301": ("walking", "mi300x", "ttir", "arith.max"),
    "PK302": ("walking", "mi300x", "amdgcn", "v_exp_f32"),
    "PK305": ("quantizing", "h200", "ptx", "e5m2"),
}


@pytest.mark.parametrize("rule_id", LOOKED)
def test_the_words_of_a_rule_stand_in_the_texts_of_a_build(results, rule_id, tmp_path):
    case, target, stage, word = LOOKED[rule_id]
    result = results[case, target]
    (text,) = unpack(result.blobs[BLOB], "here").values()
    report = many_targets.Report(tmp_path)
    record = record_of(result)
    kept = dataclasses.replace(record, blobs={BLOB: report.keep(result.blobs[BLOB])})
    finding = finding_of(rule(rule_id), record.cell)
    (found,) = Excerpts(many_targets.of_records([kept], report)).of(finding)
    assert (found.target, found.stage, found.kernel) == (target, stage, text.kernel)
    lines = text.stages[stage].split("\n")
    matching = [line for line in found.lines if line.match]
    assert word in matching[0].text
    assert all(line.text.strip() in lines[line.number - 1] for line in matching)
    assert not [line.text for line in found.lines if re.search(r"\.loc\b|#loc|!dbg|\bloc\(", line.text)]


def finding_of(of, cell):
    """A finding of a rule about one cell: excerpts ask for no more than its place."""
    place = (cell.case, cell.direction, cell.shape, cell.dtype, cell.variant)
    return Finding(of.id, of.title, of.severity, *place, (cell.target,), (), (Evidence.COMPILED,), "", "", "", ())


def test_every_rule_with_excerpts_is_tried_on_real_builds():
    assert set(LOOKED) == set(LOOKS) - IN_TABLE
