"""One run seen from the process that asks for it: jobs in, results out.

Imports no torch: pytest and the CLI stay light, and whatever user code does to
a process happens elsewhere.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import IO, Any

from portkit.model import (
    INTERPRETER,
    CaseSource,
    Cell,
    CellResult,
    Device,
    Evidence,
    Outcome,
    PlannedCell,
    Stage,
    Status,
    Target,
)
from portkit.run.jobs import AllDone, Chain, Finished, Job, Limits, Request
from portkit.run.scrub import tail

_MOST_RESTARTS = 3


def chains_for(
    cells: Sequence[PlannedCell],
    sources: Mapping[str, CaseSource],
    targets: Mapping[str, Target],
    devices: Sequence[Device] = (),
) -> tuple[Chain, ...]:
    """Group planned cells into jobs, and jobs of one architecture into chains."""
    grouped: dict[tuple[Evidence, str, str], list[Cell]] = defaultdict(list)
    for planned in cells:
        if planned.excluded is None:
            grouped[planned.evidence, planned.cell.case, planned.cell.target].append(planned.cell)
    index = {device.target: device.index for device in reversed(devices)}
    chains: dict[tuple[Evidence, str, str], list[Job]] = defaultdict(list)
    for (evidence, case, name), group in grouped.items():
        target = None if name == INTERPRETER else targets[name]
        job = Job(evidence, sources[case], tuple(group), target, index.get(name))
        architecture = target.architecture.name if target else name
        chains[evidence, case, architecture].append(job)
    return tuple(tuple(jobs) for jobs in chains.values())


class Session:
    """Supervisors at work on the cells of a run.

    The interpreter needs ``TRITON_INTERPRET`` before Triton is imported, hence a
    supervisor of its own. Measured cells run last and one at a time, so that no
    compiler disturbs a clock.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._links: dict[bool, _Link] = {}

    def prestart(self) -> None:
        """Start loading torch and Triton now, before the cells are known."""
        self._link(interpret=False)

    def results(self, chains: Sequence[Chain]) -> Iterator[CellResult]:
        """Every cell of the chains gets exactly one result, in the order of completion."""
        early = [c for c in chains if c[0].evidence is not Evidence.MEASURED]
        late = [c for c in chains if c[0].evidence is Evidence.MEASURED]
        yield from self._phase(early, self._limits)
        yield from self._phase(late, Limits(1, self._limits.cell_seconds))

    def close(self) -> None:
        """Stop all processes of the session."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    def _phase(self, chains: Sequence[Chain], limits: Limits) -> Iterator[CellResult]:
        by_kind: dict[bool, list[Chain]] = defaultdict(list)
        for chain in chains:
            by_kind[chain[0].evidence is Evidence.INTERPRETED].append(chain)
        active = []
        for interpret, group in by_kind.items():
            link = self._link(interpret=interpret)
            link.ask(tuple(group), limits)
            active.append(link)
        while active:
            for connection in wait([link.connection for link in active]):
                link = next(x for x in active if x.connection is connection)
                yield from link.receive()
                if link.done:
                    active.remove(link)

    def _link(self, *, interpret: bool) -> _Link:
        if interpret not in self._links:
            self._links[interpret] = _Link({"TRITON_INTERPRET": "1"} if interpret else {"TRITON_INTERPRET": "0"})
        return self._links[interpret]


class _Link:
    """A supervisor process and the cells it still owes."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._owed: dict[tuple[Evidence, Cell], Job] = {}
        self._limits = Limits(1)
        self._restarts = 0
        self.done = True
        self._start()

    def ask(self, chains: tuple[Chain, ...], limits: Limits) -> None:
        """Hand over chains; results come from ``receive``."""
        self._limits, self.done = limits, False
        self._owed = {(job.evidence, cell): job for chain in chains for job in chain for cell in job.cells}
        self.connection.send(Request(chains, limits))

    def receive(self) -> Iterator[CellResult]:
        """Results that are there; a supervisor that died is replaced, for what it still owes."""
        try:
            message: Any = self.connection.recv()
        except (EOFError, OSError):
            yield from self._after_death()
            return
        match message:
            case Finished(result):
                if self._owed.pop((result.evidence, result.cell), None):
                    self._restarts = 0
                    yield result
            case AllDone():
                self.done = True

    def close(self) -> None:
        """Closing the connection is what tells the supervisor to stop."""
        self.connection.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._log: IO[bytes] = tempfile.TemporaryFile(prefix="portkit-supervisor-")  # noqa: SIM115  # closed in close()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "portkit.run.supervisor", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, **self._environment},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is for us: we close the connection and the report
        )
        theirs.close()
        self.connection = Connection(ours.detach())

    def _after_death(self) -> Iterator[CellResult]:
        self._process.wait()
        self._log.seek(0)
        message = f"the supervisor ended with {self._process.returncode}: {tail(self._log.read().decode(), 6)}"
        self.close()
        self._restarts += 1
        if self._restarts <= _MOST_RESTARTS and self._owed:
            self._start()
            self.ask(self._chains_owed(), self._limits)
            return
        self.done = True
        for evidence, cell in self._owed:
            yield CellResult(cell, evidence, Outcome(Status.WORKER_LOST, Stage.RUN, message))

    def _chains_owed(self) -> tuple[Chain, ...]:
        cells: dict[int, list[Cell]] = defaultdict(list)
        jobs: dict[int, Job] = {}
        for (_, cell), job in self._owed.items():
            cells[id(job)].append(cell)
            jobs[id(job)] = job
        return tuple(
            (Job(job.evidence, job.source, tuple(cells[key]), job.target, job.device_index, job.seed),)
            for key, job in jobs.items()
        )
