"""Kernels that torch.compile generated, built for targets that are absent."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from portkit.cli import main
from portkit.errors import CaseError
from portkit.run import checking
from portkit.run.inductor import process
from portkit.run.inductor.process import seen_in_script
from portkit.run.inductor.seen import TensorForm, read_seen, write_seen

HERE = Path(__file__).parent
SCRIPT = HERE / "cases" / "compiled_script.py"
STAND_IN = HERE / "inductor_here.py"


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    """What the hook sees of Inductor's launches, where Inductor writes for the CPU and nothing runs."""
    answer = tmp_path_factory.mktemp("taken") / "seen"
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(answer.parent / "inductor")}
    command = [sys.executable, str(STAND_IN), str(answer), str(SCRIPT)]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    return read_seen(answer)


def test_a_launch_is_taken_with_its_source_and_arguments(taken):
    (launch,) = taken.launches
    assert launch.kernel.startswith("triton_per_fused__softmax_add_mul_relu")
    assert "tl.store" in launch.source
    rows = TensorForm("float32", (64, 1000), (1000, 1))
    sizes = [value for _, value in launch.arguments if isinstance(value, int)]
    assert [value for _, value in launch.arguments[:2]] == [rows, rows]
    assert sizes == [64, 1000]


def test_generated_kernels_are_built_beside_the_scripts_own(taken, monkeypatch, tmp_path, capsys):
    def seen(script, answer, still):
        still(7.0)
        assert script == (str(SCRIPT),)
        write_seen(answer, taken)
        return taken

    monkeypatch.setattr(checking, "has_gpu", lambda host: True)
    monkeypatch.setattr(checking, "seen_in_script", seen)
    code = main(["check", "--json", "--script", str(SCRIPT), "-t", "h200,mi300x", "--report", str(tmp_path)])
    said = capsys.readouterr()
    rows = {row["target"]: row for row in json.loads(said.out)["rows"]}
    assert (code, {row["status"] for row in rows.values()}) == (0, {"built"})
    assert {row["launches"] for row in rows.values()} == {2}
    assert "the script still runs, 7 s" in said.err
    assert "1 kernels of torch.compile, generated for stand-in, are built for each target" in said.err


@pytest.mark.slow
def test_a_script_that_does_not_run_on_the_gpu_is_one_error(tmp_path, monkeypatch):
    script, told = tmp_path / "step.py", []
    script.write_text("raise OSError('no such data')", encoding="utf-8")
    monkeypatch.setattr(process, "STILL_SECONDS", 0.5)
    with pytest.raises(CaseError, match=r"does not run on this GPU: exit 1[\s\S]*no such data"):
        seen_in_script((str(script),), tmp_path / "answer", told.append)
    assert told == sorted(told)
    assert told[0] >= 0.5
