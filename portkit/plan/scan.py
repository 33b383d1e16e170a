"""What a file has that ``portkit check`` could call, read from its syntax tree: nothing is imported; pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from portkit.errors import CaseError

_DECORATORS = frozenset({"jit", "autotune", "heuristics"})
"""Last names of Triton's decorators that make a kernel of a function."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function."""

    name: str
    needed: bool  # has no default
    annotation: str  # as written; empty where there is none


@dataclass(frozen=True)
class Found:
    """A function that launches kernels, or a kernel."""

    name: str  # dotted for one of a class: RMSNorm.forward
    line: int
    parameters: tuple[Parameter, ...]
    kernel: bool
    launches: tuple[str, ...] = ()  # names of kernels, as they are written

    @property
    def signature(self) -> str:
        """Its name and parameters, those with a default marked by ``=…``."""
        return f"{self.name}({', '.join(each.name + ('' if each.needed else '=…') for each in self.parameters)})"

    @property
    def needs(self) -> tuple[Parameter, ...]:
        """Parameters without a default."""
        return tuple(each for each in self.parameters if each.needed)


@dataclass(frozen=True)
class Contents:
    """What a file has to check."""

    functions: tuple[Found, ...]  # that launch kernels, directly or through each other, then kernels
    cases: tuple[str, ...]  # names of the kernel cases that it declares, as far as they are written: ``name="…"``


def scan(path: Path) -> Contents:
    """What a file has to check.

    Raises:
        CaseError: the file can't be read, or is not Python.
    """
    tree = _tree(path)
    return Contents(tuple(_to_call(tree)), _cases(tree))


def _to_call(tree: ast.Module) -> Iterator[Found]:
    """Functions and kernels; what returns a value is no kernel: other kernels call it."""
    functions = dict(_functions(tree))
    kernels = {name for name, node in functions.items() if _is_kernel(node)}
    host = {name: node for name, node in functions.items() if name not in kernels and not _is_device_code(node)}
    launching = _launching(host)
    named = {name: node for name, node in host.items() if launching.get(name) and not name.endswith(".backward")}
    yield from (_found(name, node, launching[name]) for name, node in named.items())
    launched = [name for name in functions if name in kernels and not _returns(functions[name])]
    yield from (_found(name, functions[name], None) for name in launched)


def _cases(tree: ast.Module) -> tuple[str, ...]:
    calls = (each for each in ast.walk(tree) if isinstance(each, ast.Call))
    made = (each for each in calls if _last_name(each) == "KernelCase")
    return tuple(dict.fromkeys(name for call in made for name in _case_name(call)))


def _case_name(call: ast.Call) -> Iterator[str]:
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg="name", value=ast.Constant(value=str(name))):
                yield name


def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except (OSError, SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        place = f"{path}:{line}" if line else str(path)
        raise CaseError(f"is not Python: {error}", place=place, remedy="mend the file") from None


Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Functions at module level and of its classes, by dotted name."""
    for node in tree.body:
        if isinstance(node, Function):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{each.name}", each) for each in node.body if isinstance(each, Function))


def _is_kernel(node: Function) -> bool:
    return any(_last_name(each) in _DECORATORS for each in node.decorator_list)


def _returns(node: Function) -> bool:
    return any(isinstance(each, ast.Return) and each.value is not None for each in ast.walk(node))


def _is_device_code(node: Function) -> bool:
    """Whether a function without a decorator speaks Triton's language, as those that a kernel is made of later."""
    return any(_last_name(each) in ("program_id", "constexpr_function") for each in ast.walk(node))


def _last_name(node: ast.AST) -> str:
    match node:
        case ast.Call(func=inner):
            return _last_name(inner)
        case ast.Attribute(attr=name):
            return name
        case ast.Name(id=name):
            return name
    return ""


def _launching(functions: dict[str, Function]) -> dict[str, tuple[str, ...]]:
    """Each function's kernels: those it launches, and those of functions of the file that it calls."""
    own = {name: tuple(_launches(node)) for name, node in functions.items()}
    calls = {name: set(_called(node)) for name, node in functions.items()}
    changed = True
    while changed:
        changed = False
        for name, called in calls.items():
            others = [each for each in own if each != name and {each, each.rpartition(".")[2]} & called]
            more = [kernel for other in others for kernel in own[other]]
            whole = tuple(dict.fromkeys((*own[name], *more)))
            changed, own[name] = changed or whole != own[name], whole
    return own


def _called(node: Function) -> Iterator[str]:
    """Last names of what a function calls; of ``Class.apply``, what that calls."""
    for each in ast.walk(node):
        match each:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="apply")):
                yield f"{owner}.forward"
            case ast.Call(func=func):
                yield _last_name(func)


def _launches(node: Function) -> Iterator[str]:
    """Names of what is launched: ``kernel[grid](…)``."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Subscript):
            name = _last_name(each.func.value)
            if name:
                yield name


def _found(name: str, node: Function, launches: tuple[str, ...] | None) -> Found:
    return Found(name, node.lineno, tuple(_parameters(node, name)), launches is None, launches or ())


def _parameters(node: Function, name: str) -> Iterator[Parameter]:
    places = [*node.args.posonlyargs, *node.args.args]
    plain = len(places) - len(node.args.defaults)
    skipped = 1 if "." in name and places and places[0].arg in ("self", "ctx", "cls") else 0
    for index, each in enumerate(places[skipped:], skipped):
        yield Parameter(each.arg, index < plain, _text(each.annotation))
    for each, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        yield Parameter(each.arg, default is None, _text(each.annotation))


def _text(node: ast.expr | None) -> str:
    return ast.unparse(node) if node is not None else ""
