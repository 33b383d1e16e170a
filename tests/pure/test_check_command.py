"""portkit check as far as no process is started: what it is asked, changed files, what a report stands for."""

import os
import subprocess
from pathlib import Path

import factories
import pytest
from ruamel.yaml import YAML

import portkit
from portkit.cli import COMMANDS, main
from portkit.cli import check as command
from portkit.model import CaseSource, CellResult, Check, Evidence, Outcome, Status
from portkit.run.kept_checks import Call, Kept, keep, kept_report
from portkit.store.journal import Journal
from portkit.targets.catalog import load_catalog

ROOT = Path(portkit.__file__).parents[1]

KERNEL = """
import triton

@triton.jit
def kernel(x):
    pass

def launch(x, eps=0.0):
    kernel[(1,)](x)
"""


def run(*words):
    return main(["check", *map(str, words)])


def test_a_file_without_comments_says_what_it_needs(tmp_path, capsys):
    path = tmp_path / "some.py"
    path.write_text(KERNEL, encoding="utf-8")
    assert run(path) == 2
    said = capsys.readouterr().err
    assert f"portkit check {path}:launch --arg x=DTYPE[SHAPE]\n" in said
    assert f"portkit check {path}:kernel --arg x=DTYPE[SHAPE]-or-NUMBER --grid BLOCKS" in said
    assert "kernel case" not in said


def test_a_file_of_a_kernel_case_says_how_it_is_run(tmp_path, capsys):
    path = tmp_path / "some.py"
    path.write_text(f'{KERNEL}\nmine = KernelCase(name="mine", fused=launch)\n', encoding="utf-8")
    assert run(path) == 2
    assert 'pytest --benchmark --portkit-target all -k "mine"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to check was named"),
        (["{file}", "--arg", "x=1"], "arguments were given, and no function: name it as"),
        (["{file}:launch", "--arg", "x=ff[1]"], "has no dtype: ff"),
        (["{file}:launch", "--arg", "x=f32[1]", "-t", "h2000"], "did you mean h200"),
        (["{file}:launch", "--arg", "x=f32[1]", "--findings", "-1"], "'-1' is neither a number nor all"),
        (["{file}:launch", "--arg", "x=f32[1]", "--findings", "all", "-t", "h2000"], "did you mean h200"),
        (["{file}:", "--arg", "x=f32[1]"], "some.py:FUNCTION"),
        (["{file}:launch", "--arg", "x=f32[1]", "--small", "x=f32[1]"], "--small and --reference are for --emulate"),
        (["{file}:launch", "--arg", "x=f32[9999,9999]", "--emulate"], "give smaller ones to it, such as --small"),
        (["{file}:launch", "--arg", "x=f32[1]", "--emulate", "--backward"], "gradients need a --reference"),
        (["{file}:launch", "--arg", "x=f32[1]", "--emulate", "--reference", "{file}"], "names no function"),
        (["--script"], "--script needs the path of a script"),
        (["--script", "--changed", "{file}"], "--script and --changed do not go together"),
        (["{file}:launch", "--arg", "x=f32[1]", "--emulate", "-t", "gfx9999"], "gfx9999"),
        (["--script", "{file}", "--arg", "x=1"], "a script is run as it is"),
        (["--script", "{file}", "--emulate"], "a script is built and not emulated"),
    ],
)
def test_what_is_asked_wrongly(tmp_path, capsys, words, message):
    path = tmp_path / "some.py"
    path.write_text(KERNEL, encoding="utf-8")
    assert run(*(word.format(file=path) for word in words)) == 2
    assert message in capsys.readouterr().err


def test_a_comment_that_is_no_check(tmp_path, capsys):
    path = tmp_path / "some.py"
    path.write_text("# portkit: check launch --args x=1\n", encoding="utf-8")
    assert run(path) == 2
    assert "some.py:1: the comment is no check: No such option" in capsys.readouterr().err


# --------------------------------------------------------------------------
# Changed files


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "one.py": f"from shared import x\n{KERNEL}# portkit: check launch --arg x=f32[8]\n",
        "two.py": f"{KERNEL}# portkit: check launch --arg x=f32[16]\n",
        "shared.py": "x = 1\n",
        "none.py": "y = 1\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        git = ["git", "-c", "user.name=n", "-c", "user.email=e@x", *words]
        subprocess.run(git, check=True, cwd=tmp_path)
    return tmp_path


def changed(monkeypatch, *words):
    """Files and arguments of what would be checked."""
    asked = []

    class StopError(Exception):
        pass

    def note(sources, *rest, **options):
        asked.extend((Path(each.path).name, each.check.arguments[0][1]) for each in sources)
        raise StopError

    monkeypatch.setattr(command, "run_checks", note)
    try:
        code = run("--changed", *words)
    except StopError:
        code = None
    return code, asked


def test_nothing_changed(repository, monkeypatch, capsys):
    assert changed(monkeypatch) == (0, [])
    (repository / "none.py").write_text("y = 2\n", encoding="utf-8")
    assert changed(monkeypatch) == (0, [])
    assert "no changed file declares a check" in capsys.readouterr().err


def test_a_changed_file_is_checked(repository, monkeypatch):
    (repository / "two.py").write_text(f"{KERNEL}# portkit: check launch --arg x=f32[32]\n", encoding="utf-8")
    assert changed(monkeypatch) == (None, [("two.py", "f32[32]")])
    assert changed(monkeypatch, "one.py") == (0, [])


def test_a_file_is_checked_where_one_that_it_imports_has_changed(repository, monkeypatch):
    (repository / "shared.py").write_text("x = 2\n", encoding="utf-8")
    assert changed(monkeypatch) == (None, [("one.py", "f32[8]")])


def test_a_new_file_is_checked(repository, monkeypatch):
    (repository / "new.py").write_text(f"{KERNEL}# portkit: check launch --arg x=f32[4]\n", encoding="utf-8")
    assert changed(monkeypatch) == (None, [("new.py", "f32[4]")])


@pytest.mark.parametrize("name", ["größe.py", "two words.py", 'quo"te.py', "li\nne.py"])
def test_paths_that_git_quotes(repository, monkeypatch, name):
    (repository / name).write_text(f"{KERNEL}# portkit: check launch --arg x=f32[4]\n", encoding="utf-8")
    assert changed(monkeypatch) == (None, [(name, "f32[4]")])


def test_a_repository_without_a_commit(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    assert run("--changed") == 2
    assert "error: git diff failed: " in (said := capsys.readouterr().err)
    assert "a git repository with a commit" in said


def test_no_repository(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert run("--changed") == 2
    assert "git rev-parse failed" in capsys.readouterr().err


# --------------------------------------------------------------------------
# What a report stands for


@pytest.fixture
def call(tmp_path):
    file = tmp_path / "k.py"
    file.write_text(KERNEL, encoding="utf-8")
    source = CaseSource("launch", path=str(file), check=Check("launch", arguments=(("x", "f32[8]"),)))
    return Call((source,), (load_catalog().get("h200"),), emulate=False)


CELL = factories.record().cell


def kept(call, status=Status.BUILT):
    out = Kept()
    imported = f'["{call.sources[0].path}"]'.encode()
    out.add(CellResult(CELL, Evidence.COMPILED, Outcome(status), blobs={"imported": imported}))
    return out


@pytest.fixture
def report(tmp_path):
    journal = Journal.create(tmp_path / "reports", factories.header())
    journal.append(factories.record())
    journal.finish("complete")
    return Path(journal.path)


def test_a_report_stands_until_a_file_changes(call, report):
    assert kept_report(report.parent, call) is None
    keep(report, call, kept(call))
    assert Path(kept_report(report.parent, call).path) == report
    os.utime(call.sources[0].path, ns=(1, 1))
    assert kept_report(report.parent, call) is None


@pytest.mark.parametrize(
    "meanwhile", [lambda path: os.utime(path, (2**33, 2**33)), os.unlink], ids=["edited", "removed"]
)
def test_a_report_does_not_stand_where_a_file_changed_while_it_was_made(call, report, meanwhile):
    found = kept(call)
    meanwhile(call.sources[0].path)
    keep(report, call, found)
    assert kept_report(report.parent, call) is None


def test_a_report_stands_for_its_own_call_alone(call, report, monkeypatch):
    keep(report, call, kept(call))
    assert kept_report(report.parent, Call(call.sources, call.targets, emulate=True)) is None
    assert kept_report(report.parent, Call(call.sources, (load_catalog().get("a100"),), emulate=False)) is None
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    assert kept_report(report.parent, call) is None


def test_what_our_side_failed_is_not_kept(call, report):
    keep(report, call, kept(call, Status.WORKER_LOST))
    assert kept_report(report.parent, call) is None
    nothing = Kept()
    nothing.add(CellResult(CELL, Evidence.COMPILED, Outcome(Status.BUILT)))
    assert not nothing.whole


def test_a_script_is_not_kept(call, report):
    script = CaseSource("s.py", path=call.sources[0].path, check=Check("", script=(call.sources[0].path,)))
    of_script = Call((script,), call.targets, emulate=False)
    keep(report, of_script, kept(call))
    assert kept_report(report.parent, of_script) is None


def test_a_damaged_note_is_no_answer(call, report):
    keep(report, call, kept(call))
    (note,) = report.parent.glob("*.kept")
    note.write_bytes(b"[")
    assert kept_report(report.parent, call) is None


@pytest.mark.parametrize("name", [".pre-commit-hooks.yaml", ".pre-commit-config.yaml"])
def test_hooks_of_pre_commit_name_commands_that_are_there(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    read = YAML(typ="safe").load(text)
    hooks = read if isinstance(read, list) else read["repos"][0]["hooks"]
    assert hooks
    for hook in hooks:
        assert {"id", "name", "entry", "language"} <= hook.keys()
        command, *words = hook["entry"].split()
        assert command in ("portkit", "ruff", "mypy", "lint-imports")
        assert command != "portkit" or words[0] in COMMANDS
