"""Names that an option takes with commas between."""

from __future__ import annotations


def names(text: str) -> list[str]:
    """``"softmax, rope"`` as a list; nothing for an empty text."""
    return [name.strip() for name in text.split(",") if name.strip()]
