"""What ``portkit check`` is asked to do, from the words of a command line or of a comment in a file; pure.

A file may say itself how its functions are to be checked, in comments that hold the words of
the command line::

    # portkit: check rms_norm --arg x=bf16[4096,4096] --arg w=bf16[4096] --arg eps=1e-6
"""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from portkit.errors import CaseError
from portkit.model import CaseSource, Cell, Check, Direction, Evidence, PlannedCell, Shape
from portkit.plan.arguments import parse_argument, tensors

IMPORTED: Final = "imported"
"""Blob of a check's result with the names of the files that its process imported."""

CALL: Final = "call"
"""Variant of every check: the call as it is."""

TARGETS: Final = (
    *("t4", "a100", "l4", "h100", "h200", "b200", "rtx4090", "rtx5090"),
    *("mi250x", "mi300x", "mi355x", "rx7900xtx", "rx9070xt", "strixhalo"),
)
"""Targets of a check that names none: one or two GPUs of every architecture that is in wide use."""

NO_DTYPE: Final = "mixed"
"""Dtype of a check without a tensor among its arguments."""

COMMENT: Final = re.compile(r"(?m)^[ \t]*#[ \t]*portkit:[ \t]*check[ \t]+(?P<words>\S.*)$")

_FORM: Final = "write it as `# portkit: check FUNCTION --arg NAME=VALUE …`"


@dataclass(frozen=True)
class Place:
    """A file or a module, and the function that is named in it."""

    path: Path | None
    module: str | None
    function: str | None

    def __str__(self) -> str:
        return str(self.path) if self.path else str(self.module)


def read_place(text: str) -> Place:
    """``file.py``, ``file.py:function``, ``package.module`` or ``package.module:Class.method``.

    Raises:
        CaseError: there is no such file or module.
    """
    where, _, function = text.partition(":")
    if where.endswith(".py") or "/" in where:
        path = Path(where)
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "no such file"
            raise CaseError(what, place=where, remedy="name a Python file, or a module as package.module")
        return Place(path.resolve(), None, function or None)
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", where):
        raise CaseError(f"{where!r} is neither a file nor a module", remedy="write file.py:function or module:function")
    return Place(module_file(where), where, function or None)


def module_file(module: str) -> Path | None:
    """The file of a module, found without importing it or its packages; None for one without a file.

    Raises:
        CaseError: there is none of that name.
    """
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise CaseError(f"no module {top}", place=module, remedy=_instead_of(module))
    if not rest:
        return Path(spec.origin) if spec.origin else None
    for folder in spec.submodule_search_locations or ():
        base = Path(folder).joinpath(*rest)
        for path in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
            if path.is_file():
                return path
        if base.is_dir() or any(base.parent.glob(f"{base.name}.*.so")):
            return None
    raise CaseError(f"package {top} has no module {module}", place=module, remedy="name one that it has")


def _instead_of(module: str) -> str:
    """What would be right where there is no such module, by what lies in this folder."""
    path = Path(*module.split("."))
    if (file := path.with_name(f"{path.name}.py")).is_file():
        return f"for the file write {file}"
    if path.is_dir():
        return f"for a file of that folder write {path}/FILE.py"
    return "install its package, or name a file"


def source_of(place: Place, check: Check) -> CaseSource:
    """Where the function of a check is imported from.

    A file within a package is imported as its module, so that its relative imports work.
    """
    if place.module is not None:
        return CaseSource(_name(check), module=place.module, check=check)
    assert place.path is not None
    root, module = _package_root(place.path)
    if root is None:
        return CaseSource(_name(check), path=str(place.path), check=check)
    return CaseSource(_name(check), module=module, check=replace(check, root=str(root)))


def _package_root(path: Path) -> tuple[Path | None, str]:
    folder, parts = path.parent, [] if path.stem == "__init__" else [path.stem]
    if not (folder / "__init__.py").is_file():
        return None, path.stem
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _name(check: Check) -> str:
    return Path(check.script[0]).name if check.script else check.function


def read_pairs(texts: Sequence[str], option: str) -> tuple[tuple[str, str], ...]:
    """``NAME=VALUE`` or ``VALUE`` for one by position, each value looked at.

    Raises:
        CaseError: a value is none, a name is there twice, or one by position follows one by name.
    """
    pairs: list[tuple[str, str]] = []
    for text in texts:
        match = re.match(r"([A-Za-z_]\w*)=(?!=)", text)
        name, value = (match[1], text[match.end() :]) if match else ("", text)
        parse_argument(value, f"{option} {text}")
        if name and name in dict(pairs):
            raise CaseError(f"{name} is given twice", place=f"{option} {text}", remedy="give it once")
        if not name and any(key for key, _ in pairs):
            raise CaseError(
                "an argument without a name follows one with a name", place=f"{option} {text}", remedy="name it"
            )
        pairs.append((name, value))
    return tuple(pairs)


def read_grid(text: str) -> tuple[int, ...]:
    """``1024`` or ``64,8``.

    Raises:
        CaseError: it is no grid.
    """
    parts = text.split(",") if text else []
    if len(parts) > 3 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise CaseError(f"{text!r} is no grid", place="--grid", remedy="write one to three whole numbers, as 64,8")
    return tuple(int(part) for part in parts)


def declared(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Place and words of every check that a file's comments ask for.

    Raises:
        CaseError: the file can't be read, or the words are none.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CaseError(f"can't be read: {error}", place=str(path), remedy="name a Python file in UTF-8") from None
    for match in COMMENT.finditer(text):
        place = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
        try:
            words = shlex.split(match["words"])
        except ValueError as error:
            raise CaseError(f"the comment's words are none: {error}", place=place, remedy=_FORM) from None
        yield place, words


def shape_and_dtype(check: Check) -> tuple[Shape, str]:
    """Shape and dtype that a check's rows have: those of the largest tensor among its arguments."""
    found = [spec for _, text in check.arguments for spec in tensors(parse_argument(text, "--arg"))]
    largest = max(found, key=lambda spec: spec.bytes, default=None)
    return (largest.shape, largest.dtype) if largest else ((), NO_DTYPE)


def named_apart(sources: Sequence[CaseSource]) -> list[CaseSource]:
    """The sources, each under a name of its own."""
    used: set[str] = set()
    out = []
    for source in sources:
        name = next(each for each in _candidates(source.name) if each not in used)
        used.add(name)
        out.append(replace(source, name=name))
    return out


def _candidates(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1


def cells_of(source: CaseSource, targets: Sequence[str], emulated: Sequence[str] = ()) -> list[PlannedCell]:
    """The cells of one check: one a target, built, and one for each that is emulated.

    Args:
        source: of the check.
        targets: to build for.
        emulated: those of them whose machine code runs, on the small arguments.
    """
    assert source.check is not None
    built = [PlannedCell(_cell(source, source.check, target), Evidence.COMPILED) for target in targets]
    small = small_call(source.check)
    return [*built, *(PlannedCell(_cell(source, small, target), Evidence.EMULATED) for target in emulated)]


def _cell(source: CaseSource, check: Check, target: str) -> Cell:
    shape, dtype = shape_and_dtype(check)
    direction = Direction.BACKWARD if check.backward else Direction.FORWARD
    return Cell(source.name, direction, shape, dtype, CALL, target)


def small_call(check: Check) -> Check:
    """The call that is emulated: the check's, with its small arguments in place of those of the same names.

    Raises:
        CaseError: a small argument has the name of none.
    """
    small = dict(check.small)
    places = {name or str(place): name for place, (name, _) in enumerate(check.arguments)}
    for name in small:
        if name not in places:
            raise CaseError(
                f"{name!r} is no argument of the call", place="--small", remedy=f"name one of {', '.join(places)}"
            )
    arguments = tuple((name, small.get(name or str(place), text)) for place, (name, text) in enumerate(check.arguments))
    return replace(check, arguments=arguments, small=())


EMULATED_BYTES: Final = 64 * 2**20
"""Most bytes of all tensors of a call that is emulated."""


def refuse_large(check: Check) -> None:
    """See that the call that is emulated is small enough.

    Raises:
        CaseError: its tensors take more than :data:`EMULATED_BYTES`.
    """
    size = sum(spec.bytes for _, text in small_call(check).arguments for spec in tensors(parse_argument(text, "--arg")))
    if size > EMULATED_BYTES:
        raise CaseError(
            f"the arguments take {size >> 20} MiB, and emulation takes {EMULATED_BYTES >> 20} MiB at most",
            place="--emulate",
            remedy="give smaller ones to it, such as --small 'x=bf16[8,4096]', each that shares the axis",
        )
