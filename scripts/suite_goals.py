#!/usr/bin/env python3
"""The kernel suite beside its goals for an H200: one table, from a report or from a run of its own.

    .venv/bin/python scripts/suite_goals.py [REPORT...] [--check] [-o FILE]
    .venv/bin/python scripts/suite_goals.py [--quick] [-k EXPRESSION] [--folder DIR] [--check] [-o FILE] [-- OPTIONS]

Without a REPORT it runs ``goals.yaml`` by ``pytest --benchmark``, in three runs, so that one that is cut short has a
figure for most lines: forward beside torch.compile in its default mode and in max-autotune; beside the default mode
alone what is backward, or of ``LATER``; and backward beside both. --quick is all beside the default mode alone.
Each record is written as soon as its cell is done, and a run that is interrupted gives its table, too; with --folder
it goes on with what is there.

Times are medians on device events, caches flushed, functions interleaved. A share is the fewest bytes of the
work model over time, over the copy bandwidth that the same run measured; TFLOP/s are the work model's
operations over time. Of several variants of a case the fastest that passed counts, among those beside which
most of torch.compile's modes were timed. The goals hold in bfloat16 but for sum_abs, which is in float32.
Where the median falls short and the 95 % interval holds what is asked for, that is neither met nor missed: it is
said, with the interval. With --check the exit code is 1 where a goal is missed or nothing is known of it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from bounded import split, until
from given import reports
from tabulate import tabulate
from told import output, told

from portkit.model import DeviceProbe, Direction, Evidence, Record, Status
from portkit.store.journal import Report, read_report

ROOT = Path(__file__).parents[1]
MATRIX = ROOT / "goals.yaml"
QUICK, FULL = "quick", "full"  # tiers
LATER = (
    *("gemm_traffic", "qkv_projection", "linear_cross_entropy", "grouped_gemm"),
    *("flash_attention", "flash_attention_full", "fused_moe_gate", "decode_attention"),
)
"""Cases whose goals do not name torch.compile, or that it is far from: its search would take 150 s for them."""
COMPILED = ("compile", "compile_max_autotune")
UNKNOWN = "–"
FORWARD, BACKWARD = Direction.FORWARD, Direction.BACKWARD
Shape = tuple[int, ...]


class Measured:
    """What the reports hold of one case in one direction and shape.

    Args:
        record: measured and passed.
        copy_gbs: copy bandwidth of their device in the same run; None where it is unknown.
        added_us: what events add there to the time of a kernel; None where it is unknown.
    """

    def __init__(self, record: Record, copy_gbs: float | None, added_us: float | None = None) -> None:
        self.record = record
        self.copy_gbs = copy_gbs
        self.added_us = added_us
        self.ms = {"fused": self.record.timing.fused.events.median_ms}
        self.ms |= {name: timed.events.median_ms for name, timed in self.record.timing.baselines.items()}

    def share(self, function: str = "fused") -> float | None:
        """Fewest bytes over time, over the copy bandwidth."""
        if self.copy_gbs is None or self.record.work is None or function not in self.ms:
            return None
        return self.record.work.fused_bytes / self.ms[function] / 1e6 / self.copy_gbs

    def share_left(self) -> float | None:
        """The share of a kernel that moves the fewest bytes at the copy bandwidth, by what events add to its time."""
        if self.copy_gbs is None or self.added_us is None or self.record.work is None:
            return None
        copied_us = self.record.work.fused_bytes / self.copy_gbs / 1e3
        return copied_us / (copied_us + self.added_us)

    def tflops(self, function: str = "fused") -> float | None:
        """Operations over time."""
        if self.record.work is None or function not in self.ms:
            return None
        return self.record.work.flops / self.ms[function] / 1e9

    def fastest(self, names: Sequence[str]) -> str | None:
        """Of these baselines the one with the least time; None where none was timed."""
        timed = [name for name in names if name in self.ms]
        return min(timed, key=self.ms.__getitem__) if timed else None

    def interval(self, name: str) -> tuple[float, float] | None:
        """95 % interval of how many times as fast as a baseline it is; None where the report has none."""
        ratio = self.record.timing.speedup.get(name)
        return None if ratio is None or ratio.low is None or ratio.high is None else (ratio.low, ratio.high)


Suite = dict[tuple[str, Direction, Shape], Measured]


class Verdict(StrEnum):
    """What became of a condition or of a goal, the worst last."""

    MET = "met"
    WITHIN = "within the interval"
    UNKNOWN = "unknown"
    MISSED = "missed"


@dataclass(frozen=True)
class Attained:
    """What is attained of a condition: at the medians, and the 95 % interval where one is known."""

    value: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Condition:
    """One thing that a goal asks for: words, what is attained of it, None where that is unknown, and what is enough."""

    words: str
    attained: Callable[[Measured, Suite], Attained | None]
    enough: Callable[[float], bool]
    shown: str  # format of what is attained

    def verdict(self, measured: Measured, suite: Suite) -> Verdict:
        """Whether enough is attained."""
        found = self.attained(measured, suite)
        if found is None:
            return Verdict.UNKNOWN
        if self.enough(round(found.value, 3)):
            return Verdict.MET
        reached = any(self.enough(round(end, 3)) for end in found.interval or ())
        return Verdict.WITHIN if reached else Verdict.MISSED

    def with_attained(self, measured: Measured, suite: Suite) -> str:
        """The words, and what is attained."""
        found = self.attained(measured, suite)
        if found is None:
            return self.words
        ends = f", {' to '.join(format(end, self.shown) for end in found.interval)}" if found.interval else ""
        return f"{self.words} ({found.value:{self.shown}}{ends})"


@dataclass(frozen=True)
class Goal:
    """What one case is to reach; ``rate`` is the figure its times are shown with."""

    case: str
    shape: Shape
    conditions: tuple[Condition, ...]
    direction: Direction = FORWARD
    rate: str = "share"


def share(least: float) -> Condition:
    """At least so much of the copy bandwidth."""

    def attained(found: Measured, _: Suite) -> Attained | None:
        value = found.share()
        return None if value is None else Attained(value)

    return Condition(f"≥ {least:.0%} of copy", attained, lambda value: value >= least, ".1%")


def _times_as_fast(found: Measured, name: str | None) -> Attained | None:
    if name is None or name not in found.ms:
        return None
    return Attained(found.ms[name] / found.ms["fused"], found.interval(name))


def ahead(*names: str, times: float = 1.0) -> Condition:
    """At least so many times as fast as the fastest of these baselines that was timed."""
    words = f"≥ {times:.2f}× {' or '.join(name for name in names if name != COMPILED[1])}"
    return Condition(words, lambda found, _: _times_as_fast(found, found.fastest(names)), lambda v: v >= times, ".3f")


def at_most(times: float, name: str, case: str) -> Condition:
    """At most so many times what a baseline of another case takes on the same shape."""

    def attained(found: Measured, suite: Suite) -> Attained | None:
        other = suite.get((case, FORWARD, tuple(found.record.cell.shape)))
        return None if other is None or name not in other.ms else Attained(found.ms["fused"] / other.ms[name])

    return Condition(f"≤ {times:.2f}× {name} of {case}", attained, lambda value: value <= times, ".3f")


def no_gain(name: str, most: float) -> Condition:
    """A control: at most so many times as fast as that baseline."""
    words = f"control: ≤ {most:.2f}× {name}"
    return Condition(words, lambda found, _: _times_as_fast(found, name), lambda value: value <= most, ".3f")


OTHERS = (*COMPILED, "liger")
LEAST_SHARE = 0.65  # that a goal asks for
REST = (share(0.92), ahead(*OTHERS))  # of every memory-bound case that has no figure of its own
PRODUCT: Shape = (8192, 14336, 4096)
SPREAD, MET, ONE = ((16384, 2048, 4096, rows) for rows in (2048, 16, 1))  # tokens that meet: 8, 1024, all

GOALS = (
    Goal("sum_abs", (268435456,), (share(0.98),)),
    Goal("add_rms_norm", (16384, 4096), (share(0.95), ahead(*OTHERS))),
    Goal("add_rms_norm", (16384, 4096), REST, BACKWARD),
    Goal("rms_norm", (16384, 4096), (share(0.93), ahead(*OTHERS))),
    Goal("rms_norm", (16384, 4096), REST, BACKWARD),
    Goal("layer_norm", (16384, 4096), (share(0.92), ahead(*OTHERS))),
    Goal("layer_norm", (16384, 4096), REST, BACKWARD),
    Goal("swiglu", (8192, 14336), (share(1.0), ahead(*OTHERS))),
    Goal("swiglu", (8192, 14336), REST, BACKWARD),
    Goal("softmax", (8192, 32768), (share(0.92), ahead(*OTHERS))),
    Goal("softmax", (8192, 32768), REST, BACKWARD),
    Goal("cross_entropy", (4096, 128256), (share(0.95), ahead(*OTHERS))),
    Goal("rope", (4, 4096, 32, 8, 128), (share(0.93), ahead(*OTHERS))),
    Goal("rope", (4, 4096, 32, 8, 128), REST, BACKWARD),
    Goal("bias_gelu_dropout", (16384, 8192), (share(0.65), ahead(*OTHERS))),
    Goal("rms_norm_fp8", (16384, 4096), REST),
    *(Goal("pointwise_chain", (depth, 67108864), REST) for depth in (2, 8, 32)),
    *(Goal("pointwise_fan_in", (depth, 16777216), REST) for depth in (2, 8, 32)),
    Goal("fused_moe_gate", (16384, 128, 8), REST),
    Goal("sampling", (64, 128256), REST),
    Goal("decode_attention", (64, 32, 8, 8192, 16, 128), REST),
    Goal("scatter_add", SPREAD, (ahead("eager"),)),
    Goal("scatter_add", MET, (ahead("eager"),)),
    Goal("scatter_add", ONE, (no_gain("eager", 1.0),)),
    Goal("gemm", PRODUCT, (ahead("eager", times=0.90), no_gain("eager", 1.05)), rate="tflops"),
    Goal("gemm_traffic", PRODUCT, (ahead("eager", times=0.90),), rate="tflops"),
    Goal("gemm_epilogue", PRODUCT, (at_most(1.12, "eager", "gemm"), ahead(*COMPILED)), rate="tflops"),
    Goal("qkv_projection", (4096, 4096, 1024, 4096), (ahead("eager", times=0.90),), rate="tflops"),
    Goal("linear_cross_entropy", (4096, 128256, 4096), (ahead("liger"),), rate="tflops"),
    Goal("grouped_gemm", (16384, 8, 14336, 4096), (ahead("torch"),), rate="tflops"),
    Goal("flash_attention", (4, 32, 32, 4096, 128), (ahead("cudnn", times=0.75), ahead("flash")), rate="tflops"),
    Goal("flash_attention_full", (4, 32, 32, 8192, 128), (ahead("cudnn", times=0.75), ahead("flash")), rate="tflops"),
    Goal("flash_attention", (4, 32, 32, 4096, 64), (ahead("cudnn", times=0.75), ahead("flash")), rate="tflops"),
)


def measured(reports: Sequence[Report]) -> Suite:
    """All that was measured and passed on an H200, by case, direction and shape."""
    found: dict[tuple[str, Direction, Shape], list[tuple[Record, DeviceProbe | None]]] = {}
    for report in sorted(reports, key=lambda each: each.header.started):
        probes = {probe.device_id: probe for probe in report.probes}
        for record in report.records:
            if _counts(record):
                place = (record.cell.case, record.cell.direction, tuple(record.cell.shape))
                found.setdefault(place, []).append((record, probes.get(record.device_id or "")))
    return {place: _best_known(rows) for place, rows in found.items()}


def _best_known(rows: Sequence[tuple[Record, DeviceProbe | None]]) -> Measured:
    """The fastest variant in the last run of the last source, of runs that time most modes of torch.compile.

    Not the fastest of all runs, which would show each kernel at its luckiest. Its shares are of the copy bandwidth of
    its own run.
    """
    last = rows[-1][0].keys.source_hash
    ours = [(record, probe) for record, probe in rows if record.keys.source_hash == last]
    most = max(_modes(record) for record, _ in ours)
    whole = [row for row in ours if _modes(row[0]) == most]
    run_id = whole[-1][0].run_id
    record, probe = min((row for row in whole if row[0].run_id == run_id), key=lambda row: _fused_ms(row[0]))
    return Measured(record, *((probe.copy_gbs, probe.event_overhead_us) if probe else (None, None)))


def _fused_ms(record: Record) -> float:
    return record.timing.fused.events.median_ms


def _modes(record: Record) -> int:
    return sum(name in record.timing.baselines for name in COMPILED)


def _counts(record: Record) -> bool:
    passed = record.evidence is Evidence.MEASURED and record.outcome.status is Status.PASSED
    dtype = "float32" if record.cell.case == "sum_abs" else "bfloat16"
    return passed and record.timing is not None and record.cell.target == "h200" and record.cell.dtype == dtype


@dataclass(frozen=True)
class Line:
    """One line of the table, and what became of its goal."""

    cells: tuple[str, ...]
    verdict: Verdict


HEAD = ("case, shape", "eager", "torch", "torch.compile", "best other", "portkit", "goal", "")


def lines(suite: Suite) -> Iterator[Line]:
    """The table, in the order of the goals."""
    for goal in GOALS:
        found = suite.get((goal.case, goal.direction, goal.shape))
        goes = " backward" if goal.direction is BACKWARD else ""
        title = f"{goal.case}{goes}, {'×'.join(map(str, goal.shape))}"
        wanted = ", ".join(condition.words for condition in goal.conditions)
        if found is None:
            yield Line((title, *[UNKNOWN] * 5, wanted, "not measured"), Verdict.UNKNOWN)
            continue
        verdict, note = _judged(goal, found, suite)
        yield Line((title, *_times(found, goal.rate), wanted, note), verdict)


def _judged(goal: Goal, found: Measured, suite: Suite) -> tuple[Verdict, str]:
    """The worst of the conditions' verdicts, and in words, with what is not met."""
    verdicts = [condition.verdict(found, suite) for condition in goal.conditions]
    worst = max(verdicts, key=list(Verdict).index)
    short = [c for c, each in zip(goal.conditions, verdicts, strict=True) if each is not Verdict.MET]
    notes = f": {', '.join(each.with_attained(found, suite) for each in short)}" if short else ""
    return worst, f"{worst}{notes}{_by_the_clock(found) if short and goal.rate == 'share' else ''}"


def _by_the_clock(found: Measured) -> str:
    """What events leave of the copy bandwidth, where that is less than any goal asks for."""
    left = found.share_left()
    return "" if left is None or left >= LEAST_SHARE else f"; the {found.added_us:.1f} µs of events leave {left:.0%}"


def _times(found: Measured, rate: str) -> tuple[str, ...]:
    compiled = found.fastest(COMPILED)
    known = ("fused", "eager", "torch", *COMPILED)
    other = found.fastest([name for name in found.ms if name not in known])
    variant = found.record.cell.variant
    return (
        _time(found, "eager", rate),
        _time(found, "torch", rate),
        _time(found, compiled, rate),
        f"{other} {_time(found, other, rate)}" if other else UNKNOWN,
        f"{_time(found, 'fused', rate)} ({variant})",
    )


def _time(found: Measured, function: str | None, rate: str) -> str:
    if function is None or function not in found.ms:
        return UNKNOWN
    text = f"{found.ms[function]:.4g}"
    if rate == "tflops":
        reached = found.tflops(function)
        return text if reached is None else f"{text}, {reached:.0f} TFLOP/s"
    reached = found.share(function)
    return text if reached is None else f"{text}, {reached:.1%}"


def rendered(reports: Sequence[Report]) -> tuple[str, bool]:
    """The table with what it was measured with, and whether no goal is missed or unknown."""
    table = list(lines(measured(reports)))
    met, within = (sum(line.verdict is verdict for line in table) for verdict in (Verdict.MET, Verdict.WITHIN))
    head = "\n".join(_source(report) for report in reports)
    body = tabulate([line.cells for line in table], headers=HEAD, tablefmt="github", disable_numparse=True)
    note = "Measured: times in ms on device events; % = fewest bytes over time, over the copy bandwidth of its run."
    total = f"{met} of {len(table)} goals are met" + (f", {within} more within the 95 % interval" if within else "")
    return f"{head}\n\n{body}\n\n{note} {total}.\n", met + within == len(table)


def _source(report: Report) -> str:
    host = report.header.host
    copies = [_copy(probe) for probe in report.probes]
    state = f" Partial: {report.partial}." if report.partial else ""
    return (
        f"{report.header.run_id}: torch {host.torch}, Triton {host.triton}, {', '.join(copies) or 'no device'}.{state}"
    )


def _copy(probe: DeviceProbe) -> str:
    return f"{probe.target}, copy bandwidth {'unknown' if probe.copy_gbs is None else f'{probe.copy_gbs:.0f} GB/s'}"


def run(folder: Path, quick: bool, chosen: str, options: Sequence[str]) -> list[Path]:
    """Run the cells of the goals, or go on with runs of them in that folder; the reports' paths.

    Raises:
        SystemExit: no run wrote a report.
    """
    for name, tier, cells in _runs(quick, chosen):
        if not _is_whole(folder / name) and not until(_command(folder / name, tier, (*cells, *options))):
            break
    found = [path for each in sorted(folder.iterdir()) if (path := _last_report(each))] if folder.exists() else []
    if not found:
        sys.exit("the run wrote no report; see its output above")
    return found


def _runs(quick: bool, chosen: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Folder, tier and choice of cells of each run."""
    later = f"({' or '.join(LATER)})"
    runs = {
        "forward": (FULL, f"not backward and not {later}"),
        "later": (QUICK, f"backward or {later}"),
        "backward": (FULL, f"backward and not {later}"),
    }
    for name, (tier, cells) in ({"quick": (QUICK, "")} if quick else runs).items():
        expression = " and ".join(f"({each})" for each in (cells, chosen) if each)
        yield name, tier, ("-k", expression) if expression else ()


def _last_report(folder: Path) -> Path | None:
    return max(folder.glob("*.jsonl"), default=None)


def _is_whole(folder: Path) -> bool:
    begun = _last_report(folder)
    return begun is not None and not read_report(begun).partial


def _command(folder: Path, tier: str, options: Sequence[str]) -> list[str]:
    begun = _last_report(folder)
    resumed = ("--portkit-resume", str(begun)) if begun and read_report(begun).partial else ()
    fixed = ("--portkit-target", "h200", "--portkit-counters", "off", "--portkit-emulate", "off")
    command = [sys.executable, "-m", "pytest", "--benchmark", "-q", "-p", "no:cacheprovider", *fixed, *resumed]
    return [
        *command,
        "--portkit-matrix",
        str(MATRIX),
        "--portkit-tier",
        tier,
        "--portkit-report",
        str(folder),
        *options,
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the table, and with -o write it to a file as well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("reports", nargs="*", type=Path, metavar="REPORT", help="reports, folders or archives of them")
    parser.add_argument("--quick", action="store_true", help="without torch.compile's max-autotune")
    parser.add_argument("-k", default="", metavar="EXPRESSION", help="only these cells, as pytest takes it")
    parser.add_argument("--folder", type=Path, help="where the report goes; one there that is not whole goes on")
    parser.add_argument("--check", action="store_true", help="exit code 1 where a goal is not met")
    parser.add_argument("-o", "--output", type=output, help="a file for the table")
    own, options = split(arguments)
    chosen = parser.parse_args(own)
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="suite-goals-"))
    paths = reports(chosen.reports) or run(folder.resolve(), chosen.quick, chosen.k, options)
    text, all_met = rendered([read_report(path) for path in paths])
    print(text, end="")
    if chosen.output:
        chosen.output.write_text(text, encoding="utf-8")
    return 1 if chosen.check and not all_met else 0


if __name__ == "__main__":
    sys.exit(told(partial(main, sys.argv[1:])))
