"""A YAML file with the line of everything in it: matrix and targets files are read by it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.reader import ReaderError

from portkit.errors import PortkitError

Location = tuple[str | int, ...]
"""The way to a value: keys of mappings and indices of lists."""

DEEPEST: Final = 50
"""Mappings and lists within one another: no file of ours needs ten, and the parser takes long over thousands."""


@dataclass(frozen=True)
class Kind:
    """What a file is for, which its mistakes are told by."""

    name: str  # such as "matrix file"
    error: type[PortkitError]
    begin: str  # what a file of the kind begins with
    command: str = ""  # that writes one


@dataclass(frozen=True)
class Document:
    """A parsed YAML file whose top level is a mapping."""

    name: str  # as places show it
    data: CommentedMap

    def line(self, location: Sequence[Any]) -> int:
        """The line, from 1, of the deepest part of ``location`` that the file has."""
        line, node = 1, self.data
        for part in location:
            found = _line_of(node, part)
            if found is None:
                break
            line, node = found, node[part]
        return line

    def place(self, location: Sequence[Any]) -> str:
        """A location for people: ``matrix.yaml:12: kernels.softmax.dtypes[1]``."""
        return f"{self.name}:{self.line(location)}: {dotted(self._named(location))}" if location else f"{self.name}:1"

    def _named(self, location: Sequence[Any]) -> Location:
        """``location`` with numbers that are keys of a mapping, not indices, as text."""
        named: list[str | int] = []
        node: Any = self.data
        for part in location:
            named.append(str(part) if isinstance(node, CommentedMap) and isinstance(part, int) else part)
            node = node[part] if _has(node, part) else None
        return tuple(named)

    def known_part(self, location: Sequence[Any]) -> Location:
        """``location`` without the parts that the file does not have."""
        kept: list[str | int] = []
        node: Any = self.data
        for part in location:
            if _has(node, part):
                kept.append(part)
                node = node[part]
        return tuple(kept)

    def locations(self) -> Iterator[Location]:
        """Every location in the file, outer before inner."""
        yield from _walk(self.data, ())


def read_document(path: Path, kind: Kind) -> Document:
    """Read a YAML file.

    Args:
        path: of the file.
        kind: what it is for.

    Raises:
        PortkitError: of the kind: the file is missing, unreadable or empty, not YAML, has a
            key twice, is nested too deeply, or is no mapping; the place names the line.
    """
    name = display_name(path)
    if not _is_utf8(str(path.absolute())):
        raise kind.error(
            "has a path that no text can hold in this locale's encoding",
            place=ascii(name),
            remedy="rename its folder or the file, or use a UTF-8 locale",
        )
    data = _parse(_text(path, name, kind), name, kind)
    if data is None:
        raise kind.error("the file is empty", place=name, remedy=f"write at least {kind.begin}")
    if not isinstance(data, CommentedMap):
        raise kind.error("the top level must be a mapping", place=f"{name}:1", remedy=f"begin with {kind.begin}")
    return Document(name, data)


def dotted(location: Sequence[Any]) -> str:
    """``("targets", 3)`` as ``targets[3]``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{_readable(part)}" for part in location)
    return text.removeprefix(".")


def _readable(key: Any) -> str:
    text = str(key)
    return text if text.isprintable() else ascii(text)


def display_name(path: Path) -> str:
    """The path as messages show it: short where it is below the current folder."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _is_utf8(path: str) -> bool:
    return "\0" not in path and path.encode(errors="replace").decode() == path


def _text(path: Path, name: str, kind: Kind) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        how = f": {kind.command}" if kind.command else ""
        raise kind.error(f"no such {kind.name}", place=name, remedy=f"name another, or write one{how}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise kind.error(f"can't be read: {reason}", place=name, remedy="name a readable file") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise kind.error("is not UTF-8", place=f"{name}:{line}", remedy="save the file as UTF-8") from None


def _parse(text: str, name: str, kind: Kind) -> Any:
    try:
        if (line := _too_deep(text)) is not None:
            raise kind.error(
                f"is nested more than {DEEPEST} deep", place=f"{name}:{line}", remedy="check brackets and indentation"
            )
        return YAML(typ="rt").load(text)
    except PortkitError:
        raise
    except DuplicateKeyError as error:
        key = str(error.problem).split('"')[1]
        raise kind.error(
            f"key {key!r} is there twice", place=_marked(error, name), remedy="merge the two, or remove one"
        ) from None
    except MarkedYAMLError as error:
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise kind.error(
            f"is not YAML: {problem}", place=_marked(error, name), remedy="check indentation, brackets and quotes"
        ) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise kind.error(
            f"is not YAML: {error.reason}", place=f"{name}:{line}", remedy="remove the control character"
        ) from None
    except ValueError as error:
        raise _unreadable_value(text, name, kind, error) from None
    except Exception as error:  # the parser stumbles over wrong tags and deep nesting in ways of its own
        raise kind.error(
            f"is not YAML: {type(error).__name__}", place=name, remedy="check tags, indentation, brackets and quotes"
        ) from None


def _unreadable_value(text: str, name: str, kind: Kind, error: ValueError) -> PortkitError:
    """Of a date that is in no calendar: the parser makes dates of what looks like one, and names no line."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in _DATE.findall(line):
            try:
                datetime.date(*map(int, found))
            except ValueError as wrong:
                date = "-".join(found)
                return kind.error(f"{date} is no date: {wrong}", place=f"{name}:{number}", remedy="write 2026-09-24")
    remedy = "check tags, indentation, brackets and quotes"
    return kind.error(f"is not YAML: {error}", place=name, remedy=remedy)


_DATE: Final = re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b")


def _too_deep(text: str) -> int | None:
    """The line where the nesting passes the limit."""
    depth = 0
    for event in YAML(typ="rt").parse(text):
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > DEEPEST:
            return int(event.start_mark.line) + 1
    return None


def _marked(error: MarkedYAMLError, name: str) -> str:
    mark = error.problem_mark or error.context_mark
    return f"{name}:{mark.line + 1}" if mark is not None else name


def _has(node: Any, part: Any) -> bool:
    if isinstance(node, CommentedMap):
        return part in node
    return isinstance(node, CommentedSeq) and type(part) is int and part < len(node)


def _line_of(node: Any, part: Any) -> int | None:
    if not _has(node, part):
        return None
    try:
        line, _ = node.lc.key(part) if isinstance(node, CommentedMap) else node.lc.item(part)
    except (KeyError, TypeError, AttributeError):  # came through a merge key: no position of its own
        line = node.lc.line
    return int(line) + 1


def _walk(node: Any, location: Location) -> Iterator[Location]:
    if isinstance(node, CommentedMap):
        parts: Sequence[Any] = list(node)
    elif isinstance(node, CommentedSeq):
        parts = range(len(node))
    else:
        return
    for part in parts:
        yield (*location, part)
        yield from _walk(node[part], (*location, part))
