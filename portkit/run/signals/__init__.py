"""What a build's texts say of how a kernel was lowered: counts by the names of :data:`portkit.model.SIGNALS`.

The same names for every platform, so that targets can be compared. What the source asks for
is read from Triton's own IR (:mod:`source`), what became of it from the machine's text, one
file a vendor (:mod:`nvidia`, :mod:`amd`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from portkit.model import Platform
from portkit.run.signals import amd, nvidia, source

__all__ = ["read_signals"]

_MACHINES: Mapping[Platform, tuple[str, Callable[[str], dict[str, int]]]] = {
    Platform.CUDA: ("ptx", nvidia.machine_signals),
    Platform.ROCM: ("amdgcn", amd.machine_signals),
}


def read_signals(platform: Platform, asm: Mapping[str, Any]) -> dict[str, int] | None:
    """Signals of one build that are not 0.

    Args:
        platform: of the target; decides which text is the machine's.
        asm: Triton's texts of the build by stage: ``ttir``, ``ttgir``, ``llir`` and ``ptx`` or ``amdgcn``.

    Returns:
        Counts by name, in the order of the names; None where a text is missing.
    """
    final, machine_signals = _MACHINES[platform]
    if any(name not in asm for name in ("ttir", "ttgir", "llir", final)):
        return None
    found = {
        **source.source_signals(asm["ttir"]),
        **source.layout_signals(asm["ttgir"]),
        **source.llvm_signals(asm["llir"]),
        **machine_signals(asm[final]),
    }
    return {name: found[name] for name in sorted(found) if found[name]}
