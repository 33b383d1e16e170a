"""What fusion saves of a pass, as text or JSON; computes nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tabulate import tabulate

from portkit.analysis.estimate import Estimate
from portkit.analysis.savings import Line, Missing, Money, Savings
from portkit.plan.prices import Price
from portkit.plan.workloads import Declaration

UNKNOWN: Final = "–"

HEAD: Final = ("kernel", "shape", "calls", "variant", "{} ms", "fused ms", "saved ms", "launches saved", "GB saved")


def text(found: Sequence[Savings], missing_file: str | None) -> str:
    """All that was found, a section a workload and target.

    Args:
        found: the savings.
        missing_file: matrix of the missing cells that was written; None: it was not asked for.
    """
    parts = ["\n".join(_section(each)) for each in found]
    if any(each.missing for each in found):
        parts.append("\n".join(_how_to_measure(found, missing_file)))
    return "\n\n".join(parts)


def listed(declarations: Mapping[str, Declaration]) -> str:
    """The workloads that are known, with their parameters."""
    rows = [
        [name, each.entry.title, ", ".join(f"{k}={v}" for k, v in each.entry.parameters.items())]
        for name, each in declarations.items()
    ]
    return tabulate(rows, headers=["workload", "what it is", "parameters (--set)"], tablefmt="plain")


def as_json(found: Sequence[Savings]) -> str:
    """All figures; times in ms of one pass, money in US dollars."""
    return json.dumps([_plain(each) for each in found], indent=2, default=str)


def _section(found: Savings) -> Iterator[str]:
    kernels = len(found.workload.uses)
    place = found.target + (f" {found.partition}" if found.partition else "")
    yield f"{found.workload.name} on {place}: {len(found.lines)} of {kernels} kernels of a pass are measured"
    yield f"{found.workload.title}; {', '.join(f'{k} {v}' for k, v in found.workload.parameters.items())}"
    yield f"One pass is {found.workload.tokens:,} tokens. Medians on device events, caches flushed, 95 % intervals."
    if found.lines:
        yield ""
        yield _table(found)
        yield ""
        yield from _totals(found)
    yield from _money(found)
    yield from _floor(found)


def _table(found: Savings) -> str:
    head = [name.format(found.baseline) for name in HEAD]
    return tabulate(
        [*(_row(line) for line in found.lines), _sum_row(found)],
        headers=[*head, "bound by"],
        tablefmt="plain",
        disable_numparse=True,
        colalign=("left", "left", "right", "left", *["right"] * 5, "left"),
    )


def _row(line: Line) -> Sequence[str]:
    times = [interval(each) for each in (line.unfused_ms, line.fused_ms, line.saved_ms)]
    name = f"{line.use.case} ({line.use.role})" if line.use.role else line.use.case
    figures = [*times, _count(line.launches_saved), _gigabytes(line.bytes_saved), line.bound or UNKNOWN]
    return [name, line.use.shape_text, str(line.use.count), line.variant, *figures]


def _sum_row(found: Savings) -> Sequence[str]:
    times = [interval(each) for each in (found.unfused_ms, found.fused_ms, found.saved_ms)]
    calls = str(sum(line.use.count for line in found.lines))
    return ["all of these", "", calls, "", *times, _count(found.launches_saved), _gigabytes(found.bytes_saved), ""]


def _totals(found: Savings) -> Iterator[str]:
    requests = 1e6 * found.workload.request_tokens
    whole = "The pass" if not found.missing else "These kernels alone, here and below"
    yield f"{whole}: {interval(found.speedup)} times as fast."
    yield f"GPU-hours per billion tokens: {_change(found, 1e9)}"
    yield f"GPU-hours per million requests of {found.workload.request_tokens:,} tokens: {_change(found, requests)}"
    if found.launch_us is not None and found.launches_saved is not None:
        taxed = found.launch_us * found.launches_saved / 1e3
        yield (
            f"Launches saved cost the host {taxed:.3g} ms a pass, at {found.launch_us:.3g} µs each as measured there "
            "of a Triton kernel: no part of the times above."
        )


def _change(found: Savings, tokens: float) -> str:
    before, after, saved = (found.hours(x, tokens) for x in (found.unfused_ms, found.fused_ms, found.saved_ms))
    return f"{interval(before)} to {interval(after)}, saved {interval(saved)}"


def _money(found: Savings) -> Iterator[str]:
    if found.money is None:
        yield f"No money: {found.no_money}."
        return
    money, price = found.money, found.money.price
    before, after, saved = (
        interval(x) for x in (money.unfused_per_million, money.fused_per_million, money.saved_per_million)
    )
    yield f"US dollars per million tokens: {before} to {after}, saved {saved}"
    unfused, fused = _dollars(money.unfused_bill), _dollars(money.fused_bill)
    job = f"a job of {money.job_tokens:,} tokens on one GPU"
    if money.whole:
        yield f"The bill of {job}: {unfused} with {found.baseline}, {fused} fused."
    else:
        yield (
            f"Of the bill of {job}, the part of these kernels alone: {unfused} with {found.baseline}, {fused} fused; "
            "what the rest costs, and so how much is billed, is not known."
        )
    yield f"Price: ${price.usd_per_hour:.2f} an hour ({price.source}, {price.date}); {_billing(price)}."


def _dollars(each: Estimate) -> str:
    return f"${each.value:,.2f} [{each.low:,.2f}, {each.high:,.2f}]"


def _billing(price: Price) -> str:
    step, least = price.granularity_seconds, price.minimum_seconds
    return ", ".join(
        [
            f"billed in steps of {step} s" if step else "the billing step is not known, so nothing is rounded",
            "no minimum is known" if least is None else f"{least} s at least",
        ]
    )


def _floor(found: Savings) -> Iterator[str]:
    if found.lines:
        yield _floor_of(found)
    if capped := [line.use.case for line in found.lines if line.capped]:
        yield f"Timed at the device's limit of power, as such kernels run: {_names(capped)}."
    if found.unplaced:
        yield f"Nobody knows what bounds {_names(line.use.case for line in found.unplaced)}."
    if found.missing:
        yield "Not measured there, and in no figure above: a whole pass takes and costs more."
        yield tabulate([_missing(each) for each in found.missing], tablefmt="plain", disable_numparse=True)
    if found.workload.leaves_out:
        yield f"No kernel stands for: {found.workload.leaves_out}."


def _floor_of(found: Savings) -> str:
    share = found.compute_ms.value / found.fused_ms.value
    bound = f"{interval(found.compute_ms)} ms of the fused time ({share:.0%}) are bound by compute and stay"
    if not found.missing:
        return f"Floor: {bound}."
    kernels = f"{len(found.missing)} of {len(found.workload.uses)} kernels"
    return f"Floor: not known, since {kernels} are not measured; of those that are, {bound}."


def _missing(each: Missing) -> Sequence[str]:
    use = each.use
    return ["", use.case, use.shape_text, use.dtype, f"{use.count} calls", use.role, each.reason]


def _names(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _how_to_measure(found: Sequence[Savings], missing_file: str | None) -> Iterator[str]:
    targets = ",".join(dict.fromkeys(each.target for each in found if each.missing))
    if missing_file is None:
        yield "--missing missing.yaml writes a matrix of what is not measured. On a host with that GPU, in its folder:"
    else:
        yield f"{missing_file} has what is not measured. On a host with that GPU:"
    yield f"  pytest --benchmark {missing_file or 'missing.yaml'} --portkit-target {targets}"


def matrix(found: Sequence[Savings]) -> str:
    """A matrix of the missing cells, for pytest; kernel files are looked for in ``kernels/`` beside it."""
    cells: dict[str, dict[str, list[str]]] = {}
    for use in dict.fromkeys(missing.use for each in found for missing in each.missing):
        axes = cells.setdefault(use.case, {"shapes": [], "dtypes": [], "directions": []})
        for axis, value in (("shapes", use.shape_text), ("dtypes", use.dtype), ("directions", use.direction.value)):
            if value not in axes[axis]:
                axes[axis].append(value)
    kernels = [
        f"  {case}: {{{', '.join(f'{axis}: [{_joined(values)}]' for axis, values in axes.items())}}}"
        for case, axes in cells.items()
    ]
    targets = _names(each.target for each in found if each.missing)
    return "\n".join(["version: 1", "kernels:", *kernels, f"targets: [{targets}]", ""])


def _joined(values: Iterable[str]) -> str:
    return ", ".join(values)


def interval(each: Estimate) -> str:
    """A figure with its interval, to four digits of the figure.

    >>> interval(Estimate(12.3456, 12.3, 12.4))
    '12.35 [12.30, 12.40]'
    >>> interval(Estimate(0, 0, 0))
    '0'
    """
    if not each.value:
        return "0"
    digits = max(0, 3 - _magnitude(abs(each.value)))
    return f"{each.value:.{digits}f} [{each.low:.{digits}f}, {each.high:.{digits}f}]"


def _magnitude(value: float) -> int:
    return int(f"{value:e}".split("e")[1])


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _gigabytes(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value / 1e9:.2f}"


def _plain(found: Savings) -> Mapping[str, Any]:
    names = ("unfused_ms", "fused_ms", "saved_ms", "launches_saved", "bytes_saved", "compute_ms")
    hours = {
        name: {"unfused": found.hours(found.unfused_ms, n), "fused": found.hours(found.fused_ms, n)}
        for name, n in (
            ("gpu_hours_per_billion_tokens", 1e9),
            ("gpu_hours_per_million_requests", 1e6 * found.workload.request_tokens),
        )
    }
    known: Mapping[str, Any] = {name: getattr(found, name) for name in names} if found.lines else {}
    return {
        **_data(found),
        **{name: _data(value) for name, value in known.items()},
        **({"speedup": _data(found.speedup), **_data(hours)} if found.lines else {}),
        "money": _of_money(found.money),
    }


def _of_money(money: Money | None) -> Any:
    if money is None:
        return None
    return {**_data(money), "saved_per_million": _data(money.saved_per_million)}


def _data(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _data(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _data(each) for key, each in value.items()}
    return [_data(each) for each in value] if isinstance(value, tuple | list) else value
