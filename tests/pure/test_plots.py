"""Plots as files."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import many_targets
import pytest

pytest.importorskip("vl_convert", reason="needs the extra `report`")

from portkit.analysis.rows import comparison
from portkit.errors import HostError, ReportError
from portkit.render.plots import export
from portkit.render.plots.export import FORMATS
from portkit.render.plots.kinds import KINDS, plots


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return many_targets.dataset(tmp_path_factory.mktemp("reports"))


@pytest.fixture(scope="module")
def compared(dataset):
    return comparison(dataset)


@pytest.fixture(scope="module")
def some(compared):
    """Of one kernel, for speed."""
    from portkit.analysis.choice import choose

    return choose(compared, ["fan_in"])


def test_every_kind_is_made_and_names_are_unique(compared, dataset):
    found = list(plots(compared, dataset))
    assert {plot.kind for plot in found} == set(KINDS) - {"trend"}  # of which one merge knows nothing
    assert len({plot.name for plot in found}) == len(found)
    assert all(plot.alt.endswith(".") for plot in found)


def test_hostile_names_make_plain_file_names(compared, dataset):
    assert all(plot.name.replace("-", "").isalnum() for plot in plots(compared, dataset))


def test_kernels_whose_names_differ_in_signs_or_are_long_have_files_of_their_own(some, dataset, tmp_path):
    longer = "k" * 300
    named = {"ab": 0, "a_b": 0, "A-b": 0, "和": 0, "積": 0, longer: 0, f"{longer}_other": 0}
    rows = tuple(replace(row, kernel=name) for name in named for row in some.rows)
    files = export(replace(some, rows=rows, findings=()), dataset, tmp_path, "vega")
    assert len(set(files)) == len(files) == len(list(tmp_path.iterdir()))
    drawn = {json.loads(file.read_text())["title"]["subtitle"].partition(" ")[0] for file in files}
    assert set(named) <= drawn


def test_a_plot_that_vega_does_not_take_is_named(some, dataset, tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, "svg", (".svg", refused))
    with pytest.raises(ReportError, match=r"plot [a-z0-9-]+: can't be drawn: no such operator\n.*--plot-format vega"):
        export(some, dataset, tmp_path)


def refused(spec):
    raise ValueError("no such operator\n at line 1")


def test_svg_has_the_marks_of_every_target(some, dataset, tmp_path):
    files = export(some, dataset, tmp_path / "plots")
    text = next(file for file in files if file.name == "fan-in-2x4096-float32-w8-speedups-events.svg").read_text()
    assert [target for target in many_targets.TARGETS if f">{target}<" not in text] == []
    assert text.count('aria-roledescription="bar"') == 12  # four targets, three baselines
    assert "3.60" in text


def test_png_and_vega(some, dataset, tmp_path):
    few = list(export(some, dataset, tmp_path, "vega"))
    spec = json.loads(next(file for file in few if file.name.endswith("depth.vl.json")).read_text())
    assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/")
    assert len(spec["datasets"]["steps"]) == 20
    (png, *_) = export(some, dataset, tmp_path / "png", "png")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_an_unknown_format_and_a_folder_that_is_a_file_are_said(some, dataset, tmp_path):
    with pytest.raises(ReportError, match="name one of svg, png, vega"):
        export(some, dataset, tmp_path, "gif")
    (tmp_path / "taken").write_text("")
    with pytest.raises(ReportError, match="can't be written"):
        export(some, dataset, tmp_path / "taken", "vega")


def test_without_the_library_the_extra_is_named(some, dataset, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(HostError, match=r"pip install 'portkit\[report\]'"):
        export(some, dataset, tmp_path)
