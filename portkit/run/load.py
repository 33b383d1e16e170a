"""Loads kernel cases from a kernel file or an installed module.

Importing a kernel file runs user code, so this happens only in child processes,
after the platform shim is set.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from portkit.errors import CaseError, nearest
from portkit.model import CaseSource, KernelCase


def load_case(source: CaseSource) -> KernelCase:
    """Import what ``source`` names and return its case.

    Raises:
        CaseError: the import failed, no case is declared, or the name is
            missing or declared twice; of a check, its function is not there or does
            not take the arguments.
    """
    if source.check is not None:
        # It needs torch, which a process may have to load itself, so that it can tell why that failed.
        from portkit.run.checked import case_of  # noqa: PLC0415

        return case_of(source, source.check, import_source)
    cases = declared_cases(import_source(source), place=str(source))
    if source.name not in cases:
        raise CaseError(
            f"declares no kernel case named {source.name!r}",
            place=str(source),
            remedy=nearest(source.name, cases),
        )
    return cases[source.name]


def import_source(source: CaseSource) -> ModuleType:
    """Import the file or module of a source; a failure names file and line."""
    try:
        if source.path is None:
            return importlib.import_module(source.module or source.name)
        return _import_file(Path(source.path))
    except CaseError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise CaseError(
            f"import failed: {type(error).__name__}: {error}",
            place=_failing_line(error, source),
            remedy="mend the file so that it imports alone, or remove the kernel from the matrix",
        ) from error


def declared_cases(module: ModuleType, *, place: str) -> dict[str, KernelCase]:
    """All kernel cases at module level, by name."""
    found: dict[str, KernelCase] = {}
    for value in vars(module).values():
        if not isinstance(value, KernelCase):
            continue
        if not isinstance(value.name, str):
            raise CaseError(f"`name` of a kernel case is {value.name!r}", place=place, remedy="give it a text")
        if found.get(value.name, value) is not value:
            raise CaseError(f"declares two kernel cases named {value.name!r}", place=place, remedy="rename one of them")
        found[value.name] = value
    if not found:
        raise CaseError(
            "declares no kernel case",
            place=place,
            remedy="assign a portkit.KernelCase to a name at module level",
        )
    return found


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CaseError("no such kernel file", place=str(path), remedy="check `path:` in the matrix")
    # Not a plain `import`: another package owns the name `kernels`.
    name = f"portkit_case_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CaseError("is not a Python file", place=str(path), remedy="name a .py file")
    sys.path.insert(0, str(path.parent))  # siblings come before all else, as they do beside a script
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _failing_line(error: BaseException, source: CaseSource) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if source.path and f.filename == source.path] or frames[-1:]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else str(source)
