"""Hash of the source that decides what a kernel case does and how fast.

Read statically, so that every host and every platform gets the same hash. It covers

* for a case in a file: the file, and the files and packages in the same folder that
  it imports, directly or through each other;
* for a case in an installed module: the module, and the modules of the same
  top-level package that it imports, directly or through each other. A name that a
  package's ``__init__`` only passes on is followed to where it is defined;
* name and version of that package, and of every other that one of these files
  imports. PyTorch and Triton are left out: the environment's key has them.

Comments, blank lines, docstrings and the file's name do not change the hash, nor do
the axes written in the ``KernelCase`` call, which each cell's own key holds.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portkit.errors import CaseError
from portkit.model import CaseSource, digest

_AXES = frozenset({"name", "shapes", "small_shapes", "dtypes", "variants", "directions"})
_ELSEWHERE = frozenset({"torch", "triton", "portkit", *sys.stdlib_module_names})


def source_hash(source: CaseSource) -> str:
    """Hash of the sources of a case, by the rule of this module.

    Raises:
        CaseError: a source is missing or does not parse.
    """
    scope = _scope(source)
    trees = sorted((scope.name_of(path), canonical(tree)) for path, tree in scope.trees.items())
    packages = {name: version_of(name) for name in scope.foreign | ({scope.package} if scope.package else set())}
    return digest([trees, packages])


def own_files(source: CaseSource) -> frozenset[Path]:
    """Files that the hash of a source covers; its own alone where another can't be read."""
    try:
        return frozenset(_scope(source).trees)
    except CaseError:
        return frozenset({Path(source.path).resolve()} if source.path else ())


def check_executed(source: CaseSource) -> None:
    """See that Python imported the sources that the hash covers, once the case is loaded.

    A name that something else has taken before goes to that, and the file beside the kernel
    is not executed.

    Raises:
        CaseError: another module has the name of one of the sources.
    """
    scope = _scope(source)
    for path in sorted(scope.trees.keys() - {scope.root}):
        name = scope.module_name(path)
        if found := _another(name, path):
            raise CaseError(
                f"has the name of {found}, which `import {name}` may find instead",
                place=str(path),
                remedy="give the file a name that no other module has",
            )


def _another(name: str, path: Path) -> str | None:
    """The module that a name stands for, if it is another than that of the file."""
    if name.partition(".")[0] in _ELSEWHERE:  # which of the two is loaded first differs by process
        return f"a module of Python, PyTorch, Triton or portkit, {name}"
    if name not in sys.modules:
        return None
    executed = getattr(sys.modules[name], "__file__", None)
    return None if executed and Path(executed).resolve() == path.resolve() else f"another module, {executed}"


def canonical(node: Any) -> Any:
    """A syntax tree as nested lists, the same for every Python version and layout.

    Positions, docstrings and other statements that are only a text are left out, and
    so are empty fields: newer versions of Python add some.
    """
    if isinstance(node, list):
        return [canonical(child) for child in node if not _is_text(child)]
    if not isinstance(node, ast.AST):
        return node if isinstance(node, str | int | float | bool | None) else repr(node)
    fields = {
        name: canonical(value)
        for name, value in ast.iter_fields(node)
        if value is not None and value != [] and name not in ("ctx", "kind", "type_comment")
    }
    if _is_case_call(node):
        fields["keywords"] = [canonical(word) for word in _without_axes(node)]
    return [type(node).__name__, fields]


def version_of(package: str) -> str | None:
    """Version of the distribution that installed a top-level package; None if none did."""
    distributions = _distributions().get(package)
    return importlib.metadata.version(distributions[0]) if distributions else None


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


@dataclass
class _Scope:
    """The sources that count as the case's own, and those of them found so far."""

    folder: Path  # where dotted names of own modules start
    package: str | None  # the only own top-level package; None: all that is in the folder
    root: Path | None = None
    trees: dict[Path, ast.Module] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)

    def follow(self, path: Path) -> None:
        """Take in a file and all that it imports."""
        self.root = self.root or path
        waiting = [path]
        while waiting:
            file = waiting.pop()
            if file not in self.trees:
                self.trees[file] = _parse(file)
                waiting += self._imported(file, self.trees[file])

    def name_of(self, path: Path) -> str:
        """Name under which a file enters the hash; the case's own has none."""
        return "" if path == self.root else path.relative_to(self.folder).as_posix()

    def module_name(self, path: Path) -> str:
        """Dotted name under which an own file is imported."""
        parts = path.relative_to(self.folder).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _imported(self, file: Path, tree: ast.Module) -> Iterator[Path]:
        for module, name in _imports(tree, self._package_of(file)):
            yield from self._resolve(module, name, frozenset())

    def _resolve(self, module: str, name: str | None, seen: frozenset[tuple[str, str]]) -> Iterator[Path]:
        """Files that ``from module import name`` needs; None is the module itself."""
        top = module.partition(".")[0]
        file = self.locate(module) if self.package in (None, top) else None
        inner = self.locate(f"{module}.{name}") if file is not None or self._is_own(top) else None
        if name is not None and inner is not None:
            yield inner
        elif file is None:
            if top not in _ELSEWHERE and not self._is_own(top):
                self.foreign.add(top)
        elif file.name == "__init__.py" and name not in (None, "*") and (module, name) not in seen:
            yield from self._passed_on(file, str(name), seen | {(module, str(name))})
        else:
            yield file

    def _passed_on(self, init: Path, name: str, seen: frozenset[tuple[str, str]]) -> Iterator[Path]:
        """Where a package's ``__init__`` takes a name from, or the ``__init__`` itself."""
        for module, original in _imports(_parse(init), self._package_of(init), bound_as=name):
            yield from self._resolve(module, original, seen)
            return
        yield init

    def _is_own(self, top: str) -> bool:
        if self.package is not None:
            return top == self.package
        return self.locate(top) is not None or (self.folder / top).is_dir()

    def locate(self, module: str) -> Path | None:
        """File of an own module, given its dotted name."""
        base = self.folder.joinpath(*module.split("."))
        candidates = base.with_name(f"{base.name}.py"), base / "__init__.py"
        return next((path for path in candidates if path.is_file()), None)

    def _package_of(self, file: Path) -> str:
        return ".".join(file.parent.relative_to(self.folder).parts)


def _scope(source: CaseSource) -> _Scope:
    """All sources of a case."""
    scope = _empty_scope(source)
    scope.follow(_root_file(source, scope))
    return scope


def _empty_scope(source: CaseSource) -> _Scope:
    if source.path is not None:
        return _Scope(Path(source.path).resolve().parent, None)
    top = (source.module or source.name).partition(".")[0]
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        raise CaseError(f"no module named {top!r} is installed", place=str(source), remedy="install it, or use `path:`")
    origin = Path(spec.origin).resolve()
    return _Scope(origin.parents[1] if origin.name == "__init__.py" else origin.parent, top)


def _root_file(source: CaseSource, scope: _Scope) -> Path:
    if source.path is not None:
        return Path(source.path).resolve()
    file = scope.locate(source.module or source.name)
    if file is None:
        raise CaseError("no source file of this module", place=str(source), remedy="name a module written in Python")
    return file


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except OSError as error:
        raise CaseError(f"can't be read: {error.strerror}", place=str(path), remedy="check `path:`") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        place = f"{path}:{line}" if line else str(path)
        raise CaseError(f"is not Python: {error}", place=place, remedy="mend the file") from None


def _imports(tree: ast.Module, package: str, bound_as: str | None = None) -> Iterator[tuple[str, str | None]]:
    """Pairs of absolute module and name imported, anywhere in a file.

    Args:
        tree: the parsed file.
        package: dotted package that relative imports start from.
        bound_as: only the imports that bind this name.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and bound_as is None:
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, package)
            for alias in node.names:
                if bound_as in (None, alias.asname or alias.name):
                    yield module, alias.name


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if node.level == 0:
        return node.module or ""
    parents = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join(filter(None, [*parents, node.module]))


def _is_text(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_case_call(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
    return called == "KernelCase"


def _without_axes(node: ast.AST) -> list[ast.keyword]:
    return [word for word in getattr(node, "keywords", []) if word.arg not in _AXES]
