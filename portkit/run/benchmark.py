"""A run of the matrix: what pytest drives, without pytest.

``prepare`` reads the matrix and what it names; ``Run`` carries out the chosen
cells and writes each record the moment it is known.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from portkit import __version__
from portkit.errors import HostError, PortkitError, ReportError, WorkerError
from portkit.model import (
    INTERPRETER,
    CaseDeclaration,
    CellResult,
    Device,
    DeviceProbe,
    Evidence,
    Header,
    Matrix,
    Outcome,
    Plan,
    PlannedCell,
    Record,
    Resume,
    Stage,
    Status,
    Target,
    digest,
)
from portkit.plan.baselines import baselines_of
from portkit.plan.cases import Introspection, introspect
from portkit.plan.expand import Emulate, Selection, default_tier, expand
from portkit.plan.matrix import check_kernel_files, read_matrix
from portkit.run.counters.child import Begun
from portkit.run.counters.counting import FUNCTIONS
from portkit.run.counters.taking import (
    COUNTERS_OPTION,
    Choice,
    Counting,
    begin_early,
    is_counted,
    open_profiler,
    take_counters,
)
from portkit.run.devices import choose_devices, measured_devices, partitions_of
from portkit.run.interrupt import Interruptions
from portkit.run.jobs import Job, Limits, Watch
from portkit.run.limits import check_seconds, default_memory
from portkit.run.locks import hold_devices
from portkit.run.neighbours.check import check_alone
from portkit.run.probes import CACHED, keep_probe, known_probe, probe_job
from portkit.run.resume import check_resumable, is_repeated
from portkit.run.scrub import scrub
from portkit.run.session import Session, chains_for
from portkit.store.journal import Journal, Report, new_run_id, read_blob, utc_now
from portkit.store.record import make_record
from portkit.store.texts import BLOB as TEXTS
from portkit.targets.catalog import Catalog, load_catalog


@dataclass(frozen=True)
class Prepared:
    """A plan with all that carrying it out needs."""

    matrix: Matrix
    plan: Plan
    introspection: Introspection
    targets: Mapping[str, Target]

    @property
    def declarations(self) -> Mapping[str, CaseDeclaration]:
        """Cases that could be read, by name."""
        return self.introspection.cases

    @property
    def failures(self) -> Mapping[str, PortkitError]:
        """Kernel → why its file can't be used."""
        return self.introspection.failures

    @property
    def devices(self) -> tuple[Device, ...]:
        """GPUs of the host."""
        return self.introspection.host.devices


def prepare(
    path: Path,
    *,
    tier: str | None,
    selection: Selection,
    devices: Collection[int] | None = None,
    emulate: Emulate = Emulate.AUTO,
) -> Prepared:
    """Read matrix, kernel files, catalogue and host, and expand the plan.

    Args:
        path: of the matrix.
        tier: name of a tier; None for the default.
        selection: targets that the user chose.
        devices: GPUs of the host that may be used, by index; None for all.
        emulate: for which targets machine code is emulated.

    Raises:
        PortkitError: the matrix, the catalogue or the host does not allow a run.
    """
    matrix = read_matrix(path)
    check_kernel_files(matrix)
    catalog = load_catalog([Path(name) for name in matrix.target_files])
    introspection = introspect([kernel.source for kernel in matrix.kernels], matrix.target_files)
    host = choose_devices(introspection.host, devices)
    introspection = replace(introspection, host=host)
    targets = {target.name: target for target in _known(catalog, host.devices)}
    present = tuple(dict.fromkeys(device.target for device in host.devices))
    plan = Plan((), tier or default_tier(matrix), digest([]))
    if introspection.cases:  # with none, the failures alone are the message
        plan = expand(
            matrix,
            introspection.cases,
            targets,
            tier=tier,
            targets=selection,
            present=present,
            partitions=partitions_of(host.devices),
            emulatable=emulatable(targets.values()),
            emulate=emulate,
            triton=introspection.host.triton,
            resolve=lambda name: catalog.get(name).name,
            platforms={name: target.architecture.platform for name, target in targets.items()},
        )
    return Prepared(matrix, plan, introspection, targets)


def emulatable(targets: Iterable[Target]) -> tuple[str, ...]:
    """Targets whose machine code the instruction interpreter runs."""
    from portkit.emulate import ARCHITECTURES  # noqa: PLC0415 (loads NumPy)

    return tuple(target.name for target in targets if target.architecture.name in ARCHITECTURES)


@dataclass(frozen=True)
class Choices:
    """What a user chose about a run, apart from its cells."""

    folder: Path  # where the report goes
    resume: Path | None = None  # report of the run to go on with
    same_device: bool = False  # whether a resumed run must measure on the same device
    wait_seconds: float = 0.0  # for another run on the device
    sanitize: bool = False  # run small shapes of measured cells under compute-sanitizer
    shared_device: bool = False  # measure though somebody else uses the device
    modes: tuple[str, ...] = ()  # of timing, beside the two clocks: warm, graph
    probing: str = CACHED  # of ceilings: take over what is kept, measure anew, or off
    baselines: tuple[str, ...] | None = None  # by name; None: those of the tier
    counters: Choice = Choice.AUTO  # whether hardware counters are taken
    count_all: bool = False  # counters of baselines of compilers and libraries, too
    limits: Limits | None = None  # of time, for the counters; None: the defaults
    texts: bool = True  # keep source, IR and assembly of the kernels
    nonce: str | None = None  # word that the header is to have


class Run:
    """Carries out cells of a plan; every cell gets exactly one record.

    Args:
        prepared: the plan and what it needs.
        cells: the cells to carry out, a part of the plan or all of it.
        session: processes that may have been started early.
        choices: what the user chose about it.
        interruptions: held back while a record is written.
        watch: told how the run gets on.

    Raises:
        ReportError: the report can't be written, or the run to go on with can't.
        HostError: another run measures on a device, or somebody else uses it; counters are
            required, and their profiler can't be used.
    """

    def __init__(
        self,
        prepared: Prepared,
        cells: Sequence[PlannedCell],
        session: Session,
        choices: Choices,
        interruptions: Interruptions,
        watch: RunWatch | None = None,
    ) -> None:
        self._prepared = prepared
        self._planned = {(planned.evidence, planned.cell): planned for planned in cells}
        self._session = session
        self._sanitize = choices.sanitize
        self._modes = choices.modes
        self._baselines = choices.baselines
        self._counters = choices.counters
        self._count_all = choices.count_all
        self._limits = choices.limits or default_limits()
        self._texts = choices.texts
        self._counted: set[str] = set()  # keys of measured cells whose counters are written
        self._without_counters: list[str] = []  # why, for each of them that has none
        self._begun: Begun | None = None  # the profiler, which waits for its orders
        self._interruptions = interruptions
        self._watch = watch
        self._devices = measured_devices(prepared.devices, cells)
        self._probing = choices.probing
        self.records: dict[str, Record] = {}
        self.failure: PortkitError | None = None  # why the report could not be written to its end
        self._refused: dict[str, PortkitError] = {}  # label → why this record alone could not
        self._require_profilers()
        self._locks = hold_devices(self._devices, choices.wait_seconds)
        try:
            self.uses = check_alone(self._devices, shared=choices.shared_device, wait_seconds=choices.wait_seconds)
            self.journal = self._open(choices, _header(prepared, cells, choices))
        except BaseException:
            self._locks.close()
            raise
        self.header = self.journal.header
        host = prepared.introspection.host
        self._stamp = replace(  # settings are compared on resumption, but for the choice of devices
            self.header, host=replace(self.header.host, host_id=host.host_id, devices=host.devices)
        )
        if watch:
            watch.begin(len(cells), self.records.values())
        self._arriving = self._carry_out()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What disturbs the times of this run, and that counters are missing."""
        named = {device.device_id: f"GPU {device.index}, {device.name}" for device in self._devices}
        shared = [f"{named[key]}: {use}, so its times are disturbed" for key, use in self.uses.items() if use.shared]
        return (*shared, *([self._no_counters] if self._without_counters else []))

    @property
    def whole(self) -> bool:
        """Whether every cell has its record, and its counters where the run takes them."""
        return self._all_recorded and not self._uncounted

    @property
    def _all_recorded(self) -> bool:
        return len(self.records) == len(self._planned)

    @property
    def _uncounted(self) -> list[Record]:
        """Measured cells whose counters are yet to be taken."""
        here = {device.target for device in self._devices}
        wanted = [] if self._counters is Choice.OFF else filter(is_counted, self.records.values())
        return [each for each in wanted if each.cell.target in here and each.keys.cell_key not in self._counted]

    def record_of(self, planned: PlannedCell) -> Record:
        """The record of a cell; waits for it, and writes what comes in meanwhile.

        Raises:
            PortkitError: the run can't go on, as ``failure`` says; or this cell alone can't
                be written, and ``failure`` is None.
        """
        while planned.label not in self.records:
            if error := self.failure or self._refused.get(planned.label):
                raise error
            with self._breaking_off():
                if next(self._arriving, _END) is _END:
                    self._keep(planned, _never_answered(planned))
        return self.records[planned.label]

    def take_counters(self) -> None:
        """Take the hardware counters of measured cells, once all cells have their records, and write each.

        Raises:
            PortkitError: the report can't be written; or counters are required, and a cell has none.
        """
        if self.failure or not self._all_recorded:
            return
        with self._breaking_off(), self._interruptions.held():
            for counters in take_counters(self._uncounted, self._counting()):
                self.journal.add(counters)
                self._counted.add(counters.cell_key)
                if why := counters.nulls.get(FUNCTIONS):
                    self._without_counters.append(why)
        if self._without_counters and self._counters is Choice.REQUIRE:
            raise HostError(self._no_counters, remedy=f"drop {COUNTERS_OPTION} require")

    @property
    def _no_counters(self) -> str:
        count = len(self._without_counters)
        return f"{count} {'cell has' if count == 1 else 'cells have'} no hardware counters: {self._without_counters[0]}"

    def _counting(self) -> Counting:
        prepared, watch = self._prepared, self._watch
        return Counting(
            sources={name: declaration.source for name, declaration in prepared.declarations.items()},
            targets=prepared.targets,
            devices=self._devices,
            limits=self._limits,
            everything=self._count_all,
            store=self.journal.store_blob,
            load=partial(read_blob, self.journal.path),
            stop=lambda: self._interruptions.waiting,
            told=watch.counting if watch else lambda done, cells: None,
            begun=self._begun,
        )

    def _begin_profiler(self) -> None:
        """Have the profiler load what it needs while cells are built and PyTorch's compiler is loaded."""
        if self._counters is not Choice.OFF:
            self._begun = begin_early(
                (self._prepared.targets[device.target] for device in self._devices), local=self._count_all
            )

    def _require_profilers(self) -> None:
        if self._counters is Choice.REQUIRE:
            if not self._devices:
                raise HostError(
                    "hardware counters are required, and no chosen cell is measured: no GPU of a target is here",
                    remedy=f"`portkit doctor` tells of GPUs; or drop {COUNTERS_OPTION} require",
                )
            for device in self._devices:
                open_profiler(self._prepared.targets[device.target])

    @contextmanager
    def _breaking_off(self) -> Iterator[None]:
        """After a bug of ours the run stops: nothing is known of the cells that are left."""
        try:
            yield
        except PortkitError as error:
            self.failure = error
            raise
        except Exception as error:
            self.failure = WorkerError(f"the run broke off: {type(error).__name__}: {error}")
            raise

    def finish(self, exit_state: str) -> None:
        """End the report and close processes; what was finished is kept either way."""
        with self._interruptions.held(last=True):
            try:
                self._end(exit_state)
            except PortkitError as error:
                self.failure = self.failure or error
            self._session.close()
            if self._begun:
                self._begun.end()
            self._locks.close()

    def _end(self, exit_state: str) -> None:
        if self._nothing_new or self.failure:
            self.journal.close()
        else:
            self.journal.finish(exit_state)

    def _open(self, choices: Choices, header: Header) -> Journal:
        self._nothing_new = False
        if choices.resume is None:
            return Journal.create(choices.folder, header)
        journal, report = Journal.reopen(choices.resume)
        try:
            self._go_on(journal, report, header, same_device=choices.same_device)
        except BaseException:
            journal.close()
            raise
        return journal

    def _go_on(self, journal: Journal, report: Report, header: Header, *, same_device: bool) -> None:
        """Take over the records that stand, and say in the report that it goes on."""
        check_resumable(report, header, self._prepared.declarations, self._devices, same_device=same_device)
        kept = [record for record in report.records if not is_repeated(record)]
        self.records = {record.cell.label(record.evidence): record for record in kept}
        self._counted = {key for key, evidence in report.counters if evidence == Evidence.MEASURED.value}
        self._nothing_new = self.whole and report.partial is None
        if not self._nothing_new:
            host, repeated = header.host, len(report.records) - len(kept)
            journal.go_on(Resume(report.header.run_id, utc_now(), host.host_id, host.devices, repeated))

    def _carry_out(self) -> Iterator[None]:
        """Carry out all cells that have no record; yields after each that has one then, or can't."""
        left = [planned for planned in self._planned.values() if planned.label not in self.records]
        for planned in left:
            if planned.excluded is not None:
                outcome = Outcome(Status.EXCLUDED, Stage.PLAN, planned.excluded)
                self._keep(planned, CellResult(planned.cell, planned.evidence, outcome))
                yield
        prepared = self._prepared
        sources = {name: declaration.source for name, declaration in prepared.declarations.items()}
        baselines = {
            name: baselines_of(declaration.baselines, prepared.plan.tier, self._baselines)
            for name, declaration in prepared.declarations.items()
        }
        chains = chains_for(
            left,
            sources,
            prepared.targets,
            prepared.devices,
            sanitize=self._sanitize,
            modes=self._modes,
            baselines=baselines,
            lane_instructions=self._limits.lane_instructions,
        )
        for found in self._session.results(chains, self._watch, self._probes(left), self._begin_profiler):
            if isinstance(found, DeviceProbe):
                self._keep_probe(found)
            else:
                self._keep(self._planned[found.evidence, found.cell], found)
            yield

    def _probes(self, left: Sequence[PlannedCell]) -> list[Job]:
        """GPUs that are to be measured; what is known of the others is written."""
        wanted = {planned.cell.target for planned in left if planned.evidence is Evidence.MEASURED}
        jobs = []
        for device in (each for each in self._devices if each.target in wanted):
            target, host = self._prepared.targets[device.target], self._prepared.introspection.host
            if known := known_probe(host, device, target, self._probing):
                self._add_probe(known)
            else:
                jobs.append(probe_job(device, target))
        return jobs

    def _keep_probe(self, probe: DeviceProbe) -> None:
        """Write what was found out about a GPU, and keep it for later runs."""
        device = next(each for each in self._devices if each.device_id == probe.device_id)
        keep_probe(self._prepared.introspection.host, device, self._add_probe(probe))

    def _add_probe(self, probe: DeviceProbe) -> DeviceProbe:
        use = self.uses[probe.device_id]
        nulls = {**probe.nulls, **({"other_processes": use.why} if use.processes is None else {})}
        probe = replace(probe, run_id=self.header.run_id, other_processes=use.processes, nulls=nulls)
        with self._interruptions.held():
            try:
                self.journal.add(probe)
            except ReportError as error:
                self.failure = error
        return probe

    def _keep(self, planned: PlannedCell, result: CellResult) -> None:
        """Write a cell's record, wholly, whatever signal comes; note why it can't be."""
        with self._interruptions.held():
            try:
                record = self._append(planned, result)
            except ReportError as error:
                self._note(error, planned)
                return
            self.records[planned.label] = record
            if self._watch:
                self._watch.finished(record)

    def _append(self, planned: PlannedCell, result: CellResult) -> Record:
        """Write the record; one that no line can hold gives way to one that says so."""
        try:
            return self.journal.append(self._record(planned, result))
        except (ReportError, ValueError, TypeError) as error:
            if self._disk_refused(error):
                raise
            return self.journal.append(self._record(planned, _unwritable(result, error)))

    def _note(self, error: ReportError, planned: PlannedCell) -> None:
        """A disk that refuses ends the run; a cell whose names no line can hold costs itself."""
        if self._disk_refused(error):
            self.failure = error
        else:
            self._refused[planned.label] = error

    def _disk_refused(self, error: Exception) -> bool:
        return isinstance(error.__cause__, OSError) or self.journal.closed

    def _record(self, planned: PlannedCell, result: CellResult) -> Record:
        declaration = self._prepared.declarations[planned.cell.case]
        target = planned.cell.target
        return make_record(
            result,
            planned,
            header=self._stamp,
            params=declaration.variants[planned.cell.variant],
            source_hash=declaration.source_hash,
            architecture=None if target == INTERPRETER else self._prepared.targets[target].architecture.name,
            blobs={
                name: self.journal.store_blob(name, content)
                for name, content in result.blobs.items()
                if name != TEXTS or self._texts
            },
        )


class RunWatch(Watch, Protocol):
    """Whoever shows how a run gets on, from its beginning."""

    def begin(self, cells: int, known: Collection[Record]) -> None:
        """The run begins, with that many cells, of which some have a record already."""

    def finished(self, record: Record) -> None:
        """A cell has its record."""

    def counting(self, done: int, cells: int) -> None:
        """Hardware counters are taken; so many cells have theirs, of how many."""


_END = object()
_LONGEST = 400  # characters of a cause in the header


def _brief(error: PortkitError) -> str:
    """The cause in one line, without a user's paths."""
    text = scrub(error.render().partition("\n")[0])
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 2]} …"


def _unwritable(result: CellResult, error: Exception) -> CellResult:
    """What is said of a cell whose own record can't be written."""
    reason = error.message if isinstance(error, PortkitError) else f"{type(error).__name__}: {error}"
    message = f"its record can't be written: {reason}; it was {result.outcome.status}"
    outcome = Outcome(Status.CAPTURE_FAILED, result.outcome.stage, scrub(message))
    return CellResult(result.cell, result.evidence, outcome, seconds=result.seconds)


def default_limits(cell_seconds: float | None = None) -> Limits:
    """One worker a core that this process may use.

    Args:
        cell_seconds: time limit of one cell; None for the default.

    Raises:
        HostError: that is no time.
    """
    limits = Limits(workers=len(os.sched_getaffinity(0)), memory_bytes=default_memory())
    if cell_seconds is None:
        return limits
    return replace(limits, cell_seconds=check_seconds(cell_seconds, "--portkit-cell-seconds"))


def _known(catalog: Catalog, devices: Sequence[Device]) -> Iterator[Target]:
    yield from catalog
    for architecture in catalog.architectures:
        yield catalog.get(architecture.name)
    for device in devices:
        yield catalog.match_device(
            name=device.name,
            architecture=device.architecture,
            units=device.units,
            memory_bytes=device.memory_bytes,
        )


def _header(prepared: Prepared, cells: Sequence[PlannedCell], choices: Choices) -> Header:
    path = Path(prepared.matrix.path)
    return Header(
        run_id=new_run_id(),
        portkit=__version__,
        started=utc_now(),
        matrix=path.name,
        matrix_hash=hashlib.sha256(path.read_bytes()).hexdigest()[:16],
        tier=prepared.plan.tier,
        plan_hash=digest([planned.label for planned in cells]),
        cells=len(cells),
        host=prepared.introspection.host,
        targets=tuple(dict.fromkeys(planned.cell.target for planned in cells)),
        failures={name: _brief(error) for name, error in prepared.failures.items()},
        modes=choices.modes,
        baselines=choices.baselines,
        nonce=choices.nonce,
    )


def _never_answered(planned: PlannedCell) -> CellResult:
    outcome = Outcome(Status.WORKER_LOST, Stage.RUN, "no worker answered for this cell")
    return CellResult(planned.cell, planned.evidence, outcome)
