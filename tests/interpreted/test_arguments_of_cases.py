"""Every tensor argument of every case with gaps, on another device, of another dtype, and as a list."""

from __future__ import annotations

import json
from pathlib import Path

from portkit.plan.matrix import read_matrix

ROOT = Path(__file__).parents[2]
UNREAD = ("bias_gelu_dropout", "keep")  # the mask of the unfused chain; the fused function draws its own


def test_every_tensor_is_served_as_it_should_be_or_refused_by_its_name(interpreted):
    cases = [(str(kernel.source.path), kernel.source.name) for kernel in read_matrix(ROOT / "suite.yaml").kernels]
    found = [tuple(json.loads(line)) for line in interpreted("odd_arguments.py", json.dumps(cases))]
    assert {case for case, *_ in found} == {name for _, name in cases}
    assert [one for one in found if one[3] not in {"same", "named"} and one[:2] != UNREAD] == []
