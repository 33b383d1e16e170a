"""Whether a host shows exactly the GPUs that a job is for."""

from __future__ import annotations

from collections.abc import Sequence


def wrong_devices(visible: Sequence[str], target: str, count: int) -> str | None:
    """What is wrong with the devices that a host shows; None where nothing is.

    Args:
        visible: target of each visible GPU.
        target: that all of them must be.
        count: how many there must be.

    >>> wrong_devices(["h200"], "h200", 1)
    >>> wrong_devices(["h100", "h200"], "h200", 2)
    'shows h100, h200 where 2 × h200 and nothing else were to be'
    """
    if sorted(visible) == [target] * count:
        return None
    return f"shows {', '.join(sorted(visible)) or 'no GPU'} where {count} × {target} and nothing else were to be"
