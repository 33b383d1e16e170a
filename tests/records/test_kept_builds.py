"""The table of AMD builds that the repository keeps: whole, and by LLVM's own figures."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import pytest

from portkit.plan.matrix import read_matrix
from portkit.targets.catalog import load_catalog
from portkit.targets.occupancy import waves_per_simd

ROOT = Path(__file__).parents[2]
ARCHITECTURES = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1150", "gfx1151", "gfx1200", "gfx1201"}


@pytest.fixture(scope="module")
def rows():
    (path,) = (ROOT / "reports").glob("amd-builds-*.csv")
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


@pytest.fixture(scope="module")
def built(rows):
    return [row for row in rows if row["vgpr"]]


def test_each_architecture_has_each_variant_of_each_kernel(rows):
    cells = defaultdict(set)
    for row in rows:
        cells[row["architecture"]].add((row["kernel_case"], row["direction"], row["variant"]))
    assert cells.keys() == ARCHITECTURES
    (one,) = {frozenset(found) for found in cells.values()}
    kernels = {kernel.source.name for kernel in read_matrix(ROOT / "suite.yaml").kernels}
    assert {case for case, _, _ in one} == kernels


def test_all_are_built_but_those_of_another_vendor_s_options(rows):
    assert {row["status"] for row in rows} <= {"built", "excluded"}
    assert {row["variant"] for row in rows if row["status"] == "excluded"} == {"b64r128"}


def test_waves_by_the_rules_are_llvm_s(built):
    catalog = load_catalog()
    assert len(built) > 2000
    for row in built:
        registers, scalars = int(row["vgpr_allocated"]), int(row["sgpr"])
        assert waves_per_simd(catalog.get(row["target"]).architecture, registers, scalars) == int(row["waves"]), row


def test_products_take_the_matrix_instructions_of_their_architecture(built):
    for row in built:
        cdna = row["architecture"].startswith("gfx9")
        assert (row["wmma"] if cdna else row["mfma"]) == "0"
        assert bool(row["agpr"]) == cdna
    products = [row for row in built if row["kernel_case"] == "gemm" and not int(row["trial"])]
    assert all(row["path"] in ("mfma", "wmma") for row in products)
