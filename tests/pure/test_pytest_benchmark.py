"""Device times in pytest-benchmark's statistics: a session that plays a GPU's answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")

NAME = "softmax[h200-8x8-float32-w4-measured]"


def read(path):
    return json.loads(Path(path).read_text())["benchmarks"]


def test_device_times_are_its_statistics_with_both_clocks_named(play, pytester):
    result = play("--benchmark-json", "out.json")
    result.assert_outcomes(passed=3, failed=1)
    (entry,) = read(pytester.path / "out.json")
    assert (entry["name"], entry["fullname"], entry["group"]) == (NAME, f"matrix.yaml::{NAME}", "softmax")
    assert entry["stats"]["data"] == [0.5e-3, 0.25e-3, 0.375e-3, 0.75e-3, 0.25e-3, 0.25e-3]  # seconds, in their order
    assert (entry["stats"]["median"], entry["stats"]["min"], entry["stats"]["rounds"]) == (0.3125e-3, 0.25e-3, 6)
    assert entry["options"]["timer"] == "device_events"
    told = entry["extra_info"]
    assert (told["unit"], told["target"], told["evidence"]) == ("ms", "h200", "measured")
    assert told["fused"] == {
        "events": {"median": 0.3125, "low": 0.25, "high": 0.75},
        "trace": {"median": 0.25, "low": 0.25, "high": 0.25},
    }
    assert told["baselines"] == {"eager": {"events": {"median": 1.25, "low": 1.0, "high": 3.0}}}
    assert told["speedup"] == {"eager": {"value": 4.0, "low": 3.5, "high": 4.5}}
    assert told["speedup_kernel"] == {"eager": {"value": 3.5, "low": 3.0, "high": 4.0}}


def test_a_saved_run_is_compared_and_a_slower_one_fails(play, pytester):
    first = play("--benchmark-save", "night")
    assert "was not used" not in first.stdout.str() + first.stderr.str()  # its warning of a fixture that idles
    (saved,) = pytester.path.glob(".benchmarks/*/0001_night.json")
    assert [entry["name"] for entry in read(saved)] == [NAME]
    alike = play("--benchmark-compare", "--benchmark-compare-fail", "median:5%", "--benchmark-autosave", factor=1.01)
    assert f"{NAME} (0001_night)" in alike.stdout.str()
    assert f"{NAME} (NOW)" in alike.stdout.str()
    assert "has regressed" not in alike.stdout.str() + alike.stderr.str()
    assert len(list(pytester.path.glob(".benchmarks/*/0002_*.json"))) == 1
    slower = play("--benchmark-compare", "0001", "--benchmark-compare-fail", "median:5%", factor=1.2)
    assert "Performance has regressed" in slower.stdout.str() + slower.stderr.str()
    slower.stdout.fnmatch_lines(["report: reports/local/* (4 of 4 cells)"])  # told all the same


def test_cells_alone_that_have_a_time(play, pytester):
    result = play("--benchmark-only", "--benchmark-json", "out.json")
    result.assert_outcomes(skipped=2, passed=1, failed=1)
    assert len(read(pytester.path / "out.json")) == 1
    result.stdout.fnmatch_lines(["report: reports/local/* (2 of 2 cells)"])


def test_none_that_has_a_time(play):
    result = play("--benchmark-skip")
    result.assert_outcomes(skipped=2, passed=2)
    result.stdout.fnmatch_lines(["report: reports/local/* (2 of 2 cells)"])


def test_it_is_told_where_it_is_disabled(play, pytester):
    result = play("--benchmark-disable", "--benchmark-json", "out.json")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["pytest-benchmark is disabled (--benchmark-disable): it got no device times"])
    assert not (pytester.path / "out.json").exists()


def test_without_it_nothing_changes_and_another_plugin_of_its_name_is_left_alone(play, pytester):
    pytester.makepyfile(other="import pytest\n\n@pytest.fixture\ndef benchmark():\n    raise ValueError('not ours')\n")
    pytester.makeconftest("from other import benchmark\n")
    result = play("-p", "no:benchmark")
    result.assert_outcomes(passed=3, failed=1)
    assert "pytest-benchmark is" not in result.stdout.str()


def test_an_abbreviation_is_no_option(play):
    result = play("--benchmark-js", "out.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unrecognized arguments: --benchmark-js*"])


def test_several_processes_of_pytest_are_refused(play):
    result = play("-n", "2", "--benchmark-json", "out.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*drop -n / --numprocesses*"])
