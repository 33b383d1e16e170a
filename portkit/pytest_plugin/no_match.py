"""What ``-k`` means where it chooses no cell, and for a kernel whose file can't be used."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
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
    tree = _parsed(expression)
    if tree is None:
        return None
    free: dict[str, set[bool]] = {}  # whether it is wanted true, false or either
    for word, wanted in _wanted(tree):
        if not _names(word, (kernel, *others)):
            free.setdefault(word, set()).add(wanted)
    own = {word for word in _words(expression) if _names(word, [kernel])}
    surely = {word for word, wanted in free.items() if wanted == {True}}
    either = [word for word, wanted in free.items() if len(wanted) > 1]
    subsets = chain.from_iterable(combinations(either, count) for count in range(len(either), -1, -1))
    return next((frozenset(surely.union(some)) for some in subsets if _holds(tree, own.union(surely, some))), None)


def names_any(expression: str, kernels: Collection[str]) -> bool:
    """Whether a word of ``-k`` is part of one of these kernels' names."""
    return any(_names(word, kernels) for word in _words(expression))


def _parsed(expression: str) -> ast.expr | None:
    """The expression with its words as texts; None where pytest refuses it."""
    tokens = (token if token in _GRAMMAR else f"({token!r})" for token in _TOKEN.findall(expression))
    try:
        tree = ast.parse(" ".join(tokens), mode="eval").body
    except SyntaxError:
        return None
    refused = any(isinstance(each, ast.Call | ast.Tuple) for each in ast.walk(tree))  # a (b), and ()
    return None if refused else tree


def _wanted(node: ast.expr, wanted: bool = True) -> Iterator[tuple[str, bool]]:
    """Each word, and what it is to be for the expression to hold."""
    match node:
        case ast.Constant(value=str(word)):
            yield word, wanted
        case ast.UnaryOp(operand=operand):
            yield from _wanted(operand, not wanted)
        case ast.BoolOp(values=values):
            for each in values:
                yield from _wanted(each, wanted)


def _holds(node: ast.expr, true: Collection[str]) -> bool:
    """The expression with these words true and all others false, as pytest evaluates it."""
    match node:
        case ast.UnaryOp(operand=operand):
            return not _holds(operand, true)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_holds(each, true) for each in values)
        case ast.BoolOp(values=values):
            return any(_holds(each, true) for each in values)
    return isinstance(node, ast.Constant) and node.value in true


def _names(word: str, texts: Collection[str]) -> bool:
    """Whether a word is part of one of the texts, as ``-k`` compares."""
    return any(word.lower() in text.lower() for text in texts)


def _words(expression: str) -> list[str]:
    return [token for token in _TOKEN.findall(expression) if token not in _GRAMMAR]
