"""AMD's profiler, rocprofv3: named here, and not read yet."""

from __future__ import annotations

from typing import NoReturn

from portkit.errors import HostError


def open_rocprof(architecture: str) -> NoReturn:
    """There is no reader of rocprofv3's tables yet.

    Raises:
        HostError: always, with what to use meanwhile.
    """
    raise HostError(
        f"counters of AMD GPUs ({architecture}) are not taken yet: portkit has no reader of rocprofv3",
        remedy="run rocprofv3 by hand",
    )
