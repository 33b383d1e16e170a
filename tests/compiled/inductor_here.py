"""Stands in for a GPU under ``portkit.run.inductor.child``: Inductor writes Triton's language for the CPU, and nothing
of it is launched. ``python inductor_here.py ANSWER SCRIPT …``"""

import sys
from pathlib import Path

import torch
import torch._inductor.config
import triton
from torch._inductor.runtime.triton_heuristics import CachingAutotuner

from portkit.run.absent import AbsentDriver
from portkit.run.inductor import child
from portkit.run.shim import answers_for
from portkit.targets.catalog import load_catalog

if __name__ == "__main__":
    target = load_catalog().get("h200")
    triton.runtime.driver.set_active(AbsentDriver(target, answers_for(target), None))
    torch._inductor.config.cpu_backend = "triton"
    CachingAutotuner.precompile = lambda tuner, *_, **__: None
    CachingAutotuner.run = lambda tuner, *_, **__: None
    torch.cuda.synchronize = lambda: None
    torch.cuda.get_device_name = lambda: "stand-in"
    sys.exit(child.main(Path(sys.argv[1]), [*sys.argv[2:], "cpu"]))
