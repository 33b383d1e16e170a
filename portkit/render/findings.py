"""Findings as text: what differs, why, what it costs and what to change."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from portkit.analysis.findings.rule import Finding, Rule
from portkit.analysis.findings.summary import Alike, alike, top
from portkit.model import Direction
from portkit.render.columns import escaped
from portkit.store.schema import plain

SHOWN: Final = 10
"""Findings that a comparison shows unless asked for more."""

_WIDTH: Final = 118


def findings_markdown(findings: Sequence[Finding], most: int | None, width: int | None = None) -> str:
    """One entry a finding in Markdown, those alike together; empty where there are none."""
    del width  # a page has room
    shown, more = top(alike(findings), most)
    entries = [
        f"- **{group.first.rule} {group.first.severity}: {escaped(group.first.title)}.** {escaped(_where(group))}. "
        f"{escaped(group.first.explanation)} *Remedy:* {escaped(group.first.remedy)} ({group.first.page})"
        for group in shown
    ]
    return "\n".join([*entries, *_more(more)])


def findings_plain(findings: Sequence[Finding], most: int | None, width: int | None = None) -> str:
    """The same for a terminal of some width."""
    shown, more = top(alike(findings), most)
    return "\n".join([*(_entry(group, width) for group in shown), *_more(more)])


def findings_json(findings: Sequence[Finding], most: int | None, width: int | None = None) -> str:
    """Every finding with all its fields, however many are shown elsewhere."""
    del most, width
    return json.dumps(plain(list(findings)), indent=1, allow_nan=False)


LAYOUTS: Final[Mapping[str, Callable[[Sequence[Finding], int | None, int | None], str]]] = {
    "github": findings_markdown,
    "json": findings_json,
    "plain": findings_plain,
}


def explained(rule: Rule, width: int | None = None) -> str:
    """What ``portkit explain`` says of a rule."""
    parts = {
        "Why": rule.cause,
        "Cost": rule.cost,
        "Remedy": rule.remedy,
        "Rests on": f"{rule.evidence}.",
        "Page": rule.page,
    }
    head = f"{rule.id}  {rule.title}  ({rule.severity})"
    return "\n\n".join([head, *(_wrapped(f"{name}: {text}", width) for name, text in parts.items())])


def _entry(group: Alike, width: int | None) -> str:
    first = group.first
    head = f"{first.rule} {first.severity}: {first.title}. {_where(group)}."
    told = (first.explanation, f"Remedy: {first.remedy}")
    return "\n".join([_wrapped(head, width), *(_wrapped(text, width, "    ") for text in told)])


def _where(group: Alike) -> str:
    first = group.first
    kernel = first.kernel + (" backward" if first.direction is Direction.BACKWARD else "")
    others = f" and {group.others} more" if group.others else ""
    parts = ["x".join(map(str, first.shape)), first.dtype, first.variant or "all variants"]  # a script has no shape
    return f"{kernel} ({' '.join(part for part in parts if part)}{others})"


def _more(count: int) -> Iterator[str]:
    if count:
        yield f"… and {count} more: --findings all"


def _wrapped(text: str, width: int | None, indent: str = "") -> str:
    most = min(width or _WIDTH, _WIDTH)
    return textwrap.fill(text, most, initial_indent=indent, subsequent_indent=indent or "    ", break_long_words=False)
