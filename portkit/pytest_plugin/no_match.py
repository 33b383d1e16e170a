"""What to say where ``-k`` chooses no cell."""

from __future__ import annotations

import re
from collections.abc import Sequence

from portkit.errors import meant
from portkit.model import PlannedCell


def no_match(expression: str, cells: Sequence[PlannedCell]) -> str:
    """That no cell has the words, with the kernels and targets nearest to those that no cell has.

    Args:
        expression: of ``-k``.
        cells: all that could be chosen.
    """
    kernels = dict.fromkeys(each.cell.case for each in cells)
    names = {*kernels, *(each.cell.target for each in cells)}
    said = f"no cell of this tier and these targets matches -k {expression!r}"
    unknown = [word for word in _words(expression) if not any(word.lower() in each.label.lower() for each in cells)]
    asked = [question for word in unknown if (question := meant(word, names))]
    return f"{said}: {' '.join(dict.fromkeys(asked))}" if asked else f"{said}; the kernels are {', '.join(kernels)}"


def _words(expression: str) -> list[str]:
    return [word for word in re.findall(r"[^\s()]+", expression) if word not in ("and", "or", "not")]
