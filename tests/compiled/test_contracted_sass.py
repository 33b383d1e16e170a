"""What ``ptxas`` makes of quotients and sums around them: the emulator has both at once where it has."""

import re
import subprocess
from pathlib import Path

import pytest
import triton
from contracted import APART, AT_ONCE
from ptx_probe import kernel

from portkit.run.sass import machine_code

PTXAS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"])
def test_the_assembler_fuses_the_same(architecture, tmp_path):
    for name, body in {**AT_ONCE, **APART}.items():
        text = tmp_path / "kernel.ptx"
        text.write_text(kernel(body, target=architecture, version="8.7"))
        command = [PTXAS, f"-arch={architecture}", text, "-o", tmp_path / "kernel.cubin"]
        subprocess.run(command, check=True, capture_output=True)
        sums = len(re.findall(r"\bFADD\b", machine_code((tmp_path / "kernel.cubin").read_bytes())))
        assert (sums == 0) == (name in AT_ONCE), (name, sums)
