"""The catalogue: names, what is a fact, bare architectures, devices, users' files."""

import csv
import re
import subprocess
import sys
from importlib import resources

import pytest

from portkit.errors import CatalogError
from portkit.model import Platform
from portkit.targets.catalog import load_catalog
from portkit.targets.occupancy import occupancy

GIB = 2**30
H20 = """\
targets:
  h20:
    title: NVIDIA H20
    architecture: sm_90
    units: 78
    memory_bandwidth_gbs: 4000
    memory_gib: 96
    peak_tflops: {bfloat16: 148.0}
    source: the vendor's datasheet
"""


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


def rows(name):
    text = (resources.files("portkit.targets") / "data" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def test_names_serve_in_cells(catalog):
    names = [target.name for target in catalog]
    assert len(set(names)) == len(names) == 37
    assert all(re.fullmatch(r"[a-z0-9]+", name) for name in names)
    for name in ("h200", "h100", "h100pcie", "a100", "a10080gbpcie", "mi300x", "mi250x", "rtx4090", "rx7900xtx"):
        assert catalog.get(name).name == name


def test_figures_of_one_sku(catalog):
    target = catalog.get("mi300x")
    assert (target.vendor, target.architecture.name, target.units) == ("amd", "gfx942", 304)
    assert target.memory_bytes == 192 * GIB
    assert (target.memory_bandwidth_gbs, target.l2_mib, target.last_level_cache_mib) == (5300, 32, 256)
    assert target.peak_tflops["bfloat16"] == 1307.4
    assert not target.unsourced


def test_recalled_figures_are_not_handed_out(catalog):
    marked = 0
    for row in rows("skus.csv"):
        target = catalog.get(row["name"])
        assert target.unsourced == tuple(row["unsourced"].split())
        for field in target.unsourced:
            name, _, key = field.partition(".")
            value = getattr(target, name)
            assert (value[key] if key else value) is None, (target.name, field)
            assert row[field], "the recalled number is kept in the file"
            marked += 1
    assert marked >= 40


def test_every_row_names_its_source():
    for name in ("skus.csv", "arch_limits.csv"):
        assert all(row["source"].strip() for row in rows(name))


def test_two_gcds_and_two_memories_are_told_apart(catalog):
    assert catalog.get("mi250x").units == 110
    assert catalog.get("a100").memory_bytes == 80 * GIB
    assert catalog.get("a10040gb").memory_bytes == 40 * GIB


def test_rdna_counts_compute_units_and_its_runtime_workgroup_processors(catalog):
    for target in catalog:
        if target.architecture.unit == "WGP":
            assert target.runtime_unit_count == target.units // 2


@pytest.mark.parametrize(("name", "canonical"), [("gfx1032", "gfx1032"), ("sm_86", "sm86"), ("sm86", "sm86")])
def test_a_bare_architecture_is_a_target(catalog, name, canonical):
    target = catalog.get(name)
    assert target.name == canonical
    assert name in catalog
    assert target.architecture is catalog.architecture(name)
    figures = (target.units, target.memory_bandwidth_gbs, target.memory_bytes, target.l2_mib)
    assert set(figures) | set(target.peak_tflops.values()) == {None}


@pytest.mark.parametrize("name", ["sm_90", "sm90", "sm_90a", "90"])
def test_spellings_of_an_architecture(catalog, name):
    arch = catalog.architecture(name)
    assert (arch.name, arch.platform, arch.triton_arch) == ("sm_90", Platform.CUDA, 90)
    assert (arch.shared_bytes_per_block_max, arch.barriers_per_block_slot) == (232448, 2)


def test_features_of_an_amd_architecture_are_left_out(catalog):
    arch = catalog.architecture("gfx942:sramecc+:xnack-")
    assert (arch.name, arch.triton_arch, arch.triton_backend) == ("gfx942", "gfx942", "hip")
    assert (arch.max_blocks_per_unit, arch.max_blocks_per_unit_single_wave) == (16, 32)


@pytest.mark.parametrize(
    ("name", "architecture", "units", "gib", "target"),
    [
        ("NVIDIA H200", "sm_90", 132, 139.8, "h200"),
        ("NVIDIA H100 80GB HBM3", "sm_90", 132, 79.1, "h100"),
        ("NVIDIA H100 PCIe", "sm_90", 114, 79.1, "h100pcie"),
        ("NVIDIA A100-SXM4-80GB", "sm_80", 108, 79.3, "a100"),
        ("NVIDIA A100 80GB PCIe", "sm_80", 108, 79.3, "a10080gbpcie"),
        ("NVIDIA A100-SXM4-40GB", "sm_80", 108, 39.4, "a10040gb"),
        ("Tesla V100-SXM2-16GB", "sm_70", 80, 15.8, "v100"),
        ("NVIDIA GeForce RTX 4090", "sm_89", 128, 23.6, "rtx4090"),
        ("AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 304, 192.0, "mi300x"),
        ("AMD Instinct MI250X/MI250", "gfx90a:sramecc+:xnack-", 110, 64.0, "mi250x"),
        ("Radeon RX 7900 XTX", "gfx1100", 48, 24.0, "rx7900xtx"),
        ("AMD Radeon RX 7900 XTX", "gfx1100", 48, None, "rx7900xtx"),
    ],
)
def test_a_device_is_known(catalog, name, architecture, units, gib, target):
    memory = None if gib is None else int(gib * GIB)
    assert catalog.match_device(name=name, architecture=architecture, units=units, memory_bytes=memory) == catalog.get(
        target
    )


@pytest.mark.parametrize(
    ("name", "architecture", "units", "gib", "slug"),
    [
        ("NVIDIA H200 NVL", "sm_90", 132, 140, "h200nvl"),  # another SKU
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "sm_90", 16, 10, "h10080gbhbm3mig1g10gb"),
        ("AMD Instinct MI300X", "gfx942", 38, 24, "mi300x38units"),  # CPX: an eighth
        ("AMD Instinct MI250X/MI250", "gfx90a", 104, 64, "mi250xmi250"),  # MI250
        ("NVIDIA H200", "sm_80", 132, 140, "h200132units"),  # no such architecture for that name
    ],
)
def test_another_device_is_a_target_of_its_own(catalog, name, architecture, units, gib, slug):
    target = catalog.match_device(name=name, architecture=architecture, units=units, memory_bytes=gib * GIB)
    assert (target.name, target.title, target.runtime_unit_count) == (slug, name, units)
    assert target.architecture.name == architecture
    assert target.memory_bandwidth_gbs is None
    assert slug not in catalog


@pytest.mark.parametrize(
    ("name", "architecture", "units", "gib", "slug"),
    [
        ("NVIDIA H200 MIG 7g.141gb", "sm_90", 132, 139, "h200mig7g141gb"),  # all of it, and yet a slice
        ("NVIDIA H200", "sm_90", 132, 70, "h200132units"),  # half of the memory
        ("NVIDIA A100-SXM4-80GB", "sm_80", 54, 79, "a100sxm480gb"),  # half of the SMs
        ("NVIDIA H100", "sm_90", 132, 79, "h100132units"),  # the name does not tell which H100
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "sm_89", 76, 16, "rtx4090laptopgpu"),
        ("NVIDIA GeForce RTX 4090 D", "sm_89", 114, 24, "rtx4090d"),
        ("NVIDIA GB200", "sm_100", 152, 184, "gb200"),
        ("AMD Radeon Graphics", "gfx1151", 20, 96, "gfx115120units"),
        ("Graphics Device", "sm_90", 132, 139, "graphicsdevice"),  # no driver knows it
    ],
)
def test_what_only_resembles_an_sku_is_none(catalog, name, architecture, units, gib, slug):
    target = catalog.match_device(name=name, architecture=architecture, units=units, memory_bytes=gib * GIB)
    assert (target.name, target.memory_bandwidth_gbs, target.architecture.sourced) == (slug, None, True)


@pytest.mark.parametrize("name", ["", "AMD Radeon Graphics"])
def test_a_device_that_rocm_can_not_name_is_known_by_its_size(catalog, name):
    def match(units, gib):
        memory = None if gib is None else gib * GIB
        return catalog.match_device(name=name, architecture="gfx942", units=units, memory_bytes=memory).name

    assert (match(304, 191), match(304, 255), match(228, 127)) == ("mi300x", "mi325x", "mi300a")
    assert (match(304, None), match(80, 191)) == ("gfx942304units", "gfx94280units")


def test_a_device_of_an_architecture_without_limits_is_a_target_all_the_same(catalog):
    target = catalog.match_device(name="NVIDIA Z100", architecture="sm_150", units=200, memory_bytes=GIB)
    assert (target.name, target.runtime_unit_count, target.vendor) == ("z100", 200, "nvidia")
    assert (target.architecture.sourced, target.architecture.triton_arch) == (False, 150)
    with pytest.raises(ValueError, match="no source gave the limits of sm_150"):
        occupancy(target.architecture, registers=32, shared_bytes=0, threads=128)
    old = catalog.match_device(name="AMD Instinct MI100", architecture="gfx908:xnack-", units=120, memory_bytes=None)
    assert (old.name, old.architecture.name, old.architecture.sourced) == ("mi100", "gfx908", False)


def test_compute_units_of_an_unknown_rdna_device_stay_unknown(catalog):
    target = catalog.match_device(name="Radeon RX 7900 GRE", architecture="gfx1100", units=40, memory_bytes=None)
    assert (target.units, target.runtime_unit_count) == (None, 40)


def test_users_add_targets(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(H20)
    catalog = load_catalog([file])
    target = catalog.get("h20")
    assert (target.architecture.name, target.units, target.runtime_unit_count) == ("sm_90", 78, 78)
    assert (target.memory_bytes, target.l2_mib) == (96 * GIB, None)
    assert (target.peak_tflops["bfloat16"], target.peak_tflops["fp8"]) == (148, None)
    assert [each.name for each in catalog][-1] == "h20"
    assert catalog.match_device(name="NVIDIA H20", architecture="sm_90", units=78, memory_bytes=None) is target


def test_users_replace_a_target_when_they_say_so(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text("targets: {h200: {title: H200, architecture: sm_90, source: measured, units: 130, replaces: true}}")
    assert load_catalog([file]).get("h200").units == 130
    assert load_catalog().get("h200").units == 132


def test_the_catalogue_needs_no_heavy_package():
    heavy = ("torch", "triton", "numpy", "pydantic", "ruamel.yaml", "pandas")
    code = (
        f"import sys, portkit.targets.catalog as c; c.load_catalog(); print([x for x in {heavy} if x in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_not_in_the_catalogue(catalog):
    assert "h201" not in catalog
    assert "gfx908" not in catalog
    with pytest.raises(CatalogError):
        catalog.get("h201")
