"""portkit toggle on a GPU: kernels on the trace, CUDA graphs, ceilings, where the time goes."""

from __future__ import annotations

import json
import textwrap

from portkit.cli import main

MODEL = """
    import torch

    class Chain(torch.nn.Module):
        def forward(self, x):
            for _ in range(8):
                x = torch.relu(x) * 1.5 + 0.25
            return x

    def build():
        return Chain()
"""


def found(tmp_path, capsys, shape, modes, *more):
    """The answer of an experiment on the chain, beside the same once more as a variant."""
    path = tmp_path / "chain.py"
    path.write_text(textwrap.dedent(MODEL), encoding="utf-8")
    words = ["--modes", modes, "--variant", f"same={path}:build", "--json", "--seconds", "2", *more]
    assert main(["toggle", f"{path}:build", "--input", f"f32[{shape}]", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_chain_in_memory_is_memory_bound_and_fused(tmp_path, capsys):
    answer = found(tmp_path, capsys, "16384,16384", "default")
    eager, default, same = answer["ways"]
    assert answer["roofs"]["memory_gbs"] > 0
    assert eager["launches"] == 24
    assert default["launches"] == 1
    assert eager["moved_bytes"] == 24 * 2 * 4 * 16384**2
    assert default["moved_bytes"] == 2 * 4 * 16384**2
    assert default["speedup"]["low"] > 5
    assert default["kernel_ms"] <= default["wall"]["median_ms"]
    assert answer["time_goes_to"]["compile default"]["bound"] == "memory"
    assert 0.9 < same["speedup"]["value"] < 1.1
    assert same["launches"] == 24


def test_counters_count_the_bytes_of_every_way(tmp_path, capsys):
    eager, same = found(tmp_path, capsys, "8192,8192", "", "--counters")["ways"]
    for way in (eager, same):
        assert way["dram_bytes"] is None or 0.7 < way["dram_bytes"] / eager["moved_bytes"] < 1.2, way["nulls"]


def test_a_chain_of_tiny_kernels_is_launch_bound(tmp_path, capsys):
    answer = found(tmp_path, capsys, "16,16", "")
    assert answer["time_goes_to"]["eager"]["bound"] == "launch"
