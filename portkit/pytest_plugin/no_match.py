"""What ``-k`` means where it chooses no cell, and for a kernel whose file can't be used."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Sequence
from itertools import chain, combinations

from portkit.errors import meant
from portkit.model import PlannedCell

_TOKEN = re.compile(r"[()]|[^\s()]+")
_GRAMMAR = frozenset({"(", ")", "and", "or", "not"})


def no_match(expression: str, cells: Sequence[PlannedCell], unusable: Collection[str] = ()) -> str:
    """That no cell has the words, with the kernels and targets nearest to those that no cell has.

    Args:
        expression: of ``-k``.
        cells: all that could be chosen.
        unusable: kernels without cells, since their file can't be used.
    """
    kernels = dict.fromkeys((*(each.cell.case for each in cells), *unusable))
    names = {*kernels, *(each.cell.target for each in cells)}
    said = f"no cell of this tier and these targets matches -k {expression!r}"
    labels = [*(each.label for each in cells), *unusable]
    unknown = [word for word in _words(expression) if not _names(word, labels)]
    asked = [question for word in unknown if (question := meant(word, names))]
    return f"{said}: {' '.join(dict.fromkeys(asked))}" if asked else f"{said}; the kernels are {', '.join(kernels)}"


def assumed_words(expression: str, kernel: str, others: Collection[str]) -> frozenset[str] | None:
    """Words with which ``-k`` chooses a kernel that has no cells; None where it means other kernels.

    Which dtypes, shapes and variants its cells would have, nobody knows: what names no other kernel may be one of them.

    Args:
        expression: of ``-k``; one that pytest refuses chooses nothing.
        kernel: whose file can't be used.
        others: all other kernels.
    """
    words = _words(expression)
    own = {word for word in words if _names(word, [kernel])}
    free = [word for word in dict.fromkeys(words) if word not in own and not _names(word, others)]
    subsets = chain.from_iterable(combinations(free, count) for count in range(len(free), -1, -1))
    return next((frozenset(some) for some in subsets if _holds(expression, {*own, *some})), None)


def names_any(expression: str, kernels: Collection[str]) -> bool:
    """Whether a word of ``-k`` is part of one of these kernels' names."""
    return any(_names(word, kernels) for word in _words(expression))


def _holds(expression: str, true: Collection[str]) -> bool:
    """The expression with these words true and all others false, as pytest evaluates it."""
    tokens = (token if token in _GRAMMAR else str(token in true) for token in _TOKEN.findall(expression))
    with warnings.catch_warnings():
        warnings.simplefilter("error", SyntaxWarning)  # True (False): a call
        try:
            return bool(eval(" ".join(tokens), {"__builtins__": {}}))  # of True, False and the grammar alone
        except (SyntaxError, TypeError):  # pytest tells of it
            return False


def _names(word: str, texts: Collection[str]) -> bool:
    """Whether a word is part of one of the texts, as ``-k`` compares."""
    return any(word.lower() in text.lower() for text in texts)


def _words(expression: str) -> list[str]:
    return [token for token in _TOKEN.findall(expression) if token not in _GRAMMAR]
