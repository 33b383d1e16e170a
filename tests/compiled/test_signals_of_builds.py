"""What real builds say of their lowering, and what rules make of it."""

from __future__ import annotations

import dataclasses

import factories
import pytest
from workshop import cell_of

from portkit.analysis.findings import findings, rule
from portkit.model import PlannedCell
from portkit.store.merge import Dataset, Row
from portkit.store.record import make_record
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


def targets_of(results, name, rule_id):
    """Targets on which a rule finds something in one case."""
    rows = [
        Row(
            make_record(
                dataclasses.replace(result, work=None),
                PlannedCell(result.cell, result.evidence),
                header=factories.header(),
                params={},
                source_hash="5" * 16,
                architecture=CATALOG.get(target).architecture.name,
            ),
            (),
            False,
        )
        for (case, target), result in results.items()
        if case == name
    ]
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
