"""portkit check --script on a GPU host: torch.compile's kernels are taken here and built for absent targets."""

from __future__ import annotations

import json
import textwrap

from portkit.cli import main

SCRIPT = """
    import torch

    @torch.compile
    def normed(x, w):
        return torch.softmax(x * w + 1, -1).relu()

    x = torch.randn(64, 1000, device="cuda", requires_grad=True)
    normed(x, torch.ones(1000, device="cuda")).sum().backward()
"""


def rows(tmp_path, capsys, script, targets):
    path = tmp_path / "step.py"
    path.write_text(textwrap.dedent(script), encoding="utf-8")
    code = main(["check", "--script", str(path), "-t", targets, "--json", "--report", str(tmp_path / "reports")])
    said = capsys.readouterr()
    return code, json.loads(said.out)["rows"] if code != 2 else [], said.err


def test_what_inductor_generates_here_is_built_for_both_vendors(tmp_path, capsys):
    code, found, told = rows(tmp_path, capsys, SCRIPT, "h200,mi300x,rx7900xtx")
    assert code == 0, (found, told)
    assert [row["status"] for row in found] == ["built"] * 3
    assert {row["launches"] for row in found} == {found[0]["launches"]}
    assert found[0]["launches"] >= 2  # forward and backward
    assert "2 kernels of torch.compile, generated for" in told


def test_a_script_that_does_not_run_here_is_one_error(tmp_path, capsys):
    code, _, told = rows(tmp_path, capsys, "raise OSError('no such data')", "mi300x")
    assert code == 2
    assert "the script does not run on this GPU: exit 1" in told
    assert "no such data" in told
