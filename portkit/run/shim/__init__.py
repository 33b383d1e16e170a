"""Makes this process look like a host of the target GPU, before user code runs.

Host code branches on the platform: Liger-Kernel picks 16 warps where
``torch.version.hip`` is set and 32 elsewhere; others take grids from
``multi_processor_count``. An unmodified host function must see the answers that
it would get on the target, and its tensors must claim to live on a GPU.

One process serves one target and is thrown away after it, so the shim patches
torch in place and never restores it. What differs between vendors is in
``cuda.py`` and ``rocm.py``.
"""

from __future__ import annotations

from portkit.model import Platform, Target
from portkit.run.shim import cuda, rocm
from portkit.run.shim.answers import Answers
from portkit.run.shim.device import ClaimDevice, patch_backward
from portkit.run.shim.host_code import patch_host_code
from portkit.run.shim.refusals import (
    CompiledHostError,
    LaunchRefusedError,
    UnknownPropertyError,
    UnknownTime,
    UnknownTimeError,
)
from portkit.run.shim.tools import stand_in_tools
from portkit.run.shim.torch_cuda import patch_torch_cuda

__all__ = [
    "Answers",
    "ClaimDevice",
    "CompiledHostError",
    "LaunchRefusedError",
    "UnknownPropertyError",
    "UnknownTime",
    "UnknownTimeError",
    "answers_for",
    "install",
]

_VENDORS = {Platform.CUDA: cuda, Platform.ROCM: rocm}


def answers_for(target: Target) -> Answers:
    """What a host of ``target`` answers to platform queries, logged as they are asked."""
    vendor = _VENDORS[target.architecture.platform]
    return Answers(target.name, vendor.properties(target))


def install(target: Target, *, backing: str = "meta") -> tuple[Answers, ClaimDevice]:
    """Set the platform of ``target`` in this process, for good.

    Args:
        target: the GPU to look like.
        backing: device that really holds the tensors, ``meta`` or ``cpu``.

    Returns:
        The log of questions, and the mode under which user code must run.
    """
    answers = answers_for(target)
    platform = target.architecture.platform
    _VENDORS[platform].set_versions()
    others = [tool for name, vendor in _VENDORS.items() if name is not platform for tool in vendor.TOOLS]
    stand_in_tools(platform.value, _VENDORS[platform].TOOLS, others)
    patch_torch_cuda(answers)
    mode = ClaimDevice(backing)
    patch_backward(mode)
    patch_host_code(mode)
    return answers, mode
