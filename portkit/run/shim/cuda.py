"""What a CUDA build of PyTorch says on an NVIDIA GPU.

Property names: ``cudaDeviceProp`` as torch.cuda.get_device_properties shows it.
"""

from __future__ import annotations

from typing import Any

import torch

from portkit.model import Target

TOOLKIT = "12.8"
"""Toolkit that ``torch.version.cuda`` names; the one of Triton 3.7's ptxas."""


TOOLS = ("nvidia-smi",)
"""Command-line tools of a host with such a GPU."""


def set_versions() -> None:
    """Let ``torch.version`` speak as a CUDA build."""
    torch.version.cuda = TOOLKIT
    torch.version.hip = None


def properties(target: Target) -> dict[str, Any]:
    """Device properties of an NVIDIA target; None where not known."""
    arch = target.architecture
    major, minor = divmod(int(arch.name.removeprefix("sm_")), 10)
    return {
        "name": target.title,
        "major": major,
        "minor": minor,
        "warp_size": arch.wave_size,
        "multi_processor_count": target.runtime_unit_count,
        "total_memory": target.memory_bytes,
        "L2_cache_size": None if target.l2_mib is None else int(target.l2_mib * 2**20),
        "max_threads_per_block": arch.max_threads_per_block,
        "max_threads_per_multi_processor": arch.max_waves_per_unit * arch.wave_size,
        "regs_per_multiprocessor": arch.registers_per_unit,
        "shared_memory_per_block": 49152,  # what a block gets without opt-in, every compute capability
        "shared_memory_per_block_optin": arch.shared_bytes_per_block_max,
        "shared_memory_per_multiprocessor": arch.shared_bytes_per_unit,
        "is_integrated": 0,
        "is_multi_gpu_board": 0,
        "clock_rate": None,
        "memory_clock_rate": None,
        "memory_bus_width": None,
    }
