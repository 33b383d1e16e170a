"""A kernel over the nights: lines, what changed, and how they are shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from nights import night

from portkit.analysis.rows import comparison
from portkit.analysis.trend import Choice, lines, telling
from portkit.cli import main
from portkit.errors import ReportError
from portkit.model import Evidence, Status
from portkit.render.plots.trend import trend_plots
from portkit.render.trend import trend_text
from portkit.store.history import add, scan
from portkit.store.merge import merge


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Seven nights: Triton, then the driver, then the source change; one is wrong, one on another board."""
    folder = tmp_path_factory.mktemp("nights")
    night(folder / "reports", 1, triton="3.6.0")
    night(folder / "reports", 2, triton="3.7.1", fused_ms=0.55, registers=40, host_id="other")
    night(folder / "reports", 3, triton="3.7.1", fused_ms=0.55, registers=40, driver="580.1", portkit="0.2.0")
    night(
        folder / "reports", 4, triton="3.7.1", registers=40, driver="580.1", portkit="0.2.0", status=Status.WRONG_RESULT
    )
    given = {"triton": "3.7.1", "registers": 40, "driver": "580.1", "portkit": "0.2.0"}
    night(folder / "reports", 5, **given, fused_ms=0.44, source="6" * 16)
    night(folder / "reports", 6, **given, fused_ms=0.5, source="6" * 16, device="e1e1")
    night(folder / "reports", 7, **given, fused_ms=0.44, source="6" * 16)
    add(str(folder / "history"), merge([folder / "reports"]))
    return str(folder / "history")


@pytest.fixture(scope="module")
def line(place):
    (found,) = lines(scan(place), Choice(["softmax"], ["h200"]))
    return found


def test_a_line_has_a_point_a_night_the_oldest_first(line):
    assert line.label == "softmax 4096x4096 float32 w8 on h200, measured"
    assert line.figure.name == "events"
    assert [point.value for point in line.points] == [0.5, 0.55, 0.55, None, 0.44, 0.5, 0.44]
    assert [point.started[:10] for point in line.points] == [f"2026-11-0{day}" for day in range(1, 8)]


def test_versions_and_source_are_marked_where_they_change(line):
    assert [point.changes for point in line.points] == [
        (),
        ("Triton 3.6.0 → 3.7.1",),
        ("driver 570.86 → 580.1", "portkit 0.1.0 → 0.2.0"),
        (),
        ("another source",),
        ("another device",),
        (),
    ]


def test_ratios_are_to_the_night_before_on_the_same_board(line):
    ratios = [point.ratio and round(point.ratio, 3) for point in line.points]
    assert ratios == [None, 1.1, 1.0, None, None, None, 1.0]


def test_a_build_has_no_time_and_no_driver(place):
    (built,) = lines(scan(place), Choice(["soft*"], ["mi300x"]))
    assert (built.evidence, built.figure.name) == (Evidence.COMPILED, "registers")
    assert [point.value for point in built.points] == [32, 40, 40, 40, 40, 40, 40]
    assert built.points[1].changes == ("Triton 3.6.0 → 3.7.1",)  # though another host built it
    assert built.points[1].ratio == 1.25
    assert built.points[2].changes == ("portkit 0.1.0 → 0.2.0",)


def test_what_is_measured_goes_before_what_is_built(place):
    assert [found.target for found in lines(scan(place), Choice())] == ["h200"]
    assert [found.target for found in lines(scan(place), Choice(evidence=Evidence.COMPILED))] == ["mi300x"]


def test_another_figure_and_the_last_nights(place):
    (found,) = lines(scan(place), Choice(["softmax"], ["h200"], figure="speedup", last=2))
    assert [round(point.value, 3) for point in found.points] == [2.0, 2.273]


def test_words_narrow_the_cells(place):
    assert len(lines(scan(place), Choice(words=["4096x4096", "w8", "forward"]))) == 1
    with pytest.raises(ReportError, match="no night has such a row"):
        lines(scan(place), Choice(words=["w16"]))


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice(["softmux"]), "no row of a kernel softmux\n  remedy: did you mean softmax?"),
        (Choice(targets=["mi300"]), "no row of a target mi300\n  remedy: did you mean mi300x?"),
    ],
)
def test_a_name_that_is_none_is_told_with_the_nearest(place, choice, message):
    with pytest.raises(ReportError) as error:
        lines(scan(place), choice)
    assert error.value.render() == message


# -- shown


def test_the_text_has_a_bar_a_night_and_what_changed(line):
    assert trend_text([line]).splitlines() == [
        "softmax 4096x4096 float32 w8 on h200, measured: time end to end, device events, ms",
        "2026-11-01 02:17   0.5    0.495–0.505         █████████████████████▉",
        "2026-11-02 02:17  0.55  0.5445–0.5555  ×1.10  ████████████████████████  Triton 3.6.0 → 3.7.1",
        "2026-11-03 02:17  0.55  0.5445–0.5555  ×1.00  ████████████████████████  "
        "driver 570.86 → 580.1; portkit 0.1.0 → 0.2.0",
        "2026-11-04 02:17     –                                                  wrong_result",
        "2026-11-05 02:17  0.44  0.4356–0.4444         ███████████████████▎      another source",
        "2026-11-06 02:17   0.5    0.495–0.505         █████████████████████▉    another device",
        "2026-11-07 02:17  0.44  0.4356–0.4444  ×1.00  ███████████████████▎",
    ]


def test_a_narrow_terminal_has_no_bars(line):
    text = trend_text([line], 80)
    assert "█" not in text
    assert text.splitlines()[2].endswith("×1.10  Triton 3.6.0 → 3.7.1")


def test_the_command_shows_text_and_json(place, capsys):
    assert main(["trend", "softmax", "-t", "mi300x", "--history", place]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["2026-11-01", "02:17", "32"]
    assert main(["trend", "softmax", "-t", "h200", "--history", place, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["figure"], found["unit"], len(found["points"])) == ("events", "ms", 7)
    assert found["points"][1]["changes"] == ["Triton 3.6.0 → 3.7.1"]


def test_a_figure_that_no_row_has_is_an_error(place, capsys):
    assert main(["trend", "softmax", "-t", "mi300x", "--figure", "trace", "--history", place]) == 2
    assert "no such row has 'trace'" in capsys.readouterr().err


@pytest.mark.parametrize("ending", [".svg", ".json"])
def test_a_line_is_drawn(place, tmp_path, ending):
    pytest.importorskip("vl_convert", reason="needs the extra `report`")
    file = tmp_path / f"trend{ending}"
    assert main(["trend", "softmax", "-t", "h200", "--history", place, "-o", str(file)]) == 0
    assert "device events" in file.read_text()


def test_another_ending_or_several_cells_are_refused(place, tmp_path, capsys):
    assert main(["trend", "softmax", "--history", place, "-o", str(tmp_path / "trend.gif")]) == 2
    assert "end the name in .svg, .png or .json" in capsys.readouterr().err


# -- the page


@pytest.fixture(scope="module")
def compared(place):
    return comparison(merge([Path(place).parent / "reports"]))


def test_a_page_has_times_and_the_builds_that_changed(place, compared):
    assert [(found.target, found.figure.name) for found in telling(scan(place), compared)] == [
        ("h200", "events"),
        ("mi300x", "registers"),
    ]


def test_a_plot_is_of_one_operation_with_a_value_a_night(place, compared):
    times, registers = trend_plots(telling(scan(place), compared))
    assert (times.kind, times.page, times.operation, times.dtype) == (
        "trend",
        "softmax",
        "4096x4096 float32 w8",
        "float32",
    )
    assert times.title == "Over the nights: time end to end, device events, ms"
    assert [each["value"] for each in times.datasets["nights"]] == [0.5, 0.55, 0.55, None, 0.44, 0.5, 0.44]
    assert [each["good"] for each in times.datasets["nights"]].index(False) == 3
    assert registers.title == "Over the nights: registers per thread"


def test_one_night_is_no_trend(place):
    assert list(trend_plots(lines(scan(place), Choice(["softmax"], last=1)))) == []


def test_the_page_takes_the_history(place, tmp_path, capsys):
    pytest.importorskip("jinja2", reason="needs the extra `report`")
    pytest.importorskip("vl_convert", reason="needs the extra `report`")
    reports = str(Path(place).parent / "reports")
    with_nights, without = tmp_path / "with.html", tmp_path / "without.html"
    assert main(["report", reports, "--html", str(with_nights), "--history", place]) == 0
    assert main(["report", reports, "--html", str(without)]) == 0
    assert with_nights.stat().st_size > without.stat().st_size


def test_tables_and_plots_need_no_polars():
    """Where it is slow to load or absent, what has no history goes on."""
    code = (
        "import sys; sys.modules['polars'] = None; import portkit.render.plots, portkit.cli.report, portkit.cli.sweep"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
