"""Where a command's output goes: other encodings, full disks, closed and broken pipes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from factories import header, record

from portkit.store.journal import Journal

FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    journal = Journal.create(tmp_path_factory.mktemp("reports"), header())
    journal.append(record())
    journal.finish()
    return journal.path


def portkit(*arguments, **options):
    argv = [sys.executable, "-m", "portkit", *map(str, arguments)]
    return subprocess.run(argv, stderr=subprocess.PIPE, check=False, **options)


@pytest.mark.parametrize(("encoding", "dash"), [("latin-1", b"?"), ("cp1252", b"\x96"), ("ascii", "–".encode())])
def test_a_dash_is_written_in_any_encoding(report, encoding, dash):
    """Latin-1 has none; click takes ASCII for a mistake of the environment and writes UTF-8."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = portkit("merge", report, env=environment, stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\n" + dash + b": the row's evidence or status can't give this figure" in done.stdout


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
def test_a_full_disk_is_told_once(report):
    with FULL.open("wb") as full:
        done = portkit("merge", report, stdout=full)
    assert done.returncode == 2
    assert done.stderr == b"error: the output can't be written: No space left on device\n"


def test_closed_output_is_told(report):
    done = portkit("merge", report, preexec_fn=lambda: os.close(1))
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: standard output is closed\n")


def test_a_reader_that_has_gone_is_no_mistake(report):
    reader, writer = os.pipe()
    os.close(reader)
    done = portkit("merge", report, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_no_command_writes_over_a_report(report):
    before = report.read_bytes()
    done = portkit("schema", "matrix", "-o", report)
    assert (done.returncode, report.read_bytes()) == (2, before)
    assert b"nothing is written over a report" in done.stderr
