"""Efficiency, portability, tuning and ratios to a reference target, a line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from portkit.analysis.autotune import Tuning
from portkit.analysis.portability import Efficiency, Portability, Ratio, Share
from portkit.analysis.rows import Comparison
from portkit.model import Direction

_DEFINITION = (
    "efficiency: best known time of the operation on that target ÷ this variant's. PP: harmonic mean of the "
    "efficiencies over the stated set of measured targets, 0 where one of them is proven not to run it "
    "(Pennycook, Sewall, Lee 2016)."
)


def portability_lines(comparison: Comparison) -> list[str]:
    """Efficiency on each target and PP over each set, a line a variant; first what the words mean."""
    found = [_portability(each) for each in comparison.portability]
    return [_DEFINITION, *found] if found else []


def tuning_lines(comparison: Comparison) -> list[str]:
    """Winner of each target, what it costs on the others, and the best single variant."""
    return [text for tuning in comparison.tuning for text in _tuning(tuning)]


def ratio_lines(comparison: Comparison) -> list[str]:
    """Every row against the reference target."""
    return [_ratio(each) for each in comparison.ratios]


def _portability(found: Portability) -> str:
    what = _operation(found.kernel, found.direction, found.shape, found.dtype, found.variant)
    known = [_efficiency(each) for each in found.efficiencies if each.efficiency is not None]
    unknown = len(found.efficiencies) - len(known)
    more = f" ({unknown} more target{'s' * (unknown > 1)} without a time)" if unknown else ""
    shares = [_share(each) for each in found.shares if len(each.targets) > 1]  # of one target it is its efficiency
    efficiencies = ", ".join(known) + more
    return f"{what} ({found.clock}): {'; '.join([efficiencies, *shares])}"


def _efficiency(found: Efficiency) -> str:
    if found.time_ms is None:
        return f"{found.target} 0 (does not run)"
    best = "" if found.efficiency == 1 else f" of {found.best}"
    return f"{found.target} {found.efficiency:.2f}{best}"


def _share(found: Share) -> str:
    return f"PP {found.portability:.2f} over {found.over} ({', '.join(found.targets)})"


def _tuning(tuning: Tuning) -> Iterator[str]:
    what = _operation(tuning.kernel, tuning.direction, tuning.shape, tuning.dtype)
    yield f"{what} ({tuning.clock}): fastest {_winners(tuning)}"
    costs = [text for variant in dict.fromkeys(tuning.winners.values()) for text in _costs(variant, tuning)]
    yield f"{what}: {'; '.join(costs) or 'no winner of a target costs more than 2 % on another'}"
    if tuning.best:
        costs = [f"{cost:.2f} × on {target}" for target, cost in tuning.best.costs.items() if cost >= _TELLING]
        told = f", costs {', '.join(costs)}" if costs else ", costs less than 2 % anywhere"
        yield f"{what}: best single variant {tuning.best.variant}, PP {tuning.best.portability:.2f}{told}"
    else:
        yield f"{what}: no variant ran on all of these targets"


_TELLING: Final = 1.02
"""Cost from which on it is told; the data has all."""


def _winners(tuning: Tuning) -> str:
    variants = dict.fromkeys(tuning.winners.values())
    won = {variant: [x for x, its in tuning.winners.items() if its == variant] for variant in variants}
    return "; ".join(f"{variant} on {', '.join(targets)}" for variant, targets in won.items())


def _costs(variant: str, tuning: Tuning) -> Iterator[str]:
    """What a target's winner costs on the others, once however many targets it wins on."""
    on = {each.on: each for each in tuning.transfers if each.variant == variant}
    dear = [f"{x.penalty:.2f} × on {x.on}" for x in on.values() if x.penalty is not None and x.penalty >= _TELLING]
    if dear:
        yield f"{variant} costs {', '.join(dear)}"
    unknown: dict[str, list[str]] = {}
    for each in on.values():
        if each.penalty is None:
            unknown.setdefault(each.reason or "", []).append(each.on)
    for reason, targets in unknown.items():
        yield f"{variant} has no time on {', '.join(targets)} ({reason})"


def _ratio(found: Ratio) -> str:
    what = _operation(found.kernel, found.direction, found.shape, found.dtype, found.variant)
    speed = f"{found.speed:.2f} × the speed of {found.reference}" if found.speed is not None else "speed unknown"
    gain = f"{found.speedup:.2f} × its speedup over eager" if found.speedup is not None else f"{found.reason}"
    return f"{what} on {found.target} ({found.clock}): {speed}, {gain}"


def _operation(kernel: str, direction: Direction, shape: tuple[int, ...], dtype: str, variant: str = "") -> str:
    backward = direction.value if direction is Direction.BACKWARD else ""
    return " ".join(part for part in (kernel, "x".join(map(str, shape)), dtype, variant, backward) if part)
