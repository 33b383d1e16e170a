"""Runs a cell's small shape under NVIDIA's compute-sanitizer, and reads what it says.

``python -m portkit.run.sanitize`` is the process under the tool: it reads a :class:`Task`
as JSON from its standard input, calls the fused function once and ends. Two tools watch,
each in a process of its own: ``memcheck`` (accesses outside of allocations) and
``racecheck`` (threads of a block that use shared memory without a barrier between them).
PyTorch's caching allocator is off there: it hands out pieces of large allocations, within
which no access is out of bounds.

Warnings of racecheck are no finding: it warns of hazards that need not matter.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from portkit.model import CaseSource, Cell, Direction, Outcome, Shape, Stage, Status
from portkit.run import stages
from portkit.run.calls import call, upstream_for
from portkit.run.inputs import InputMaker
from portkit.run.load import load_case
from portkit.run.reference import unfused
from portkit.run.scrub import scrub, tail

TOOLS = ("memcheck", "racecheck")

SECONDS = 240.0
"""Time limit of one tool; it starts Python, PyTorch and CUDA under supervision."""

_MOST = 4  # findings kept in words
_MISSING = "compute-sanitizer is not installed: it comes with CUDA's toolkit"


@dataclass(frozen=True)
class Task:
    """What the process under the tool is to call."""

    source: CaseSource
    cell: Cell
    seed: int = 0

    def to_json(self) -> str:
        """As the process reads it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Task:
        """As :meth:`to_json` wrote it."""
        fields = json.loads(text)
        cell = fields["cell"]
        cell |= {"shape": tuple(cell["shape"]), "direction": Direction(cell["direction"])}
        return cls(CaseSource(**fields["source"]), Cell(**cell), fields["seed"])


@dataclass(frozen=True)
class Finding:
    """An error that a tool reported."""

    status: Status
    message: str


@dataclass(frozen=True)
class Sanitized:
    """What the tools said of a cell."""

    outcome: Outcome  # passed, or the worst finding
    text: str | None  # for the record; None where no tool came to an end
    why_not: str | None = None  # why that is unknown


def sanitize_cell(
    source: CaseSource, cell: Cell, *, shape: Shape, seed: int = 0, environment: Mapping[str, str] | None = None
) -> Sanitized:
    """Run a cell's fused function on a small shape under each tool.

    Args:
        source: where the case is declared.
        cell: the cell; its shape is not used.
        shape: the small shape.
        seed: of the inputs.
        environment: of the process; by default this one's.

    Returns:
        ``out_of_bounds`` or ``data_race`` with kernel and line, or ``passed``; where a tool
        is missing or failed, nothing is known and ``why_not`` says why.
    """
    program = shutil.which("compute-sanitizer")
    if program is None:
        return Sanitized(
            Outcome(Status.PASSED), None, "compute-sanitizer is not installed: it comes with CUDA's toolkit"
        )
    task = Task(source, replace(cell, shape=shape), seed)
    found: list[Finding] = []
    for tool in TOOLS:
        stages.enter(Stage.VERIFY)  # its time begins anew
        said = _run(program, tool, task, {**(environment or os.environ), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
        if isinstance(said, str):
            return _concluded(found, shape, f"{tool}: {said}")
        found += said
    return _concluded(found, shape, None)


def parse(report: str) -> list[Finding] | None:
    """Errors in the text of a tool, each once; None where the text has no summary, so the tool failed."""
    if not _SUMMARY.search(report):
        return None
    return list(dict.fromkeys(_findings(report)))


_SUMMARY = re.compile(r"^=+ (ERROR|RACECHECK) SUMMARY: ", re.M)
_LINE = re.compile(r"^=+ ?", re.M)
_INVALID = re.compile(r"^(Invalid \S+ (?:read|write|atomic)\b.*|Invalid .*|Misaligned .*)$")
_RACE = re.compile(r"^ERROR: (.*(?:race|hazard).*)$", re.I)
_PLACES = (
    # at _kernel+0x1b0 in folder/file.py:93
    re.compile(r"\bat (?P<kernel>[\w$.]+)(?:\([^)]*\))?\+0x[0-9a-f]+(?: in (?P<file>[^\s:]+):(?P<line>\d+))?"),
    # at 0x1b0 in folder/file.py:93:_kernel
    re.compile(r"\bat 0x[0-9a-f]+ in (?P<file>[^\s:]+):(?P<line>\d+):(?P<kernel>[\w$.]+)"),
    # at 0x1b0 in _kernel
    re.compile(r"\bat 0x[0-9a-f]+ in (?P<kernel>[\w$.]+)()"),
)


def _findings(report: str) -> Iterator[Finding]:
    """A report is blocks; each begins with what happened, and tells further down where."""
    lines = [_LINE.sub("", line) for line in report.splitlines() if line.startswith("=")]
    for number, line in enumerate(lines):
        if match := _INVALID.match(line):
            yield Finding(Status.OUT_OF_BOUNDS, _where(match[1], lines[number : number + 8]))
        elif match := _RACE.match(line.strip()):
            yield Finding(Status.DATA_RACE, _where(_without_place(match[1]), lines[number : number + 8]))


def _where(what: str, lines: list[str]) -> str:
    """What happened, the first place that is named, and how far out of bounds it was."""
    text = scrub(what)
    block = [lines[0], *_until_next(lines[1:])]
    place = next((m for line in block for pattern in _PLACES if (m := pattern.search(line))), None)
    if place:
        groups = place.groupdict()
        text += f" in {groups['kernel']}" + (
            f" at {scrub(groups['file'])}:{groups['line']}" if groups.get("file") else ""
        )
    beside = next((line.strip() for line in block if "nearest allocation" in line), None)
    return f"{text}, {re.sub(r' at 0x[0-9a-f]+', '', beside).removeprefix('and ')}" if beside else text


def _until_next(lines: list[str]) -> Iterator[str]:
    """Lines of the same block: they are indented."""
    for line in lines:
        if not line.startswith(" "):
            return
        yield line


def _without_place(text: str) -> str:
    return re.sub(r" at \S+(?: in \S+)?.*$", "", text)


def _run(program: str, tool: str, task: Task, environment: Mapping[str, str]) -> list[Finding] | str:
    """Findings of one tool, or why there are none."""
    command = [program, "--tool", tool, "--print-limit", "50", sys.executable, "-m", "portkit.run.sanitize"]
    try:
        done = subprocess.run(
            command,
            input=task.to_json(),
            capture_output=True,
            text=True,
            env=dict(environment),
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end within {SECONDS:.0f} s"
    report = done.stdout + done.stderr
    found = parse(report)
    if found is None or (done.returncode and not found):
        return f"exit {done.returncode}: {scrub(tail(report, 3))}"
    return found


def _concluded(found: list[Finding], shape: Shape, why_not: str | None) -> Sanitized:
    where = "x".join(map(str, shape))
    if found:
        order = list(Status)
        worst = min((each.status for each in found), key=order.index)
        messages = [each.message for each in found if each.status is worst]
        more = f" (and {len(messages) - _MOST} more)" if len(messages) > _MOST else ""
        text = f"on {where}: {'; '.join(messages[:_MOST])}{more}"
        return Sanitized(Outcome(worst, Stage.VERIFY, f"compute-sanitizer {text}"), f"{worst} {text}"[:400], why_not)
    if why_not:
        return Sanitized(Outcome(Status.PASSED), None, why_not)
    return Sanitized(Outcome(Status.PASSED), f"{', '.join(TOOLS)}: nothing found on {where}")


def main() -> int:
    """Call the fused function of the task on standard input once, on the current device."""
    task = Task.from_json(sys.stdin.read())
    case, cell = load_case(task.source), task.cell
    make = InputMaker(task.seed, "cuda")
    inputs = case.inputs(make, cell.shape, cell.dtype)
    upstream: tuple[Any, ...] = ()
    if cell.direction is Direction.BACKWARD:
        forward = replace(cell, direction=Direction.FORWARD)
        upstream = upstream_for([t for _, t in unfused(case, forward, inputs).named], make)
    params = case.variants[cell.variant]
    call(lambda **given: case.fused(**given, **params), case, cell, inputs, upstream)
    torch.cuda.synchronize()
    return 0


if __name__ == "__main__":
    sys.exit(main())
