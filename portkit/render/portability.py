"""Efficiency, portability, tuning and ratios to a reference target, a line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from portkit.analysis.autotune import Transfer, Tuning
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
    shares = "; ".join(_share(each) for each in found.shares)
    return f"{what} ({found.clock}): {', '.join(known)}{more}; {shares}"


def _efficiency(found: Efficiency) -> str:
    if found.time_ms is None:
        return f"{found.target} 0 (does not run)"
    best = "" if found.efficiency == 1 else f" of {found.best}"
    return f"{found.target} {found.efficiency:.2f}{best}"


def _share(found: Share) -> str:
    return f"PP {found.portability:.2f} over {found.over} ({', '.join(found.targets)})"


def _tuning(tuning: Tuning) -> Iterator[str]:
    what = _operation(tuning.kernel, tuning.direction, tuning.shape, tuning.dtype)
    yield f"{what} ({tuning.clock}): fastest {_pairs(tuning.winners.items())}"
    yield f"{what}: {'; '.join(_transfer(each) for each in tuning.transfers)}"
    if tuning.best:
        costs = ", ".join(f"{cost:.2f} × on {target}" for target, cost in tuning.best.costs.items())
        yield f"{what}: best single variant {tuning.best.variant}, PP {tuning.best.portability:.2f}, costs {costs}"
    else:
        yield f"{what}: no variant ran on all of these targets"


def _pairs(winners: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{variant} on {target}" for target, variant in winners)


def _transfer(each: Transfer) -> str:
    cost = f"costs {each.penalty:.2f} ×" if each.penalty is not None else f"has no time ({each.reason})"
    return f"{each.of}'s {each.variant} on {each.on} {cost}"


def _ratio(found: Ratio) -> str:
    what = _operation(found.kernel, found.direction, found.shape, found.dtype, found.variant)
    speed = f"{found.speed:.2f} × the speed of {found.reference}" if found.speed is not None else "speed unknown"
    gain = f"{found.speedup:.2f} × its speedup over eager" if found.speedup is not None else f"{found.reason}"
    return f"{what} on {found.target} ({found.clock}): {speed}, {gain}"


def _operation(kernel: str, direction: Direction, shape: tuple[int, ...], dtype: str, variant: str = "") -> str:
    backward = direction.value if direction is Direction.BACKWARD else ""
    return " ".join(part for part in (kernel, "x".join(map(str, shape)), dtype, variant, backward) if part)
