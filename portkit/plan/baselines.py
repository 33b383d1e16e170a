"""Which baselines a run takes: names, and the choice of tier and user."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from portkit.errors import HostError, nearest

EAGER = "eager"
"""The unfused chain, one kernel an operation."""

COMPILE = "compile"
"""``torch.compile`` of the unfused chain, with its defaults."""

MAX_AUTOTUNE = "compile_max_autotune"
"""``torch.compile`` that tries configurations on the device; minutes a cell, so in the tier ``full`` alone."""

WITHOUT_COMPILER = (EAGER, "torch")
"""Baselines that load no compiler. Libraries' modules mostly do, since they import ``torch._dynamo``."""

BUILT_IN = (EAGER, COMPILE, MAX_AUTOTUNE)
"""Baselines that every case has."""

RESERVED = (*BUILT_IN, "fused")
"""Names that a case can't give."""

OPTION = "--portkit-baselines"
NONE = "none"


def baselines_of(declared: Sequence[str], tier: str, chosen: Collection[str] | None = None) -> tuple[str, ...]:
    """Baselines of a case in the order in which they are tried and timed.

    Args:
        declared: names that the case declares.
        tier: of the run.
        chosen: by the user; None for the tier's.
    """
    names = (EAGER, *declared, COMPILE, MAX_AUTOTUNE)
    if chosen is not None:
        return tuple(name for name in names if name in chosen)
    return names if tier == "full" else names[:-1]


def may_compile(options: Iterable[str]) -> bool:
    """Whether ``["eager,torch", …]``, as given and not yet checked, names one that loads a compiler.

    Where nothing is said, there is one.
    """
    names = {name.strip() for option in options for name in option.split(",")}
    return not names or not names <= {*WITHOUT_COMPILER, NONE}


def parse_baselines(options: Iterable[str], declared: Iterable[str]) -> tuple[str, ...] | None:
    """Names of ``["eager,torch", …]``; None where nothing is said.

    Args:
        options: as given; ``none`` alone means no baseline at all.
        declared: names that any case of the matrix declares.

    Raises:
        HostError: no case has a baseline of that name.
    """
    names = [name.strip() for option in options for name in option.split(",")]
    if not names:
        return None
    if names == [NONE]:
        return ()
    if NONE in names:
        raise HostError(f"`{NONE}` goes alone", place=OPTION, remedy="drop it, or the names beside it")
    known = tuple(dict.fromkeys((*BUILT_IN, *declared)))
    for name in names:
        if name not in known:
            raise HostError(
                f"no kernel here has a baseline {name!r}", place=OPTION, remedy=nearest(name, (*known, NONE))
            )
    return tuple(dict.fromkeys(names))
