"""Values of options: names with commas between, and numbers that may be ``all``."""

from __future__ import annotations

import click


def names(text: str) -> list[str]:
    """``"softmax, rope"`` as a list; nothing for an empty text."""
    return [name.strip() for name in text.split(",") if name.strip()]


def count_or_all(context: click.Context, option: click.Parameter, value: str) -> int | None:
    """A number; None for ``all``."""
    if value != "all" and not (value.isascii() and value.isdecimal()):
        raise click.BadParameter(f"{value!r} is neither a number nor all", context, option)
    return None if value == "all" else int(value)
