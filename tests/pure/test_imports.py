"""The layers hold, and the linter that holds them sees a breach."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import portkit

pytest.importorskip("importlinter", reason="needs the extra `lint`")

ROOT = Path(portkit.__file__).parent.parent
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"


def lint(folder):
    # Without the editable install of the checkout, which would be found in place of a copy.
    env = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", LINT], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(ROOT / "portkit", tmp_path / "portkit", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_layers_hold():
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("plan/matrix.py", "import portkit.store.merge", "one way"),
        ("targets/catalog.py", "from portkit.plan import expand", "one way"),
        ("render/table.py", "def late():\n    import torch", "only run and baselines import torch"),
        ("cli/doctor.py", "def late():\n    from triton import runtime", "only run and baselines import torch"),
        ("run/load.py", "import portkit.analysis.rows", "run renders and analyses nothing"),
        ("emulate/amdgcn/parse.py", "import portkit.document", "emulate needs NumPy"),
        ("emulate/core/memory.py", "from portkit.emulate.amdgcn import parse", "the emulator's core"),
    ],
)
def test_linter_sees_a_breach(copy, module, line, contract):
    path = copy / "portkit" / module
    path.write_text(path.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
    done = lint(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    broken = [each for each in done.stdout.splitlines() if " BROKEN" in each]
    assert any(each.startswith(contract) for each in broken), done.stdout


def test_merge_and_help_import_no_torch():
    code = (
        "import sys, portkit, portkit.cli, portkit.cli.merge, portkit.store.merge, portkit.render, portkit.plan;"
        "print(sorted({'torch', 'triton', 'numpy'} & set(sys.modules)))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
