"""Caches behind the L2 that no runtime tells of."""

from __future__ import annotations

from typing import Final

from portkit.model import Architecture, Platform

_WITHOUT: Final = frozenset({"gfx906", "gfx908", "gfx90a", "gfx1010", "gfx1011", "gfx1012"})
"""AMD's architectures whose L2 is the last level: CDNA before its third generation, RDNA before its second."""


def may_have_infinity_cache(architecture: Architecture) -> bool:
    """Whether a device of the architecture may have AMD's Infinity Cache between L2 and memory.

    Some have none, as smaller RDNA APUs; which do, the catalogue knows by the SKU alone.
    """
    return architecture.platform is Platform.ROCM and architecture.name not in _WITHOUT
