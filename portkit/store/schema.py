"""The layout of a report's lines, and its version.

A report is JSON lines. Each line is one object: ``kind`` (``header``, ``record``,
``resume``, ``counters``, ``device`` or ``end``), the fields of the value of that name in
:mod:`portkit.model` (``DeviceProbe`` for ``device``), and ``sum``.

A field at its default (null, an empty list, False) is left out, so that a line holds what is
known; a default that changes is a new version, with an upgrade that writes the old one out.

``sum`` is the first 12 hexadecimal digits of sha256 over the kind, a space and the
canonical JSON of the other fields: keys sorted, no spaces. It finds damage and edits by
hand; canonical text rather than the bytes, so that a tool which only reorders keys does
no harm, and sha256 since every other key of a record is one already. It is no signature.

The version counts layouts, apart from the package's version. A newer one is refused by
name; an older one goes through one function per version, in :mod:`portkit.store.upgrades`.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from portkit.errors import ReportError
from portkit.model import SCHEMA_VERSION, Counters, DeviceProbe, End, Header, Record, Resume
from portkit.store.figures import impossible
from portkit.store.upgrades import UPGRADES, Body

Value = Header | Record | Resume | Counters | DeviceProbe | End

KINDS: Final[Mapping[str, type[Value]]] = {
    "header": Header,
    "record": Record,
    "resume": Resume,
    "counters": Counters,
    "device": DeviceProbe,
    "end": End,
}

_SUM_DIGITS = 12

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_LINE_ENDS = re.compile(r"\r\n?|[\u2028\u2029]")
_UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

_Kept = TypeVar("_Kept", bound=Value)


def plain(value: Any) -> Any:
    """The value as JSON gives it back: dataclasses and mappings as dicts, tuples as lists.

    Raises:
        ReportError: JSON has no such value: an odd key of a mapping, a circle, too deep, too long a number.
    """
    return _plain_value(value, _plain)


def _plain_value(value: Any, form: Callable[[Any], Any]) -> Any:
    try:
        return json.loads(json.dumps(value, default=form))
    except (TypeError, ValueError, RecursionError) as error:
        raise ReportError(f"can't be stored: {error}", remedy="use plain numbers, texts, lists and mappings") from error


def clean(text: str) -> str:
    r"""A text that any program can show: no escape sequences, control or direction characters, lone surrogates.

    >>> clean("\x1b[31mred\x1b[0m, \x07bell, \udcff")
    'red, ?bell, ?'
    """
    return _UNFIT.sub("?", _LINE_ENDS.sub("\n", _ESCAPES.sub("", text)))


def storable(value: _Kept) -> _Kept:
    """The value as a reader will get it: the same, but for texts that :func:`clean` changes.

    Raises:
        ReportError: a field has not the type that the model says.
    """
    fields = plain(value)
    cleaned = _cleaned(fields)
    if cleaned == fields:
        return value
    kind = _kind_of(value)
    kept = _validate(kind, _canonical(cleaned), f"{kind} not written")
    assert isinstance(kept, type(value))
    return kept


def encode(value: Value) -> bytes:
    """One line of a report, newline included. Non-finite numbers are ``NaN`` and ``Infinity``.

    Raises:
        ReportError: a field has not the type that the model says, so no reader would take it.
    """
    kind = _kind_of(value)
    fields = _cleaned(_plain_value(value, _sparse))
    text = _canonical(fields)
    _validate(kind, text, f"{kind} not written")
    return _line(kind, text)


def sealed(kind: str, fields: Body) -> bytes:
    """The line of fields that were judged before: those of a line that :func:`encode` wrote, a value changed."""
    return _line(kind, _canonical(fields))


def _line(kind: str, text: str) -> bytes:
    return f'{{"kind":"{kind}",{text[1:-1]},"sum":"{_checksum(kind, text)}"}}\n'.encode()


def read(line: bytes, version: int, place: str) -> tuple[Value, str]:
    """The value of a line and its checksum.

    A line as :func:`encode` writes it has the canonical JSON in it, so that the checksum is one of
    its bytes; any other is parsed and put in canonical order first.

    Args:
        line: of a report, its end included or not.
        version: schema version of the report.
        place: file and line, for errors.

    Raises:
        ReportError: as :func:`parse` and :func:`decode`.
    """
    written = _WRITTEN.fullmatch(line) if version == SCHEMA_VERSION else None
    if written and written[1].decode() in KINDS:
        kind, text, checksum = written[1].decode(), f"{{{written[2].decode(errors='replace')}}}", written[3].decode()
        if checksum == _checksum(kind, text):
            return _validate(kind, _shown(text), place), checksum
    kind, body = parse(line, place)
    return decode(kind, body, version, place), body["sum"]


_WRITTEN = re.compile(rb'\{"kind":"([a-z]+)",(.*),"sum":"([0-9a-f]{12})"\}\s*', re.DOTALL)


def parse(line: bytes, place: str) -> tuple[str, Body]:
    """Kind and raw fields of a line, without judging them.

    Raises:
        ReportError: the line is no JSON object with a known kind.
    """
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"not a line of a report: {error}", place=place, remedy=_remedy(line)) from None
    if not isinstance(body, dict) or body.get("kind") not in tuple(KINDS):  # whatever type it has
        raise ReportError(
            f"not a line of a portkit report: it has none of the kinds {', '.join(KINDS)}",
            place=place,
            remedy="name a report that `pytest --benchmark` wrote",
        )
    return body["kind"], body


def _remedy(line: bytes) -> str:
    """What helps where a line is no JSON: one that does not begin like it was never a report's."""
    return _REMEDY_DAMAGED if line.lstrip()[:1] == b"{" else "name a report that `pytest --benchmark` wrote: *.jsonl"


def check_version(header: Body, place: str) -> int:
    """Schema version that a header states.

    Raises:
        ReportError: it states none, or one that this portkit can't read.
    """
    found = header.get("schema")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise ReportError(f"the header states no schema version: {found!r}", place=place, remedy=_REMEDY_DAMAGED)
    if found > SCHEMA_VERSION:
        raise ReportError(
            f"schema {found} found, this portkit reads up to {SCHEMA_VERSION}", place=place, remedy="upgrade portkit"
        )
    return found


def decode(kind: str, body: Body, version: int, place: str) -> Value:
    """The value of a parsed line: checksum, then upgrades, then the fields' types.

    Args:
        kind: kind of the line, of :data:`KINDS`.
        body: its fields, ``kind`` and ``sum`` among them.
        version: schema version of the report.
        place: file and line, for errors.

    Raises:
        ReportError: checksum, a field's name or its type is wrong; the place names the field.
    """
    fields = {name: value for name, value in body.items() if name not in ("kind", "sum")}
    try:
        text = _canonical(fields)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"not a line of a report: {error}", place=place, remedy=_REMEDY_DAMAGED) from None
    if body.get("sum") != _checksum(kind, text):
        raise ReportError("the checksum is wrong: the line was edited or damaged", place=place, remedy=_REMEDY_DAMAGED)
    if version != SCHEMA_VERSION:
        text = _canonical(upgrade(kind, fields, version))
    return _validate(kind, _shown(text), place)


def upgrade(kind: str, body: Body, version: int) -> Body:
    """Fields of an older version, brought to the present one."""
    for step in range(version, SCHEMA_VERSION):
        body = UPGRADES[step](kind, body)
        if "schema" in body:
            body = body | {"schema": step + 1}
    return body


_REMEDY_DAMAGED = "take the report from its host again, or run it again; reports are not to be edited"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(value, key=str) if isinstance(value, set | frozenset) else str(value)


def _sparse(value: Any) -> Any:
    """As :func:`_plain`, but of a dataclass only what differs from its defaults, and the schema version."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return _plain(value)
    fields = {field.name: (getattr(value, field.name), field) for field in dataclasses.fields(value)}
    return {name: given for name, (given, field) in fields.items() if name == "schema" or given != _default(field)}


def _default(field: dataclasses.Field[Any]) -> Any:
    """Default of a field; one that it must be given has a default that nothing equals."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default if field.default is not dataclasses.MISSING else object()


def _kind_of(value: Value) -> str:
    return next(name for name, type_ in KINDS.items() if isinstance(value, type_))


def _cleaned(value: Any) -> Any:
    """Plain values with every text in them clean."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _cleaned(each) for key, each in value.items()}
    return [_cleaned(each) for each in value] if isinstance(value, list) else value


def _canonical(fields: Body) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def _shown(text: str) -> str:
    """The canonical JSON with clean texts: another program may have written what no terminal should get."""
    return _canonical(_cleaned(json.loads(text))) if "\\u" in text else text


def _checksum(kind: str, text: str) -> str:
    return hashlib.sha256(f"{kind} {text}".encode()).hexdigest()[:_SUM_DIGITS]


@functools.cache
def _adapter(kind: str) -> TypeAdapter[Value]:
    return TypeAdapter(KINDS[kind])


def _validate(kind: str, text: str, place: str) -> Value:
    try:
        value = _adapter(kind).validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        raise _field_error(error, place) from None
    if isinstance(value, Header) and not _RUN_ID.fullmatch(value.run_id):
        raise ReportError(
            f"a run is not named {value.run_id[:80]!r}: letters, digits, '.', '_' and '-' make a name, 100 at most",
            place=f"{place}: run_id",
            remedy=_REMEDY_DAMAGED,
        )
    if wrong := impossible(value, text):
        field, why = wrong
        raise ReportError(f"no run can have taken this: it {why}", place=f"{place}: {field}", remedy=_REMEDY_DAMAGED)
    return value


def _field_error(error: ValidationError, place: str) -> ReportError:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    given = "" if first["type"] == "missing" else f", found {str(first['input'])[:80]!r}"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return ReportError(f"{first['msg']}{given}{more}", place=f"{place}: {field}", remedy=_REMEDY_DAMAGED)
