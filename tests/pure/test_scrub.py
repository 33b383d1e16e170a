"""Text that is stored holds no folder of a user."""

import pytest

from portkit.run import scrub as scrubbing
from portkit.run.scrub import scrub, tail

TEXTS = {
    "two parts": ('File "/home/ann/k/softmax.py", line 3', 'File "k/softmax.py", line 3'),
    "below the user's folder": ("/home/ann/k.py:3", "k.py:3"),
    "the user's folder": ("in /home/ann and /Users/bob, too", "in ~ and ~, too"),
    "root's": ("/root/k.py, /root", "k.py, ~"),
    "deep": ("/home/ann/a/b/c/k.py", "c/k.py"),
    "homes elsewhere": ("/mnt/nfs/home/ann/k.py", "k.py"),
    "after a colon": ("error:/home/ann/a/b.py", "error:a/b.py"),
    "list of folders": ("/usr/bin:/home/ann/bin:/opt/x/bin", "usr/bin:bin:x/bin"),
    "file address": ("file:///home/ann/p/k.py", "p/k.py"),
    "network address": ("see https://example.org/home/ann/x", "see https://example.org/home/ann/x"),
    "password": ("https://ann:secret@example.org/simple", "https://example.org/simple"),
    "blanks, quoted": ("can't open '/srv/ann/my dir/my file.py'", "can't open 'my dir/my file.py'"),
    "blanks below the user's folder": ("/home/ann/my dir/x.py", "my dir/x.py"),
    "blanks in the home folder": ("at /data/Ann Smith/k.py and /data/Ann Smith", "at k.py and ~"),
    "current folder": ("/projects/ann/k.py, /projects/ann/a/b/k.py", "k.py, b/k.py"),
    "begins as the current folder": ("/projects/anne/k.py", "anne/k.py"),
    "temporary folder": ("/scratch/x.ttir", "x.ttir"),
    "the login name": ("/lustre/carla/k.py /var/job-of-carla/a.py", "k.py a.py"),
    "non-ASCII": ("/home/jürgen/k.py", "k.py"),
    "package": ("/home/ann/v/lib/python3.11/site-packages/triton/language/core.py:1", "triton/language/core.py:1"),
    "command in quotes": ('"/usr/bin/ptxas -o /home/ann/out.cubin"', '"bin/ptxas -o out.cubin"'),
    "relative": ("a/b/c.py and ../d/e.py", "a/b/c.py and ../d/e.py"),
    "division": ("64 / 2 / 4, x/y/z, 3/4/5", "64 / 2 / 4, x/y/z, 3/4/5"),
    "location of MLIR": ('loc("/home/ann/k.py":12:3)', 'loc("k.py":12:3)'),
}


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    monkeypatch.setattr(scrubbing, "_roots", lambda: ("/data/Ann Smith", "/scratch", "/projects/ann"))
    monkeypatch.setattr(scrubbing, "_login", lambda: "carla")


@pytest.mark.parametrize(("text", "stored"), TEXTS.values(), ids=TEXTS)
def test_scrub(text, stored):
    assert scrub(text) == stored


def test_scrubbed_text_stays_as_it_is():
    for text, stored in TEXTS.values():
        assert scrub(stored) == stored, text


def test_tail_has_the_last_lines():
    assert tail("one\n\n/home/ann/k.py:3\nlast\n", lines=2) == "k.py:3\nlast"


def test_roots_are_the_folders_of_this_machine(monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setenv("HOME", "/data/Ann Smith")
    monkeypatch.chdir(tmp_path)
    assert {"/data/Ann Smith", str(tmp_path)} <= set(scrubbing._roots())


def test_what_a_compiler_printed_is_told_without_the_name_of_this_one_build():
    """Else it is told beside the same words of the exception."""
    pytest.importorskip("torch")
    from portkit.run.supervisor import cause_line

    printed = "ptxas /tmp/tmpw2ye7bjd.ptx, line 53; fatal   : Parsing error near '{': syntax error\n"
    assert cause_line(printed) == "ptxas FILE, line 53; fatal   : Parsing error near '{': syntax error"
