"""Modes of timing that a user may ask for; needs no torch."""

from __future__ import annotations

from collections.abc import Sequence

from portkit.errors import HostError
from portkit.run.timing.samples import GRAPH, WARM

MODES = (WARM, GRAPH)


def parse_modes(options: Sequence[str]) -> tuple[str, ...]:
    """Modes of ``["graph,warm"]``, each once and in the order of :data:`MODES`.

    Raises:
        HostError: there is no such mode.
    """
    words = [word.strip() for option in options for word in option.split(",")]
    if wrong := [word for word in words if word not in MODES]:
        raise HostError(
            f"not a mode of timing: {wrong[0]!r}", place="--portkit-modes", remedy=f"choose of {', '.join(MODES)}"
        )
    return tuple(mode for mode in MODES if mode in words)
