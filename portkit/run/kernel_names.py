"""Names of kernels as profilers write them; no torch."""

from __future__ import annotations

import re

_SUFFIX = re.compile(r"(\.kd|\s*\[clone [^\]]*\])+$")


def plain_name(name: str) -> str:
    """A kernel's name without what marks it as a descriptor or a clone: AMD's tools name the descriptor, ``k.kd``."""
    return _SUFFIX.sub("", name.strip())
