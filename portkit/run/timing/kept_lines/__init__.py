"""Lines that a kernel asked the last-level cache to keep for longest; one file a vendor.

A plain read does not drive such lines out. They would outlive a flush: a function that loads them
again finds them warm, and any other has less of the cache, by what ran before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from portkit.model import Platform
from portkit.run.timing.kept_lines import amd, nvidia

_LET_GO: Mapping[Platform, Callable[[], bool]] = {Platform.CUDA: nvidia.let_go, Platform.ROCM: amd.let_go}


def let_go() -> bool:
    """Have the current device's kept lines give way to reads like all others.

    It is the host that asks for it, and not a stream: the device must have nothing to do.

    Returns:
        Whether the device can keep lines, and let them go.
    """
    return _LET_GO[Platform.ROCM if torch.version.hip else Platform.CUDA]()
