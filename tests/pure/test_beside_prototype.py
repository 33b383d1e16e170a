"""The comparison of speeds: what it refuses, and what its tables say."""

import pytest
from script_modules import script_module

beside = script_module("beside_prototype")


def row(kernel, prototype, unchecked, checked, architecture="gfx942"):
    """A launch with its milliseconds."""
    family = beside.family_of(kernel)
    return beside.Row("amd", architecture, family, kernel, prototype, unchecked, checked, build=0.5)


@pytest.mark.parametrize("vendor", [[], ["--vendor", "nvidia"]])
def test_a_folder_without_the_prototype_is_refused(tmp_path, capsys, vendor):
    assert beside.main([str(tmp_path), *vendor]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path} is not the prototype: " in said
    assert "ptx/run2.py" in said
    assert ("amdgcn/run2.py" in said) == (not vendor)


def test_ratios_are_averaged_geometrically():
    rows = [row("mm 4x4 float32", 2.0, 1.0, 2.0), row("mm32 4x4 float32", 1.0, 2.0, 8.0)]
    line = beside.table(rows, lambda each: (each.vendor, each.family), ["vendor", "family"]).splitlines()[-1]
    assert line == "| amd | matrix products | 2 | 1.00 | 2.00 | 2.83 | 0.50 |"


def test_architectures_stand_side_by_side():
    rows = [row("hist 8 int32", 2.0, 1.0, 2.0), row("hist 8 int32", 4.0, 1.0, 2.0, "gfx1100")]
    assert beside.kernels_table(rows).splitlines() == [
        "| kernel | gfx942 | gfx1100 |",
        "| --- | --- | --- |",
        "| hist 8 int32 | 0.50 | 0.25 |",
    ]
