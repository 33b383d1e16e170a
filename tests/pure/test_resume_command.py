"""The command that a run names when it was cut short."""

from __future__ import annotations

import shlex

import pytest

from portkit.pytest_plugin.resume_command import resume_command


def test_what_chose_the_cells_and_the_folder_is_said_again():
    given = ["--benchmark", "suite.yaml", "-k", "softmax and not t4", "--portkit-report", "my reports"]
    command = resume_command(given, "run")
    assert shlex.split(command) == ["pytest", *given, "--portkit-resume", "run"]


def test_paths_behind_two_dashes_stay_there():
    command = resume_command(["--benchmark", "--", "tests/-odd.py"], "run")
    assert shlex.split(command) == ["pytest", "--benchmark", "--portkit-resume", "run", "--", "tests/-odd.py"]


@pytest.mark.parametrize("resume", [["--portkit-resume"], ["--portkit-resume", "old"], ["--portkit-resume=old"]])
@pytest.mark.parametrize("after", [[], ["-x"]])
def test_a_former_resumption_is_not_said_twice(resume, after):
    command = resume_command(["--benchmark", *resume, *after], "run")
    assert shlex.split(command) == ["pytest", "--benchmark", *after, "--portkit-resume", "run"]


def test_an_option_of_the_settings_is_said():
    assert resume_command([], "run") == "pytest --benchmark --portkit-resume run"
