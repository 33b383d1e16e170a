"""The commands of the tutorial: all are known, and those for any host run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from kept_report import KEPT

import portkit
from portkit.cli import COMMANDS, cli

ROOT = Path(portkit.__file__).parent.parent
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"(?P<mark><!-- elsewhere: [^>]+ -->\n)?```console\n(?P<lines>.*?)```", re.DOTALL)


def commands(*, elsewhere):
    """Lines behind a prompt, of all blocks or of those for any host."""
    blocks = [each for each in BLOCK.finditer(TEXT) if elsewhere or not each["mark"]]
    return [line.removeprefix("$ ") for each in blocks for line in each["lines"].split("\n") if line.startswith("$ ")]


EVERY = [shlex.split(each) for each in commands(elsewhere=True)]


@pytest.mark.parametrize("words", [each for each in EVERY if each[0] == "portkit"], ids=" ".join)
def test_every_command_has_these_options(words):
    name, *arguments = words[1:]
    assert name in COMMANDS
    command = cli.get_command(click.Context(cli), name)
    command.make_context(name, arguments)  # parses, and runs nothing


def test_the_tutorial_leads_from_install_to_a_merged_table():
    named = [words[1] for words in EVERY if words[0] == "portkit"]
    assert [*dict.fromkeys(named)] == ["doctor", "new", "report", "show", "diff", "merge", "gate"]
    assert [words[:2] for words in EVERY if words[0] == "pytest"] == [["pytest", "--benchmark"]] * 2


def test_the_commands_run_in_their_order(tmp_path, monkeypatch):
    """In a folder of the user's own; the kept report stands for the archive of a GPU host."""
    with tarfile.open(tmp_path / "h200.tgz", "w:gz") as archive:
        archive.add(KEPT, "reports/local")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("COLUMNS", "100")
    for line in commands(elsewhere=False):
        code, printed = in_process(line) if line.startswith("portkit ") else in_a_process(line)
        allowed = (0, 1) if line == "portkit doctor" else (0,)  # 1: this host can run nothing
        assert code in allowed, f"{line}\n{printed}"
    table = re.sub(" +", " ", (tmp_path / "comparison.md").read_text(encoding="utf-8"))
    assert "| scaled_add | forward | 4096x4096 | bfloat16 | w4 | mi300x | compiled | built" in table
    assert "| softmax | forward | 1024x32768 | float32 | w8 | h200 | measured | passed" in table
    assert (tmp_path / "report.html").read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")


def in_process(line):
    """Exit code and output of a command of portkit."""
    done = CliRunner().invoke(cli, shlex.split(line)[1:])
    return done.exit_code, f"{done.output}\n{done.exception}"


def in_a_process(line):
    """Exit code and output of ``pytest …``."""
    words = [sys.executable, "-m", *shlex.split(line)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr
