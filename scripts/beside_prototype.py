#!/usr/bin/env python3
"""Time of the emulator beside that of the prototype that it was written after, on the prototype's own kernels.

    python scripts/beside_prototype.py FOLDER [--vendor amd] [-k mm] [--large] [--csv FILE]

``FOLDER`` is the prototype: ``amdgcn/`` and ``ptx/`` with ``run2.py``, ``more.py`` and ``drv.py`` in each. It is no
part of this repository and nothing of it is kept here; without it there is nothing to compare, and the script says so.

The prototype's own scripts run once, and every launch that they make is kept: text, grid, arguments. Each launch is
then run in turns, on the same arguments, by the prototype in a process of its own, and in another one by portkit,
without its checker, which the prototype has no like of, and with it. Time is that of the processes, so what others do
counts for little, on one thread; of several rounds the fastest counts. A launch is what lies between the call and the
results in the caller's arrays. Texts are read once, by both; ``build`` compares that.

Figures are portkit's time over the prototype's: below 1 portkit is the faster.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import csv
import functools
import importlib
import io
import json
import math
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

VENDORS = {"amd": "amdgcn", "nvidia": "ptx"}
"""Vendor → folder of the prototype."""

ARCHITECTURES = {
    "amd": ("gfx942", "gfx950", "gfx1100", "gfx1201"),
    "nvidia": ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120"),
}

NEEDED = ("run2.py", "more.py", "drv.py")

FAMILIES = {
    "element by element": ("swiglu", "f64k", "f16k", "i8k", "misc"),
    "rows": ("add_rms", "softmax", "layer_norm", "quant8"),
    "matrix products": ("mm", "mm32", "mmie", "imm", "mmd"),
    "attention": ("flash",),
    "scan and sort": ("scan_sort",),
    "atomics": ("hist", "histi", "lock_sum"),
}
"""Family → kernels of the prototype."""

SIDES = ("prototype", "unchecked", "checked")

LEAST_SECONDS, LEAST_ROUNDS, MOST_ROUNDS = 0.2, 3, 20
"""Each launch is repeated for so long, within these numbers of rounds."""


@dataclass(frozen=True)
class Launch:
    """One launch that the prototype made."""

    architecture: str
    function: str
    text: str
    shared: int  # bytes
    scratch: int  # bytes of global memory for each workgroup
    grid: tuple[int, ...]
    arguments: list[Any]  # arrays, pairs of array and offset, numbers
    warps: int

    @property
    def name(self) -> str:
        """The kernel's function and the shape of its first array."""
        first = next(array_of(each) for each in self.arguments if is_array(each))
        return f"{self.function} {'x'.join(map(str, first.shape))} {first.dtype}"


@dataclass
class Row:
    """What one launch took, in milliseconds of the process."""

    vendor: str
    architecture: str
    family: str
    kernel: str
    prototype: float
    unchecked: float
    checked: float
    build: float  # ratio: reading a text and getting it ready
    note: str = ""

    def ratio(self, side: str) -> float:
        """Of one side over the prototype."""
        return float(getattr(self, side)) / self.prototype


@dataclass
class Recorder:
    """Stands for the prototype's class of kernels, and keeps what is launched."""

    kernel: Callable[..., Any]
    launches: list[Launch] = field(default_factory=list)

    def __call__(self, text: str, shared: int = 0, **options: Any) -> Any:
        """As the class itself; what the kernel launches is noted."""
        made = self.kernel(text, shared, **options)
        launch = made.launch

        def kept(grid: Sequence[int], values: Sequence[Any], warps: int, *rest: Any, **options: Any) -> Any:
            architecture, scratch = made.p.arch.rstrip("af"), getattr(made, "scratch", 0)
            held = copy.deepcopy(list(values))
            result = launch(grid, values, warps, *rest, **options)  # what it can't run is not compared
            self.launches.append(Launch(architecture, made.p.name, text, shared, scratch, tuple(grid), held, warps))
            return result

        made.launch = kept
        return made


def is_array(argument: Any) -> bool:
    """Whether an argument is a buffer, or one with an offset."""
    return isinstance(argument, tuple) or hasattr(argument, "nbytes")


def array_of(argument: Any) -> Any:
    """The buffer of such an argument."""
    return argument[0] if isinstance(argument, tuple) else argument


def family_of(name: str) -> str:
    """Family of a kernel."""
    return next((family for family, names in FAMILIES.items() if name.split(maxsplit=1)[0] in names), "others")


def missing_of(folder: Path, vendors: Iterable[str]) -> list[str]:
    """Files of the prototype that are not there."""
    wanted = [f"{VENDORS[vendor]}/{name}" for vendor in vendors for name in NEEDED]
    return [name for name in wanted if not (folder / name).is_file()]


# -- the prototype's launches


def recorded(options: argparse.Namespace) -> list[Launch]:
    """Everything that the prototype's scripts run."""
    vendor, wanted = options.vendor, options.architectures.split(",") if options.architectures else ()
    architectures = wanted or ARCHITECTURES[vendor]
    import torch  # noqa: PLC0415 - with the prototype's modules, in a process of their own

    run2, driver = importlib.import_module("run2"), importlib.import_module("drv")
    recorder = Recorder(run2.Kernel)
    for module in (sys.modules["run"], run2, driver):
        module.Kernel = recorder
    for architecture in architectures:
        for case in [*run2.ALL2, *(_descriptors(run2) if architecture in {"sm_90", "sm_100"} else ())]:
            torch.manual_seed(0)
            with contextlib.suppress(Exception):  # as the prototype's own loop does: what it can't, it skips
                case(architecture)
        for case in _large(run2, vendor) if options.large else ():
            case(architecture)
    importlib.import_module("more")
    return [each for each in recorder.launches if each.architecture in architectures and options.k in each.name]


def _descriptors(run2: Any) -> list[Callable[[str], None]]:
    """Products through tensor descriptors, as the prototype's own script of them has."""
    kernel = importlib.import_module("ktma").mmd

    def run(architecture: str) -> None:
        types = {"a_ptr": "*bf16", "b_ptr": "*bf16", "c_ptr": "*bf16", "M": "i32", "N": "i32", "K": "i32"}
        built = run2.comp(kernel, types, {"BM": 64, "BN": 64, "BK": 32}, architecture, 4)
        made = run2.Kernel(built.asm["ptx"], built.metadata.shared)
        made.scratch = built.metadata.global_scratch_size
        a, b, c = (run2.bf(run2.torch.randn(128, 128)) for _ in range(3))
        made.launch((2, 2), [*map(run2.np_, (a, b, c)), 128, 128, 128], 4)

    return [run]


def _large(run2: Any, vendor: str) -> list[Callable[[str], Any]]:
    """Sizes of the prototype's own script of its speed."""
    size = 512 if vendor == "amd" else 1024
    return [
        lambda architecture: run2.t_mm(architecture, size, size, size),
        lambda architecture: run2.t_flash(architecture, 4, 1024),
        lambda architecture: run2.t_add_rms(architecture, 512, 4096, 4096),
    ]


# -- one side, in a process of its own


class Prototype:
    """Runs launches by the prototype."""

    def __init__(self, options: argparse.Namespace) -> None:
        sys.path[:0] = [str(options.folder / VENDORS[options.vendor]), str(options.folder / "amdgcn")]
        sys.argv = sys.argv[:1]
        with contextlib.redirect_stdout(io.StringIO()):
            launches = recorded(options)
        options.store.write_bytes(pickle.dumps(launches))
        self.kernel = importlib.import_module("ptx" if options.vendor == "nvidia" else "machine").Kernel

    def build(self, launch: Launch) -> Callable[[], Any]:
        """What gets a text ready."""
        return lambda: self.kernel(launch.text, launch.shared)

    def run(self, launch: Launch, side: str) -> tuple[Callable[[], Any], list[Any]]:
        """What runs a launch, and the arguments that it changes."""
        kernel, arguments = self.build(launch)(), copy.deepcopy(launch.arguments)
        if launch.scratch:
            kernel.scratch = launch.scratch
        return lambda: kernel.launch(launch.grid, list(arguments), launch.warps), arguments


class Portkit:
    """Runs launches by portkit."""

    def __init__(self, options: argparse.Namespace) -> None:
        from portkit import emulate  # noqa: PLC0415 - not where the prototype runs

        self.emulate = emulate
        self.load = importlib.import_module(f"portkit.emulate.{VENDORS[options.vendor]}.launch").load.__wrapped__

    def build(self, launch: Launch) -> Callable[[], Any]:
        """What gets a text ready."""
        return lambda: self.load(launch.text)

    def run(self, launch: Launch, side: str) -> tuple[Callable[[], Any], list[Any]]:
        """What runs a launch, and the arguments that it changes."""
        import numpy as np  # noqa: PLC0415 - behind the environment of this process

        emulate, arguments = self.emulate, copy.deepcopy(launch.arguments)
        values = [emulate.Pointer(*each) if isinstance(each, tuple) else each for each in arguments]
        if launch.scratch:
            values.append(np.zeros(launch.scratch * math.prod(launch.grid), np.uint8))
        options = emulate.Options(check=side == "checked")
        fixed = (launch.text, launch.architecture, launch.grid, values, launch.warps, launch.shared, options)
        return lambda: emulate.run(*fixed), arguments


def serve(options: argparse.Namespace) -> None:
    """Answer orders, a number and a side in a line, by seconds of this process and what there is to say."""
    maker = (Prototype if options.serve == "prototype" else Portkit)(options)
    launches = pickle.loads(options.store.read_bytes())
    answer = functools.partial(print, file=sys.__stdout__, flush=True)
    answer(json.dumps([[each.architecture, each.name] for each in launches]))
    ready: dict[tuple[int, str], tuple[Callable[[], Any], list[Any]]] = {}
    for line in sys.stdin:
        number, side = line.split()
        launch = launches[int(number)]
        if side == "build":
            answer(json.dumps([min(seconds_of(maker.build(launch))[0] for _ in range(3)), ""]))
            continue
        if (int(number), side) not in ready:
            ready = {each: kept for each, kept in ready.items() if each[0] == int(number)}
            ready[int(number), side] = maker.run(launch, side)
        action, arguments = ready[int(number), side]
        restore(arguments, launch.arguments)
        seconds, result = seconds_of(action)
        outcome = getattr(result, "outcome", None)
        answer(json.dumps([seconds, "" if outcome is None or outcome.status == "passed" else str(outcome)[:200]]))


def restore(arguments: Sequence[Any], before: Sequence[Any]) -> None:
    """Give the arrays what they held before the launch."""
    for argument, content in zip(arguments, before, strict=True):
        if is_array(argument):
            array_of(argument)[...] = array_of(content)


def seconds_of(action: Callable[[], Any]) -> tuple[float, Any]:
    """Of the process, and what the action gives."""
    start = time.process_time()
    result = action()
    return time.process_time() - start, result


# -- both, in turns


class Server:
    """The process of one side."""

    def __init__(self, command: list[str], folder: str) -> None:
        threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=folder, env={**os.environ, **threads}, **pipes)
        self.launches: list[tuple[str, str]] = self._answer()

    def _answer(self) -> Any:
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise SystemExit(f"{self.process.args} ended: {self.process.wait()}")
        return json.loads(line)

    def ask(self, number: int, side: str) -> tuple[float, str]:
        """Seconds of one round, and what there is to say of it."""
        assert self.process.stdin
        print(number, side, file=self.process.stdin, flush=True)
        seconds, note = self._answer()
        return seconds, note

    def end(self) -> None:
        """No more orders."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def compare(servers: dict[str, Server], number: int, vendor: str) -> Row:
    """Time one launch on all sides."""
    took: dict[str, list[float]] = {side: [] for side in SIDES}
    notes = {side: servers[side].ask(number, side)[1] for side in SIDES}  # untimed, to read the text and fill caches
    spent, round_ = 0.0, 0
    while round_ < MOST_ROUNDS and (round_ < LEAST_ROUNDS or spent < LEAST_SECONDS):
        for side in SIDES[round_ % 3 :] + SIDES[: round_ % 3]:
            took[side].append(servers[side].ask(number, side)[0])
            spent += took[side][-1]
        round_ += 1
    best = {side: 1000 * min(values) for side, values in took.items()}
    build = servers["unchecked"].ask(number, "build")[0] / servers["prototype"].ask(number, "build")[0]
    architecture, name = servers["prototype"].launches[number]
    note = "; ".join(f"{side}: {text}" for side, text in notes.items() if text)
    return Row(vendor, architecture, family_of(name), name, **best, build=build, note=note)


def line_of(row: Row) -> str:
    """One row in a line."""
    figures = f"{row.prototype:9.2f} ms {row.ratio('unchecked'):6.2f} {row.ratio('checked'):6.2f} {row.build:6.2f}"
    return f"{row.architecture:8} {row.kernel:28} {figures} {row.note}"


# -- tables


def mean(values: Iterable[float]) -> float:
    """Geometric."""
    return statistics.geometric_mean(list(values))


def table(rows: Sequence[Row], key: Callable[[Row], tuple[str, ...]], heads: Sequence[str]) -> str:
    """Markdown: the launches of each key in a line, in the order in which they come."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    lines = [f"| {' | '.join([*heads, 'launches', 'without checker', 'slowest', 'with checker', 'build'])} |"]
    lines.append("| --- " * (len(heads) + 5) + "|")
    for name, found in groups.items():
        bare = [row.ratio("unchecked") for row in found]
        with_checker, build = mean(row.ratio("checked") for row in found), mean(row.build for row in found)
        figures = f"{mean(bare):.2f} | {max(bare):.2f} | {with_checker:.2f} | {build:.2f}"
        lines.append(f"| {' | '.join(name)} | {len(found)} | {figures} |")
    return "\n".join(lines)


def kernels_table(rows: Sequence[Row]) -> str:
    """Markdown: each launch of one vendor in a line, architectures side by side, without checker."""
    columns = list(dict.fromkeys(row.architecture for row in rows))
    lines = [f"| kernel | {' | '.join(columns)} |", "| --- " * (len(columns) + 1) + "|"]
    for name in dict.fromkeys(row.kernel for row in rows):
        found = {row.architecture: f"{row.ratio('unchecked'):.2f}" for row in rows if row.kernel == name}
        lines.append(f"| {name} | {' | '.join(found.get(each, '') for each in columns)} |")
    return "\n".join(lines)


def print_tables(rows: Sequence[Row]) -> None:
    """All of them."""
    for vendor in dict.fromkeys(row.vendor for row in rows):
        print(kernels_table([row for row in rows if row.vendor == vendor]) + "\n")
    print(table(rows, lambda row: (row.vendor, row.family), ["vendor", "family"]) + "\n")
    print(table(rows, lambda row: (row.vendor, row.architecture), ["vendor", "architecture"]) + "\n")
    print(table(rows, lambda row: (row.vendor,), ["vendor"]))


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Every launch."""
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(asdict(rows[0])))
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def run_vendor(options: argparse.Namespace, vendor: str) -> list[Row]:
    """All launches of one vendor: the prototype's folders have modules of the same names."""
    with tempfile.TemporaryDirectory() as scratch:  # the prototype leaves files where it runs
        command = [sys.executable, str(Path(__file__).resolve()), str(options.folder.resolve()), "--vendor", vendor]
        command += ["-k", options.k, "--architectures", options.architectures, *(["--large"] if options.large else [])]
        command += ["--store", str(Path(scratch) / "launches.pickle"), "--serve"]
        theirs, ours = (Server([*command, side], scratch) for side in ("prototype", "portkit"))
        servers = {"prototype": theirs, "unchecked": ours, "checked": ours}
        rows = []
        for number in range(len(theirs.launches)):
            rows.append(compare(servers, number, vendor))
            print(line_of(rows[-1]), file=sys.stderr, flush=True)
        theirs.end()
        ours.end()
        return rows


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Time of the emulator over that of the prototype.")
    parser.add_argument("folder", type=Path, help="the prototype: a folder with amdgcn/ and ptx/")
    parser.add_argument("--vendor", choices=VENDORS, help="one alone")
    parser.add_argument("-k", default="", metavar="WORDS", help="launches whose kernel and shape have them")
    parser.add_argument("--architectures", default="", metavar="NAMES", help="some of the vendor's, comma-separated")
    parser.add_argument("--large", action="store_true", help="the sizes of the prototype's own measurement, too")
    parser.add_argument("--csv", type=Path, help="every launch goes there")
    parser.add_argument("--serve", choices=("prototype", "portkit"), help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and print the tables; 1 where portkit without its checker is slower on average of a vendor."""
    options = parse(arguments)
    vendors = [options.vendor] if options.vendor else list(VENDORS)
    if missing := missing_of(options.folder, vendors):
        print(
            f"{options.folder} is not the prototype: {', '.join(missing)} is missing; give its folder", file=sys.stderr
        )
        return 2
    if options.serve:
        serve(options)
        return 0
    rows = [row for vendor in vendors for row in run_vendor(options, vendor)]
    if not rows:
        print("no launch has that name", file=sys.stderr)
        return 2
    print_tables(rows)
    if options.csv:
        write_csv(rows, options.csv)
    return int(any(mean(row.ratio("unchecked") for row in rows if row.vendor == each) > 1 for each in vendors))


if __name__ == "__main__":
    raise SystemExit(main())
