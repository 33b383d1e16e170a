"""What a ROCm build of PyTorch says on an AMD GPU.

HIP serves torch's CUDA-named API; the figures follow ``hipDeviceProp_t``.
Written from documentation and property printouts; not yet run on AMD hardware.
"""

from __future__ import annotations

import re
from typing import Any

import torch

from portkit.model import Architecture, Target

TOOLKIT = "6.4.43482"
"""HIP version that ``torch.version.hip`` names; host code tests whether it is set."""

TOOLS = ("rocm-smi", "amd-smi", "rocminfo")
"""Command-line tools of a host with such a GPU."""

_FEATURES = {
    **dict.fromkeys(("gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"), ":sramecc+:xnack-"),
    **dict.fromkeys(("gfx1010", "gfx1011", "gfx1012"), ":xnack-"),
}
"""What the runtime adds to the name where an architecture has these features, as they are by default.

Source: LLVM, AMDGPUUsage, "Target Features" and "Processors".
"""


def set_versions() -> None:
    """Let ``torch.version`` speak as a ROCm build."""
    torch.version.cuda = None
    torch.version.hip = TOOLKIT


def capability(arch: Architecture) -> tuple[int, int]:
    """Major and minor as HIP gives them: gfx942 → 9, 4; gfx1100 → 11, 0.

    The last two digits of a gfx name are minor and stepping, hexadecimal
    (LLVM, AMDGPUUsage, "Processors").
    """
    match = re.fullmatch(r"gfx(\d+)([0-9a-f])([0-9a-f])", arch.name)
    if match is None:
        raise ValueError(f"not a gfx architecture: {arch.name}")
    return int(match[1]), int(match[2], 16)


def properties(target: Target) -> dict[str, Any]:
    """Device properties of an AMD target; None where not known."""
    arch = target.architecture
    major, minor = capability(arch)
    return {
        "name": target.title,
        "gcnArchName": arch.name + _FEATURES.get(arch.name, ""),
        "major": major,
        "minor": minor,
        "warp_size": arch.wave_size,
        "multi_processor_count": target.runtime_unit_count,
        "total_memory": target.memory_bytes,
        "L2_cache_size": None,  # HIP reports one die's share; no source for most SKUs
        "max_threads_per_block": arch.max_threads_per_block,
        "max_threads_per_multi_processor": arch.max_waves_per_unit * arch.wave_size,
        "regs_per_multiprocessor": arch.registers_per_unit,
        "shared_memory_per_block": arch.shared_bytes_per_block_max,
        "shared_memory_per_block_optin": arch.shared_bytes_per_block_max,
        "shared_memory_per_multiprocessor": arch.shared_bytes_per_unit,
        "is_integrated": None,
        "is_multi_gpu_board": 0,
        "clock_rate": None,
        "memory_clock_rate": None,
        "memory_bus_width": None,
    }
