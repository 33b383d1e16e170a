"""Every tensor argument of every case with gaps, on another device, of another dtype, and as a list."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from portkit.plan.matrix import read_matrix

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
UNREAD = ("bias_gelu_dropout", "keep")  # the mask of the unfused chain; the fused function draws its own


def test_every_tensor_is_served_as_it_should_be_or_refused_by_its_name():
    cases = [(str(kernel.source.path), kernel.source.name) for kernel in read_matrix(ROOT / "suite.yaml").kernels]
    env = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / "odd_arguments.py")],
        input=json.dumps(cases),
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    assert {case for case, *_ in found} == {name for _, name in cases}
    assert [one for one in found if one[3] not in {"same", "named"} and one[:2] != UNREAD] == []
