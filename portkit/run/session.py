"""One run seen from the process that asks for it: jobs in, results out.

Imports no torch: pytest and the CLI stay light, and whatever user code does to
a process happens elsewhere.
"""

from __future__ import annotations

import contextlib
import enum
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, Any, Final

from portkit.model import (
    INTERPRETER,
    CaseSource,
    Cell,
    CellResult,
    Device,
    DeviceProbe,
    Evidence,
    Outcome,
    PlannedCell,
    Stage,
    Status,
    Target,
)
from portkit.run.compiler_hang import HANG, NO_COMPILER, hang_in
from portkit.run.jobs import (
    KEPT_LAUNCHES,
    AllDone,
    Chain,
    Finished,
    Job,
    Limits,
    Probed,
    Ready,
    Request,
    Started,
    Watch,
    in_one_process,
)
from portkit.run.limits import LANE_INSTRUCTIONS
from portkit.run.probes import unprobed
from portkit.run.processes import MARK, describe_exit, end_processes
from portkit.run.scrub import scrub, tail

COMPILER: Final = "--compiler="
"""Has a supervisor load PyTorch's compiler before it is asked for anything; the seconds that this may take follow."""

START_SECONDS = 180.0
"""For torch and Triton to be loaded, before what has a limit of its own."""

_MOST_FAILED_STARTS = 3
_IDLE_SECONDS = 1.0


def chains_for(  # noqa: PLR0913 (what jobs carry, by name)
    cells: Sequence[PlannedCell],
    sources: Mapping[str, CaseSource],
    targets: Mapping[str, Target],
    devices: Sequence[Device] = (),
    *,
    sanitize: bool = False,
    modes: tuple[str, ...] = (),
    baselines: Mapping[str, tuple[str, ...]] | None = None,
    lane_instructions: int = LANE_INSTRUCTIONS,
) -> tuple[Chain, ...]:
    """Group planned cells into jobs, and jobs of one architecture into chains.

    Measured jobs stand alone: those of two SKUs run at the same time, each on its own GPUs. One job
    has the cells of all cases of a folder or a package.
    """
    grouped: dict[tuple[Evidence, str, str], list[Cell]] = defaultdict(list)
    for planned in cells:
        if planned.excluded is None:
            grouped[planned.evidence, planned.cell.case, planned.cell.target].append(planned.cell)
    places: dict[str, tuple[Device, ...]] = defaultdict(tuple)
    for device in devices:
        places[device.target] += (device,)
    chains: dict[tuple[Evidence, str, str], list[Job]] = defaultdict(list)
    for (evidence, case, name), group in grouped.items():
        target = None if name == INTERPRETER else targets[name]
        measured = evidence is Evidence.MEASURED
        job = Job(evidence, sources[case], tuple(group), target, places[name] if measured else (), sanitize=sanitize)
        if measured and baselines is not None:
            job = replace(job, baselines=baselines[case])
        job = replace(job, modes=modes, lane_instructions=lane_instructions)
        served = target.architecture.name if target and not measured else name
        chains[evidence, _house(job.source) if measured else case, served].append(job)
    return tuple(
        (in_one_process(jobs),) if evidence is Evidence.MEASURED else tuple(jobs)
        for (evidence, _, _), jobs in chains.items()
    )


def _house(source: CaseSource) -> str:
    """Cases of one house import the same modules by the same names, so that one process may serve them all."""
    if source.check is not None:
        return f"check {source.name}"
    return str(Path(source.path).parent) if source.path else (source.module or source.name).partition(".")[0]


class Kind(enum.Enum):
    """Kinds of supervisors."""

    COMMON = enum.auto()  # builds, emulates, and measures where there is none for it
    INTERPRETING = enum.auto()  # with Triton's interpreter on
    MEASURING = enum.auto()  # has PyTorch's compiler loaded from the start


class Session:
    """Supervisors at work on the cells of a run.

    The interpreter needs ``TRITON_INTERPRET`` before Triton is imported, hence a
    supervisor of its own. Measured cells run last, and one at a time on each GPU, so
    that no compiler disturbs a clock.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._links: dict[Kind, _Link] = {}
        self._launches = tempfile.TemporaryDirectory(prefix="portkit-launches-", ignore_cleanup_errors=True)

    def prestart(self, *, measuring: bool = False) -> None:
        """Start loading torch and Triton now, before the cells are known.

        Args:
            measuring: whether PyTorch's compiler, too, in a supervisor of its own: it takes seconds, and
                what builds and emulates is better off without.
        """
        self._link(Kind.COMMON)
        if measuring:
            self._link(Kind.MEASURING)

    def results(
        self,
        chains: Sequence[Chain],
        watch: Watch | None = None,
        probes: Sequence[Job] = (),
        measuring: Callable[[], None] = lambda: None,
    ) -> Iterator[CellResult | DeviceProbe]:
        """Every cell of the chains gets exactly one result, in the order of completion, and so does every probe.

        Args:
            chains: the cells, as :func:`chains_for` groups them.
            watch: told of cells that begin, and about once a second when nothing ends.
            probes: GPUs to be measured before their cells, as ``probes.probe_job`` makes them.
            measuring: called before the first measured cell, where there is one.
        """
        early = [c for c in chains if c[0].evidence is not Evidence.MEASURED]
        late = [c for c in chains if c[0].evidence is Evidence.MEASURED]
        yield from self._phase(early, self._limits, watch)
        gpus = {device.device_id for chain in late for job in chain for device in job.devices}
        if late:
            measuring()
        limits = replace(self._limits, workers=max(1, len(gpus)), builders=self._limits.workers)
        yield from self._phase(late, limits, watch, probes)

    def close(self) -> None:
        """Stop all processes of the session, their children included."""
        for link in self._links.values():
            link.close()
        self._links.clear()
        self._launches.cleanup()

    def _phase(
        self, chains: Sequence[Chain], limits: Limits, watch: Watch | None, probes: Sequence[Job] = ()
    ) -> Iterator[CellResult | DeviceProbe]:
        by_kind: dict[Kind, list[Chain]] = defaultdict(list)
        for chain in chains:
            by_kind[self._kind(chain[0].evidence)].append(chain)
        active = []
        for kind, group in by_kind.items():
            link = self._link(kind)
            link.ask(tuple(group), limits, watch, () if kind is Kind.INTERPRETING else tuple(probes))
            active.append(link)
        while active:
            ready = wait([link.connection for link in active], timeout=_IDLE_SECONDS)
            if watch and not ready:
                watch.idle()
            for link in active:
                if link.connection not in ready:
                    link.end_late()
            for connection in ready:
                link = next(x for x in active if x.connection is connection)
                yield from link.receive()
                if link.done:
                    active.remove(link)

    def _kind(self, evidence: Evidence) -> Kind:
        """Which supervisor serves cells of such evidence."""
        if evidence is Evidence.INTERPRETED:
            return Kind.INTERPRETING
        if evidence is Evidence.MEASURED and Kind.MEASURING in self._links:
            return Kind.MEASURING
        return Kind.COMMON

    def _link(self, kind: Kind) -> _Link:
        if kind not in self._links:
            self._links[kind] = _Link(kind, self._limits, self._launches.name)
        return self._links[kind]


def _environment(kind: Kind, launches: str) -> dict[str, str]:
    """Ours, with Triton's interpreter on, or off as far as host code can see.

    Args:
        kind: of supervisor.
        launches: folder of the session's own for emulated launches, unless ours names another.
    """
    rest = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    rest = {KEPT_LAUNCHES: launches, **rest}
    return rest | {"TRITON_INTERPRET": "1"} if kind is Kind.INTERPRETING else rest


Key = tuple[Evidence, Cell]


class _Link:
    """A supervisor process and the cells it still owes."""

    def __init__(self, kind: Kind, limits: Limits, launches: str) -> None:
        self._mark = secrets.token_hex(8)
        self._environment = _environment(kind, launches) | {MARK: self._mark}
        seconds = limits.stage_seconds[Stage.IMPORT]
        self._options = [f"{COMPILER}{seconds:g}"] if kind is Kind.MEASURING else []
        self._chains: tuple[Chain, ...] = ()
        self._probes: dict[str, Job] = {}  # by device, those it still owes
        self._owed: dict[Key, None] = {}
        self._under_way: set[Key] = set()
        self._deaths: Counter[Key] = Counter()  # of supervisors, while the cell was under way
        self._limits = limits
        self._watch: Watch | None = None
        self._failed_starts = 0  # in a row
        self._unexplained = 0  # deaths in a row of supervisors that had named no cell
        self._alone: Key | None = None  # cell that was asked for by itself, to find the culprit
        self._late: str | None = None  # what it did not come to in time
        self._up, self._since = False, 0.0  # whether it has taken a request, and when that was sent
        self.done = True
        self._start()

    def ask(self, chains: tuple[Chain, ...], limits: Limits, watch: Watch | None, probes: tuple[Job, ...] = ()) -> None:
        """Hand over chains; results come from ``receive``."""
        self._probes = {device.device_id: job for job in probes for device in job.devices}
        self._chains, self._limits, self._watch, self.done = chains, limits, watch, False
        self._owed = dict.fromkeys((job.evidence, cell) for chain in chains for job in chain for cell in job.cells)
        if self.connection.closed:  # the last one was given up
            self._start()
        self._send()

    def receive(self) -> Iterator[CellResult | DeviceProbe]:
        """Results that are there; a supervisor that died is replaced, for what it still owes."""
        try:
            message: Any = self.connection.recv()
        except (EOFError, OSError):
            yield from self._after_death()
            return
        match message:
            case Ready():
                self._failed_starts, self._up = 0, True
            case Started(evidence, cell):
                self._under_way.add((evidence, cell))
                if self._watch:
                    self._watch.started(evidence, cell)
            case Probed(probe):
                self._probes.pop(probe.device_id, None)
                yield probe
            case Finished(result):
                yield from self._settle(result)
            case AllDone() if self._owed:  # one cell was asked for by itself
                self._unexplained = 0
                self._send()
            case AllDone():
                self.done = True

    def end_late(self) -> None:
        """End a supervisor that does not come up: it loads torch and Triton, and PyTorch's compiler where it is to."""
        most = START_SECONDS + self._limits.stage_seconds[Stage.IMPORT]
        if not self._up and time.monotonic() - self._since > most:
            self._late = f"torch and Triton were not loaded within {most:g} s"
            self._process.kill()

    def close(self) -> None:
        """End the supervisor, and see to it that nothing is left of what it started."""
        self.connection.close()
        self._process.kill()  # it has nothing to save, and its workers end with it
        self._process.wait()
        end_processes(self._mark)
        self._log.close()

    def _start(self) -> None:
        self._up, self._late = False, None
        ours, theirs = socket.socketpair()
        self._log: IO[bytes] = tempfile.TemporaryFile(prefix="portkit-supervisor-")  # noqa: SIM115  # closed in close()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "portkit.run.supervisor", str(theirs.fileno()), *self._options],
            pass_fds=[theirs.fileno()],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is for us: we close the connection and the report
        )
        theirs.close()
        self.connection: Connection = Connection(ours.detach())

    def _send(self) -> None:
        """Ask for all that is owed, or for a suspect by itself.

        That the other end is gone shows when its answer is read.
        """
        self._under_way.clear()
        self._since = time.monotonic()  # one that was started early has nothing to say before it is asked
        self._alone = self._suspect()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(Request(self._chains_owed(), self._limits, tuple(self._probes.values())))

    def _suspect(self) -> Key | None:
        """A cell that was under way at two deaths, or the first after two deaths that none was known of."""
        twice = next((key for key in self._owed if self._deaths[key] > 1), None)
        return twice or (next(iter(self._owed), None) if self._unexplained > 1 else None)

    def _settle(self, result: CellResult) -> Iterator[CellResult]:
        key = (result.evidence, result.cell)
        self._under_way.discard(key)
        if key in self._owed:
            del self._owed[key]
            yield result

    def _after_death(self) -> Iterator[CellResult | DeviceProbe]:
        self._process.wait()
        self._log.seek(0)
        log = self._log.read().decode(errors="replace")
        self.close()
        if hang := hang_in(log):  # before it came to a probe or a cell
            self._environment |= {NO_COMPILER: "1", HANG: scrub(hang)}
        else:
            yield from self._give_up(log)
        if self._owed:
            self._options = []  # what it was to load early may have ended it
            self._start()
            self._send()
        else:
            self.done = True

    def _give_up(self, log: str) -> Iterator[CellResult | DeviceProbe]:
        """What no other supervisor is asked for, after one that ended with such a log."""
        message = self._late or f"the supervisor ended ({describe_exit(self._process.returncode)})"
        if last := tail(log, 6):
            message += f": {last}"
        yield from self._unprobed(message)
        for evidence, cell in self._hopeless():
            yield from self._settle(CellResult(cell, evidence, Outcome(Status.WORKER_LOST, Stage.RUN, message)))

    def _unprobed(self, message: str) -> Iterator[DeviceProbe]:
        """Probes are not tried twice: one of them may have been the end of the supervisor."""
        owed, self._probes = self._probes, {}
        for job in owed.values():
            for device in job.devices:
                if job.target:
                    yield unprobed(device, job.target, message)

    def _hopeless(self) -> list[Key]:
        """Cells to give up after a death: the one that was alone, or all if no supervisor comes up."""
        self._failed_starts += 1  # one that comes up sets it back
        if self._late or self._failed_starts > _MOST_FAILED_STARTS:
            return list(self._owed)
        if self._alone and self._failed_starts == 1:
            return [self._alone]
        self._deaths.update(self._under_way)
        self._unexplained = 0 if self._under_way else self._unexplained + 1
        return []

    def _chains_owed(self) -> tuple[Chain, ...]:
        wanted = {self._alone} if self._alone else self._owed.keys()
        left = (
            tuple(replace(job, cells=tuple(c for c in job.cells if (job.evidence, c) in wanted)) for job in chain)
            for chain in self._chains
        )
        return tuple(chain for jobs in left if (chain := tuple(job for job in jobs if job.cells)))
