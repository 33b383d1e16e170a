"""Assembly text, whatever the instruction set."""

from __future__ import annotations


def split_operands(text: str, opening: str, closing: str) -> list[str]:
    """Operands at commas outside brackets.

    Args:
        text: of all operands.
        opening: brackets that open, such as ``[(``.
        closing: those that close.
    """
    if not any(each in text for each in opening):
        parts = [part.strip() for part in text.split(",")]
        return parts if parts[-1] else parts[:-1]
    depth, start, parts = 0, 0, []
    for place, char in enumerate(text):
        if char in opening:
            depth += 1
        elif char in closing:
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    tail = text[start:].strip()
    return [*parts, tail] if tail else parts
