"""What the files of every CI system have in common: words of their templates, and their first line."""

from __future__ import annotations

from typing import Any

from portkit.fleet.site import Fleet


def common_words(fleet: Fleet, matrix: str, tier: str) -> dict[str, Any]:
    """Word → value, where it is the same for all.

    Args:
        fleet: which places there are.
        matrix: path of the matrix file in the repository.
        tier: of the matrix.
    """
    return {
        "MATRIX": matrix,
        "TIER": tier,
        "HOST_LIMIT": f"{max(fleet.ci.minutes - 10, 1)}m",
        "HISTORY": fleet.ci.history or "history",
    }


def made_by(command: str, fleet: Fleet) -> list[str]:
    """The comment above a file: which command writes it, and of what."""
    return [f"Made by `portkit ci {command}` from {fleet.path.as_posix()}: change that, and make it again."]
