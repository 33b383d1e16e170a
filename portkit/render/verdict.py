"""How many kernels carry over, which do not and where, in a line or two."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from portkit.analysis.views.kernels import Carry, KernelSummary, where_tried
from portkit.model import INTERPRETER


class Tone(enum.StrEnum):
    """What a line of the verdict stands for."""

    BAD = "bad"  # kernels that do not carry over
    NO_VERDICT = "no verdict"  # nothing is known of them somewhere
    GOOD = "good"
    COST = "at a cost"  # good everywhere, and a warning says what it costs
    NOTHING = "excluded"  # no rows


_FAILING: Final[Mapping[Carry, tuple[str, str]]] = {
    Carry.NOWHERE: ("fails on every target tried", "fail on every target tried"),
    Carry.NO: ("does not carry over", "do not carry over"),
    Carry.INTERPRETER: ("fails in the interpreter", "fail in the interpreter"),
}
"""How far a failure reaches → what is said of one kernel, and of several."""

_ASIDE: Final = (None, Carry.INTERPRETER)
"""How a kernel may fail whose targets without a verdict are told all the same."""

_NO_VERDICT: Final = ("has no verdict", "have no verdict")
_AT_A_COST: Final = ("runs at a cost", "run at a cost")

NAMED: Final = 3
"""Targets that are named; more are counted."""

COSTLY: Final = 6
"""Kernels at a cost that are named."""

Form = Callable[[str], str]
"""How a name is written where it is said."""


def verdict(summaries: Sequence[KernelSummary], form: Form = str) -> Iterator[tuple[Tone, str]]:
    """What is said of all kernels, and what it stands for: first those that are bad, then those nothing is known of.

    Args:
        summaries: of all kernels.
        form: how a name is written where it is said.
    """
    if not summaries:
        yield Tone.NOTHING, "no rows"
        return
    for kind, words in _FAILING.items():
        failed = [each for each in summaries if _failing(each) is kind]
        told = [f"{form(each.page)} ({_where(each, each.failed_on, form) or _error(each, form)})" for each in failed]
        yield from _told(Tone.BAD, words, told, len(summaries))
    unsure = [each for each in summaries if each.unsure and each.failing in _ASIDE]
    told = [f"{form(each.page)} ({_where(each, each.unsure, form)})" for each in unsure]
    yield from _told(Tone.NO_VERDICT, _NO_VERDICT, told, len(summaries))
    if not unsure and not any(map(_failing, summaries)):
        what = f"{form(summaries[0].page)} is" if len(summaries) == 1 else f"All {len(summaries)} kernels are"
        yield Tone.GOOD, f"{what} good {where_tried(summaries)}."
    costly = [each for each in summaries if each.carry is Carry.AT_A_COST]
    told = [f"{form(each.page)} ({form(each.findings[0].first.title)})" for each in costly]
    yield from _told(Tone.COST, _AT_A_COST, told, len(summaries), COSTLY)


def _failing(summary: KernelSummary) -> Carry | None:
    """How far what is bad reaches; a finding that is an error is bad where no row is."""
    return summary.failing or (Carry.NO if summary.carry is Carry.NO else None)


def _error(summary: KernelSummary, form: Form) -> str:
    """The error that was found though every row is good."""
    first = summary.findings[0].first
    return f"{form(first.title)} on {_where(summary, first.targets, form)}"


def _told(
    tone: Tone, words: tuple[str, str], kernels: Sequence[str], of: int, most: int | None = None
) -> Iterator[tuple[Tone, str]]:
    """A line that names kernels; nothing where there are none."""
    if kernels:
        named = kernels[:most]
        more = f"; and {len(kernels) - len(named)} more" if len(named) < len(kernels) else ""
        several = len(kernels) > 1
        yield tone, f"{len(kernels)} of {of} kernel{'s' * (of > 1)} {words[several]}: {'; '.join(named)}{more}"


def _where(summary: KernelSummary, places: Sequence[str], form: Form) -> str:
    """Which targets of those tried, few by name; the interpreter apart, since it is none."""
    targets = [form(each) for each in places if each != INTERPRETER]
    tried = len(summary.standings.keys() - {INTERPRETER})
    counted = f"all {tried} targets" if len(targets) == tried else f"{len(targets)} of {tried} targets"
    parts = targets if len(targets) <= NAMED else [counted]
    return ", ".join([*parts, *([INTERPRETER] if INTERPRETER in places else [])])
