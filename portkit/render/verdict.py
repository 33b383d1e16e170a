"""How many kernels carry over, in a line or two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from portkit.analysis.views.kernels import Carry, KernelSummary, where_tried
from portkit.analysis.views.standing import Standing
from portkit.model import INTERPRETER

_FAILING: Final[Mapping[Carry, tuple[str, str]]] = {
    Carry.NOWHERE: ("fails on every target tried", "fail on every target tried"),
    Carry.NO: ("does not carry over", "do not carry over"),
    Carry.INTERPRETER: ("fails in the interpreter", "fail in the interpreter"),
}
"""How far a failure reaches → what is said of one kernel, and of several."""

_ASIDE: Final = (None, Carry.INTERPRETER)
"""How a kernel may fail whose targets without a verdict are told all the same."""

_NO_VERDICT: Final = ("has no verdict", "have no verdict")


def verdict(summaries: Sequence[KernelSummary], form: Callable[[str], str] = str) -> Iterator[tuple[Standing, str]]:
    """What is said of all kernels, and what it stands for: first those that are bad, then those nothing is known of.

    Args:
        summaries: of all kernels.
        form: how a name is written where it is said.
    """
    if not summaries:
        yield Standing.EXCLUDED, "no rows"
    for kind, words in _FAILING.items():
        found = {each.page: each.failed_on for each in summaries if each.failing is kind}
        yield from _told(Standing.BAD, words, found, len(summaries), form)
    unsure = {each.page: each.unsure for each in summaries if each.unsure and each.failing in _ASIDE}
    yield from _told(Standing.NO_VERDICT, _NO_VERDICT, unsure, len(summaries), form)
    if summaries and not unsure and not any(each.failing for each in summaries):
        what = f"{form(summaries[0].page)} is" if len(summaries) == 1 else f"All {len(summaries)} kernels are"
        yield Standing.GOOD, f"{what} good {where_tried(summaries)}."


def _told(
    kind: Standing,
    words: tuple[str, str],
    found: Mapping[str, Sequence[str]],
    of: int,
    form: Callable[[str], str],
) -> Iterator[tuple[Standing, str]]:
    if found:
        named = "; ".join(f"{form(page)}{_where(places)}" for page, places in found.items())
        yield kind, f"{len(found)} of {of} kernel{'s' * (of > 1)} {words[len(found) > 1]}: {named}"


def _where(places: Sequence[str]) -> str:
    """On how many targets, the interpreter apart: it is none."""
    targets = len(set(places) - {INTERPRETER})
    parts = [f"{targets} target{'s' * (targets > 1)}"] if targets else []
    parts += ["interpreter"] if INTERPRETER in places else []
    return f" ({', '.join(parts)})"
