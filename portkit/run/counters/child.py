"""One run of the profiler, watched: its time, its steps, and what is left when it dies.

The profiler writes its table when the program under it has ended, however that ended. So a
program that is over its time is killed alone, and the profiler is then given a moment.

It takes seconds until the program has loaded PyTorch under a profiler. So one may be begun while
cells are yet measured: it loads what it needs, leaves the device alone, and waits for its orders.

Where one pass does not count all, the program runs once a pass, and the tables are joined
(:mod:`~portkit.run.counters.passes`).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from portkit.model import Stage
from portkit.run.counters import SAID, Profiler, Table, Trouble, text_of
from portkit.run.counters.orders import ORDERS, PROGRESS, Kind, Orders, Step, steps
from portkit.run.jobs import Limits
from portkit.run.processes import MARK, describe_exit, end_processes
from portkit.run.scrub import scrub, tail

PROGRAM: Final = "portkit.run.counters.profiled"

_POLL_SECONDS = 0.1
_WRITE_SECONDS = 60.0  # for the profiler to write its table once the program has ended
_HEAD_BYTES = 1 << 16  # of the output, where its complaints are: the table comes last

Key = tuple[int, str]
"""Number of a task, and function."""


@dataclass
class Progress:
    """What the program has told so far."""

    program: int | None = None  # its process
    task: int | None = None  # under way
    stage: Stage = Stage.IMPORT
    task_since: float = field(default_factory=time.monotonic)
    stage_since: float = field(default_factory=time.monotonic)
    counted: set[Key] = field(default_factory=set)
    failed: dict[Key, str] = field(default_factory=dict)  # function may be empty: of the whole task
    ended: set[int] = field(default_factory=set)

    def note(self, step: Step) -> None:
        """Take in a step."""
        key = (step.task, step.function)
        match step.kind:
            case Kind.STARTED:
                self.program = int(step.text)
            case Kind.BEGUN:
                self.task, self.task_since = step.task, time.monotonic()
            case Kind.STAGE:
                self.stage, self.stage_since = Stage(step.text), time.monotonic()
            case Kind.COUNTED:
                self.counted.add(key)
            case Kind.FAILED:
                self.failed[key] = step.text
            case Kind.ENDED:
                self.ended.add(step.task)
                self.task = None
                self.stage, self.stage_since = Stage.IMPORT, time.monotonic()

    def over_time(self, limits: Limits) -> str | None:
        """Which limit of time it is over, in words."""
        now = time.monotonic()
        stage = limits.stage_seconds.get(self.stage, limits.cell_seconds)
        if now - self.stage_since > stage:
            return f"stage {self.stage} took more than its limit of {stage:g} s under the profiler"
        if self.task is not None and now - self.task_since > limits.cell_seconds:
            return f"it took more than its limit of {limits.cell_seconds:g} s under the profiler"
        return None


@dataclass(frozen=True)
class Ran:
    """What one run of the profiler left behind."""

    progress: Progress
    table: Table | None
    trouble: Trouble | None  # why nothing can be counted at all
    good: bool  # whether it came to its end by itself
    ending: str  # how it ended, in words

    @property
    def came_to_a_task(self) -> bool:
        """Whether the program lived to begin one."""
        return bool(self.progress.ended) or self.progress.task is not None


def run_profiler(
    profiler: Profiler,
    orders: Orders,
    limits: Limits,
    stop: Callable[[], bool] = lambda: False,
    told: Callable[[Progress], None] = lambda progress: None,
    number: int = 0,
    begun: Begun | None = None,
) -> Ran:
    """Run one pass of the profiler over tasks, to its end or to that of its time.

    Args:
        profiler: which.
        orders: what the program under it is to do.
        limits: of the time of a task and of its stages.
        stop: asked now and then whether to break off; what was counted is kept.
        told: told now and then how it gets on.
        number: of the pass.
        begun: the first pass of the same profiler, whose program waits for orders.
    """
    try:
        child = begun if begun and begun.takes(profiler, number) else Begun(profiler, number, orders)
    except OSError as error:  # it was there when it was looked for
        gone = Trouble(f"{profiler.tool} does not start: {scrub(str(error))}", "reinstall it")
        return Ran(Progress(), None, gone, good=False, ending=gone.message)
    try:
        child.order(orders)
        return child.watch(limits, stop, told)
    finally:
        child.end()


class Begun:
    """The process of the profiler, with the program in it.

    Args:
        profiler: which.
        number: of the pass.
        orders: what the program is to do; None where :meth:`order` will tell.

    Raises:
        OSError: it does not start.
    """

    def __init__(self, profiler: Profiler, number: int = 0, orders: Orders | None = None) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="portkit-counters-")
        folder = Path(self._home.name)
        self._profiler, self._folder, self._number = profiler, folder, number
        self._log, self._said, self._steps = folder / profiler.log, folder / SAID, folder / PROGRESS
        self._mark = secrets.token_hex(8)
        self._heard = 0  # bytes of the steps
        self._ended = False
        self.progress = Progress()
        if orders:
            self.order(orders)
        try:
            self._process = self._start()
        except OSError:
            self._home.cleanup()
            raise

    def _start(self) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-m", PROGRAM, str(self._folder), str(os.getpid())]
        with self._said.open("wb") as said:
            return subprocess.Popen(
                self._profiler.command(program, self._folder, self._number),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=profiled_environment(os.environ) | {MARK: self._mark},
                start_new_session=True,  # Ctrl-C is for us
            )

    def takes(self, profiler: Profiler, number: int) -> bool:
        """Whether it is such a pass, still lives, and has no orders."""
        alike = (self._profiler, self._number) == (profiler, number)
        return alike and not (self._folder / ORDERS).exists() and self._process.poll() is None

    def order(self, orders: Orders) -> None:
        """Tell the program what to do, from which moment on its time counts."""
        if (path := self._folder / ORDERS).exists():
            return
        scratch = path.with_suffix(".new")
        scratch.write_bytes(orders.to_json())
        scratch.replace(path)  # whole, as soon as it is there
        self.progress = Progress()

    def watch(self, limits: Limits, stop: Callable[[], bool], told: Callable[[Progress], None]) -> Ran:
        """Wait for the end, or bring it about."""
        overrun = trouble = None
        while self._process.poll() is None and not (overrun or trouble or stop()):
            time.sleep(_POLL_SECONDS)
            self._hear()
            told(self.progress)
            overrun = self.progress.over_time(limits)
            trouble = self._profiler.trouble(self._head())
        self._let_write()
        self._hear()
        output = text_of(self._log)
        trouble = trouble or self._profiler.trouble(output)
        table = self._profiler.read(self._folder, self._number)
        good = not (overrun or trouble) and self._process.poll() == 0
        return Ran(self.progress, table, trouble, good, overrun or self._ending(output))

    def end(self) -> None:
        """Leave nothing of it behind; nothing to do where that was done."""
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        end_processes(self._mark)
        self._home.cleanup()

    def _let_write(self) -> None:
        """End the program, and let the profiler write what it has seen."""
        if self.progress.program is None:
            return
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.progress.program, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_WRITE_SECONDS)

    def _hear(self) -> None:
        with contextlib.suppress(FileNotFoundError), self._steps.open("rb") as file:
            file.seek(self._heard)
            news = file.read()
            self._heard += news.rfind(b"\n") + 1
            for step in steps(news):
                self.progress.note(step)

    def _head(self) -> str:
        with contextlib.suppress(FileNotFoundError), self._log.open("rb") as file:
            return file.read(_HEAD_BYTES).decode(errors="replace")
        return ""

    def _ending(self, output: str) -> str:
        """How it ended by itself: what the profiler says of it, and the last that was printed."""
        how = self._profiler.last_words(output) or f"the profiler: {self._exit()}"
        said = tail(text_of(self._said), 1)
        return f"{how}: {said}"[:400] if said else how

    def _exit(self) -> str:
        code = self._process.poll()
        return "no end" if code is None else describe_exit(code)


def profiled_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Ours, without Triton's interpreter, and with numbers as the reader of the table takes them."""
    return {name: value for name, value in ours.items() if name != "TRITON_INTERPRET"} | {"LC_ALL": "C.UTF-8"}
