"""Launch options of Triton that one vendor's backend has alone.

A variant that sets one applies to that vendor's targets; for others its cells are excluded,
with the option as the reason, and the option is never dropped. What no table here has goes to
the compiler, which refuses what it does not know: ``unsupported``, with its name.

Source: ``CUDAOptions`` of Triton's ``backends/nvidia/compiler.py``, ``HIPOptions`` of
``backends/amd/compiler.py``, 3.5 to 3.9; a test holds the tables against the Triton that is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from portkit.model import Platform

NVIDIA: Final = frozenset({"maxnreg", "num_ctas", "launch_pdl", "ptx_options", "ptx_version", "enable_reflect_ftz"})
"""Of NVIDIA's backend. AMD's takes ``num_ctas`` of 1, which is no choice."""

AMD: Final = frozenset(
    {
        "waves_per_eu",
        "matrix_instr_nonkdim",
        "kpack",
        "schedule_hint",
        "instruction_sched_variant",
        "allow_flush_denorm",
    }
)
"""Of AMD's backend."""

OF: Final[Mapping[Platform, frozenset[str]]] = {Platform.CUDA: NVIDIA, Platform.ROCM: AMD}

_VENDOR: Final[Mapping[Platform, str]] = {Platform.CUDA: "NVIDIA", Platform.ROCM: "AMD"}


def foreign(params: Mapping[str, Any], platform: Platform) -> str | None:
    """Why a variant is not for a platform: it sets an option of another's backend; None where it is.

    Args:
        params: of the variant.
        platform: of the target.
    """
    for owner, names in OF.items():
        own = [name for name in params if name in names and not (name == "num_ctas" and params[name] == 1)]
        if owner is not platform and own:
            return f"{', '.join(own)}: launch option{'s' * (len(own) > 1)} of {_VENDOR[owner]}'s backend alone"
    return None
