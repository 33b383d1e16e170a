"""Mistakes in targets files and names, each with its place and remedy."""

from pathlib import Path

import pytest

from portkit.errors import CatalogError
from portkit.targets.catalog import load_catalog

START = "targets:\n  h20:\n    title: NVIDIA H20\n"
GOOD = START + "    architecture: sm_90\n    source: datasheet\n"


@pytest.mark.parametrize(
    ("name", "message", "remedy"),
    [
        ("h201", "unknown target 'h201'", "h200"),
        ("MI300X", "unknown target 'MI300X'", "mi300x"),
        ("gfx908", "architecture 'gfx908' has no sourced limits", "gfx90a"),
        ("sm_61", "architecture 'sm_61' has no sourced limits", "sm_86"),
    ],
)
def test_unknown_name(name, message, remedy):
    with pytest.raises(CatalogError) as caught:
        load_catalog().get(name)
    assert message in caught.value.message
    assert remedy in caught.value.remedy


def test_a_device_of_what_is_no_architecture():
    with pytest.raises(CatalogError, match="is no architecture"):
        load_catalog().match_device(name="Instinct MI100", architecture="vega", units=120, memory_bytes=None)


@pytest.mark.parametrize(
    ("text", "place", "message", "remedy"),
    [
        (GOOD + "    bandwith: 4000\n", "own.yaml:6: targets.h20.bandwith", "unknown key 'bandwith'", "bandwidth"),
        (GOOD + "    units: many\n", "own.yaml:6: targets.h20.units", "'many'", "docs/targets.md"),
        (GOOD + "    units: -4\n", "own.yaml:6: targets.h20.units", "greater than 0", "docs/targets.md"),
        (GOOD + "    l2_mib: .inf\n", "own.yaml:6: targets.h20.l2_mib", "finite", "docs/targets.md"),
        (
            GOOD + "    memory_gib: 1e300\n",
            "own.yaml:6: targets.h20.memory_gib",
            "less than or equal",
            "docs/targets.md",
        ),
        (GOOD + "    units: 9999999\n", "own.yaml:6: targets.h20.units", "less than or equal", "docs/targets.md"),
        (
            GOOD + "    peak_tflops: {fp8: 0}\n",
            "own.yaml:6: targets.h20.peak_tflops.fp8",
            "greater than 0",
            "docs/targets",
        ),
        (GOOD.replace("h20:", "all:"), "own.yaml:2: targets.all", "'all' is a reserved name", "another"),
        (GOOD.replace("h20:", "interpreter:"), "own.yaml:2: targets.interpreter", "a reserved name", "another"),
        (GOOD + "    peak_tflops: {fp4: 1}\n", "own.yaml:6: targets.h20.peak_tflops.fp4", "'fp4'", "docs/targets.md"),
        (GOOD + "    device_name: 'H20('\n", "own.yaml:6: targets.h20.device_name", "regular expression", "docs"),
        (GOOD + "    title: again\n", "own.yaml:6", "key 'title' is there twice", "remove one"),
        (START + "    source: x\n", "own.yaml:2: targets.h20.architecture", "'architecture' is missing", "add"),
        (GOOD.replace("sm_90", "sm_91"), "own.yaml:4: targets.h20.architecture", "'sm_91'", "sm_90"),
        (GOOD.replace("h20:", "h200:"), "own.yaml:2: targets.h200", "known already", "replaces: true"),
        (GOOD.replace("h20:", "H-20:"), "own.yaml:2: targets.H-20", "no target name", "lower-case"),
        (GOOD.replace("h20:", "sm90:"), "own.yaml:2: targets.sm90", "name of an architecture", "another"),
        (GOOD.replace("h20:", "20:"), "own.yaml:2: targets.20", "string", "docs/targets.md"),
        ("target: {}\n", "own.yaml:1: targets", "'targets' is missing", "add"),
        ("targets: {}\n", "own.yaml:1: targets", "at least 1", "docs/targets.md"),
        ("", "own.yaml", "is empty", "`targets:`"),
        ("[1]", "own.yaml:1", "must be a mapping", "`targets:`"),
        ("a: " + "[" * 5000, "own.yaml:1", "more than 50 deep", "brackets"),
        ("targets: [\n", "own.yaml:2", "not YAML", "brackets"),
        (GOOD + "    units: !!int x\n", "own.yaml", "not YAML", "tags"),
        (
            "x: &x {unit: 1}\ntargets:\n  h20:\n    <<: *x\n    title: H20\n    architecture: sm_90\n    source: x\n",
            "own.yaml:4: targets.h20.unit",
            "unknown key 'unit'",
            "units",
        ),
        ("targets: {h20: {title: \x01}}\n", "own.yaml:1", "not YAML", "control character"),
    ],
)
def test_mistake_in_a_targets_file(tmp_path, text, place, message, remedy):
    file = tmp_path / "own.yaml"
    file.write_text(text)
    with pytest.raises(CatalogError) as caught:
        load_catalog([file])
    assert caught.value.place.removeprefix(f"{tmp_path}/") == place
    assert message in caught.value.message
    assert remedy in caught.value.remedy


def test_two_files_with_one_name(tmp_path):
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file in files:
        file.write_text(GOOD)
    with pytest.raises(CatalogError, match=r"b\.yaml:2: targets\.h20: target 'h20' is known already"):
        load_catalog(files)


def test_no_file(tmp_path):
    with pytest.raises(CatalogError, match="no such targets file"):
        load_catalog([tmp_path / "none.yaml"])


def test_a_path_that_no_file_can_have():
    with pytest.raises(CatalogError, match=r"a path that no text can hold"):
        load_catalog([Path("\0")])


def test_not_text(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_bytes(b"targets: \xff\xfe")
    with pytest.raises(CatalogError, match="is not UTF-8"):
        load_catalog([file])
