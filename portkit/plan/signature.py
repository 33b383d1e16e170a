"""Refuses a call that the text of a file alone shows to be mistaken, before anything is loaded; pure.

A name that the file nowhere binds, or arguments that a plain function does not take, would else be
told by the import, which takes PyTorch and Triton ten seconds. What a file may bind while it runs,
and what a decorator makes of a function, is left to the import.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from portkit.errors import CaseError, nearest
from portkit.model import Check

Pairs = Sequence[tuple[str, str]]
"""Name and text of each argument; the name of one by position is empty."""

_BINDS_UNSEEN: Final = frozenset({"globals", "vars", "locals", "exec", "setattr", "modules", "__getattr__"})
"""Names by which a file may bind others that its text does not show."""

_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def refuse_mistaken(path: Path, check: Check, place: str) -> None:
    """Refuse what the text shows.

    Args:
        path: of the file of the function.
        check: which function, and its arguments.
        place: what an error names.

    Raises:
        CaseError: the file has no such name, or its function does not take these arguments.
    """
    tree = _tree(path)
    if tree is None or _binds_unseen(tree):
        return
    name, _, inner = check.function.partition(".")
    if name not in set(_bound(tree.body)):
        named = [each.name for each in tree.body if isinstance(each, _Scope) and not each.name.startswith("_")]
        raise CaseError(f"has no {check.function}", place=place, remedy=nearest(name, named))
    if not inner and (function := _plain_function(tree, name)):
        bind(signature(function), check.arguments, place, _written(function))


def bind(of: inspect.Signature, arguments: Pairs, place: str, written: str, option: str = "--arg") -> None:
    """See that a function takes arguments.

    Args:
        of: its signature.
        arguments: as given.
        place: of the function.
        written: the signature as a user reads it, with the function's name.
        option: by which arguments are given.

    Raises:
        CaseError: it does not.
    """
    try:
        of.bind(*(text for name, text in arguments if not name), **{name: text for name, text in arguments if name})
    except TypeError as error:
        name = written.partition("(")[0]
        remedy = f"its signature is {written}; give each with {option} NAME=VALUE"
        raise CaseError(f"{name} does not take these arguments: {error}", place=place, remedy=remedy) from None


def signature(function: ast.FunctionDef) -> inspect.Signature:
    """The signature of a function as its text has it; a default is there, whatever it is."""
    kind, given = inspect.Parameter, function.args
    places = [*given.posonlyargs, *given.args]
    plain = len(places) - len(given.defaults)
    parameters = [
        kind(
            each.arg,
            kind.POSITIONAL_ONLY if index < len(given.posonlyargs) else kind.POSITIONAL_OR_KEYWORD,
            default=kind.empty if index < plain else ...,
        )
        for index, each in enumerate(places)
    ]
    if given.vararg:
        parameters.append(kind(given.vararg.arg, kind.VAR_POSITIONAL))
    for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        parameters.append(kind(each.arg, kind.KEYWORD_ONLY, default=kind.empty if default is None else ...))
    if given.kwarg:
        parameters.append(kind(given.kwarg.arg, kind.VAR_KEYWORD))
    return inspect.Signature(parameters)


def _written(function: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"{function.name}({ast.unparse(function.args)}){returns}"


def _tree(path: Path) -> ast.Module | None:
    """None where the import has more to say."""
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except (OSError, SyntaxError, ValueError):
        return None


def _binds_unseen(tree: ast.Module) -> bool:
    """Whether the file may have names that its text does not show."""
    return any(_stands_for_others(node) for node in ast.walk(tree))


def _stands_for_others(node: ast.AST) -> bool:
    match node:
        case ast.ImportFrom(names=[ast.alias(name="*")]):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name):
            return name in _BINDS_UNSEEN
        case ast.Global():
            return True
    return False


def _bound(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """Names that statements bind in their own scope."""
    for statement in statements:
        yield from _of_statement(statement)


def _of_statement(statement: ast.AST) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (each.asname or each.name.partition(".")[0] for each in names)
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.ExceptHandler(name=str(name), body=body):
            yield name
            yield from _bound(body)
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
            yield from _of_parts(statement)
        case _:
            yield from _of_parts(statement)


def _of_parts(statement: ast.AST) -> Iterator[str]:
    for inner in ast.iter_child_nodes(statement):
        yield from _of_statement(inner)


def _plain_function(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    """The function of that name where nothing else may stand for it."""
    binding = [each for each in tree.body if name in set(_of_statement(each))]
    match binding:
        case [ast.FunctionDef(decorator_list=[]) as function]:
            return function
    return None
