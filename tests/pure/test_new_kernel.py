"""``portkit new``: what it writes, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from portkit.cli import main
from portkit.plan.matrix import read_matrix
from portkit.targets.catalog import load_catalog

MATRIX = """\
version: 1
kernels:  # those of the models

  # norms
  softmax:
  rms_norm: {dtypes: [float32]}  # without bfloat16

targets: [h200]
"""


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_a_case_its_test_and_a_matrix(tmp_path, capsys):
    assert main(["new", "scaled"]) == 0
    written = ["kernels/scaled.py", "tests/test_scaled.py", "matrix.yaml"]
    assert capsys.readouterr().out.splitlines()[:3] == written
    assert [kernel.source.name for kernel in read_matrix(tmp_path / "matrix.yaml").kernels] == ["scaled"]
    assert not any("$" in (tmp_path / name).read_text() for name in written)


@pytest.mark.parametrize("name", ["mine", "bias_gelu_dropout"])
def test_what_it_writes_is_in_the_style_of_the_repository(name):
    pytest.importorskip("ruff")
    assert main(["new", name]) == 0
    ruff = [sys.executable, "-m", "ruff"]
    settings = f"--config={Path(__file__).parents[2] / 'pyproject.toml'}"
    for action in (["format", "--check"], ["check", "--ignore", "I001"]):  # order of imports: portkit is not beside it
        done = subprocess.run([*ruff, *action, settings, "."], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_adds_to_a_matrix_and_changes_nothing_else(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(MATRIX)
    assert main(["new", "scaled", "--matrix", str(path)]) == 0
    assert path.read_text() == MATRIX.replace("bfloat16\n", "bfloat16\n  scaled:\n")
    assert [kernel.source.name for kernel in read_matrix(path).kernels] == ["softmax", "rms_norm", "scaled"]
    assert "own.yaml" in (tmp_path / "tests" / "test_scaled.py").read_text()


QUICK = """
tiers:
  full: {}
  # one cell a kernel and target
  quick:  # every push
      softmax: {variants: [w4]}
      rms_norm:
        variants: [w4]

  # all of it
  nightly: {}
"""


def test_it_adds_one_cell_a_target_to_the_quick_tier(tmp_path):
    path = tmp_path / "matrix.yaml"
    path.write_text(MATRIX + QUICK)
    assert main(["new", "scaled"]) == 0
    line = "scaled: {shapes: [4096x4096], dtypes: [bfloat16], variants: [w4]}"
    changed = MATRIX.replace("bfloat16\n", "bfloat16\n  scaled:\n")
    quick = QUICK.replace("        variants: [w4]\n", f"        variants: [w4]\n      {line}\n")
    assert path.read_text() == changed + quick
    assert read_matrix(path).tiers["quick"]["scaled"].variants == ("w4",)
    case = (tmp_path / "kernels" / "scaled.py").read_text()
    assert all(part in case for part in ("(4096, 4096)", '"bfloat16"', '"w4"'))


def test_a_quick_tier_that_names_no_kernel_stays(tmp_path):
    path = tmp_path / "matrix.yaml"
    path.write_text(f"{MATRIX}tiers: {{quick: {{}}}}")
    assert main(["new", "scaled"]) == 0
    assert path.read_text().endswith("tiers: {quick: {}}\n")


def test_it_adds_to_the_default_matrix_a_cell_a_target(tmp_path):
    path = tmp_path / "matrix.yaml"
    path.write_text((Path(__file__).parents[2] / "matrix.yaml").read_text())
    assert main(["new", "scaled"]) == 0
    matrix = yaml_of(path)
    assert [*matrix["tiers"]["quick"]] == [*matrix["kernels"]]
    assert matrix["tiers"]["full"] == {}


def yaml_of(path):
    return YAML(typ="safe").load(path)


@pytest.mark.parametrize("name", ["Scaled", "2d", "a-b", "class", "x" * 101, "../x"])
def test_what_is_no_name_is_refused(tmp_path, capsys, name):
    assert main(["new", name]) == 2
    assert "is no name of a kernel" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["kernels/scaled.py", "tests/test_scaled.py"])
def test_nothing_is_written_over(tmp_path, capsys, name):
    path = tmp_path / name
    path.parent.mkdir()
    path.write_text("mine")
    assert main(["new", "scaled"]) == 2
    assert f"{name}: is there already, and nothing is written over" in capsys.readouterr().err
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [path]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MATRIX.replace("softmax", "scaled"), "matrix.yaml: scaled is among its kernels already"),
        ("version: 1\nkernels: {softmax: {}}\ntargets: [h200]\n", "matrix.yaml: its kernels do not stand one a line"),
        ("kernels:\n", "matrix.yaml:1"),
    ],
)
def test_a_matrix_that_cannot_take_it_is_named(tmp_path, capsys, text, message):
    (tmp_path / "matrix.yaml").write_text(text)
    assert main(["new", "scaled"]) == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / "matrix.yaml").read_text() == text
    assert not (tmp_path / "kernels").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path, capsys):
    (tmp_path / "kernels").write_text("a file where a folder should be")
    assert main(["new", "scaled"]) == 2
    assert "kernels/scaled.py: can't be written" in capsys.readouterr().err


def test_init_writes_a_matrix_a_case_and_its_schema(tmp_path, capsys):
    assert main(["init", "mine"]) == 0
    said = capsys.readouterr().out
    written = ["kernels/bias_relu.py", "tests/test_bias_relu.py", "matrix.yaml", "matrix.schema.json"]
    assert said.splitlines()[:4] == [f"mine/{name}" for name in written]
    assert "cd mine; pytest --benchmark" in said
    matrix = read_matrix(tmp_path / "mine" / "matrix.yaml")
    assert [kernel.source.name for kernel in matrix.kernels] == ["bias_relu"]
    assert matrix.tiers["quick"]["bias_relu"].variants == ("w4",)
    assert (tmp_path / "mine" / "matrix.yaml").read_text().startswith("# yaml-language-server: $schema=matrix.schema")
    for target in matrix.targets:
        load_catalog().get(target)


def test_what_init_says_to_call_can_be_called(tmp_path, capsys):
    assert main(["init", "two words"]) == 0
    assert "\nNow: cd 'two words'; pytest --benchmark" in capsys.readouterr().out


def test_init_writes_nothing_over(tmp_path, capsys):
    (tmp_path / "matrix.yaml").write_text(MATRIX)
    assert main(["init"]) == 2
    said = capsys.readouterr().err
    assert "matrix.yaml: is there already, and nothing is written over" in said
    assert "`portkit new NAME` adds a case to a matrix" in said
    assert [path.name for path in tmp_path.iterdir()] == ["matrix.yaml"]


def test_init_into_a_file(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["init", "file"]) == 2
    assert "file: is no folder" in capsys.readouterr().err


def test_schema_is_that_of_the_reader(tmp_path, capsys):
    assert main(["schema", "matrix"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {"version", "kernels", "targets", "tiers"} <= set(printed["properties"])
    assert main(["schema", "matrix", "-o", "m.json"]) == 0
    assert json.loads((tmp_path / "m.json").read_text()) == printed
    assert main(["schema", "report"]) == 2
    assert "'report' is not 'matrix'" in capsys.readouterr().err
