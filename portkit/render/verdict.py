"""How many kernels carry over, in a line or two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from portkit.analysis.views.kernels import KernelSummary, of_standing, where_tried
from portkit.analysis.views.standing import Standing

_TOLD: Final[Mapping[Standing, tuple[str, str]]] = {
    Standing.BAD: ("does not carry over", "do not carry over"),
    Standing.NO_VERDICT: ("has no verdict", "have no verdict"),
}
"""Standing → what is said of one kernel, and of several."""


def verdict(summaries: Sequence[KernelSummary], form: Callable[[str], str] = str) -> Iterator[tuple[Standing, str]]:
    """What is said of all kernels, and what it stands for: first those that are bad, then those nothing is known of.

    Args:
        summaries: of all kernels.
        form: how a name is written where it is said.
    """
    if not summaries:
        yield Standing.EXCLUDED, "no rows"
    told = {kind: of_standing(summaries, kind) for kind in _TOLD}
    for kind, found in told.items():
        if found:
            what = _TOLD[kind][len(found) > 1]
            yield kind, f"{len(found)} of {len(summaries)} kernels {what}: {_named(found, form)}"
    if summaries and not any(told.values()):
        what = f"{form(summaries[0].page)} is" if len(summaries) == 1 else f"All {len(summaries)} kernels are"
        yield Standing.GOOD, f"{what} good {where_tried(summaries)}."


def _named(kernels: Mapping[str, int], form: Callable[[str], str]) -> str:
    return "; ".join(f"{form(page)} ({count} target{'s' * (count > 1)})" for page, count in kernels.items())
