"""Carries out checks: the cells of calls without a matrix, in the same processes and to the same records.

A report is kept for each, in the user's cache folder unless another is named, so that ``portkit
findings``, ``portkit merge`` and the like work on it. Where nothing that a check depends on has
changed, the kept report is its result: :mod:`portkit.run.kept_checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from portkit import __version__
from portkit.errors import CaseError
from portkit.model import CaseSource, CellResult, Header, Host, PlannedCell, Record, Stage, Status, Target, digest
from portkit.plan.cases import introspect
from portkit.plan.check import CALL, cells_of, named_apart
from portkit.run.benchmark import RunWatch, default_limits, emulatable
from portkit.run.inductor.process import seen_in_script
from portkit.run.interrupt import Interruptions
from portkit.run.kept_checks import Call, Kept, keep, kept_report
from portkit.run.session import Session, chains_for
from portkit.run.source_hash import source_hash
from portkit.store.journal import Journal, new_run_id, utc_now
from portkit.store.record import make_record

TIER = "check"
"""What the header of a check's report names as its tier."""


@dataclass(frozen=True)
class Checked:
    """A check's report."""

    report: Path
    records: tuple[Record, ...]
    kept: bool = False  # whether it is of an earlier run, since nothing has changed

    @property
    def unusable(self) -> str | None:
        """Why a function could not be called at all, on no target; None where all could."""
        by_case: dict[str, list[Record]] = {}
        for record in self.records:
            by_case.setdefault(record.cell.case, []).append(record)
        for records in by_case.values():
            outcomes = {(each.outcome.status, each.outcome.stage) for each in records}
            if outcomes == {(Status.CAPTURE_FAILED, Stage.IMPORT)}:
                return records[0].outcome.message
        return None


def run_checks(
    sources: Sequence[CaseSource],
    targets: Sequence[Target],
    *,
    folder: Path,
    emulate: bool = False,
    fresh: bool = False,
    watch: RunWatch | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Checked:
    """Build every call for every target, and write the records.

    Args:
        sources: of the checks, each with its ``check``.
        targets: to build for.
        folder: where reports go.
        emulate: whether the machine code of targets that can be emulated runs, too.
        fresh: build again though nothing has changed.
        watch: told how it gets on.
        tell: hears, for people, what is done before the first cell.

    Raises:
        PortkitError: the host lacks what it needs, a source is missing, or the report can't be written.
    """
    sources = named_apart(sources)
    call = Call(tuple(sources), tuple(targets), emulate)
    if not fresh and (report := kept_report(folder, call)):
        return Checked(Path(report.path), report.records, kept=True)
    names = [target.name for target in targets]
    emulated = emulatable(targets) if emulate else ()
    planned = [cell for source in sources for cell in cells_of(source, names, emulated)]
    session, interruptions = Session(default_limits()), Interruptions()
    interruptions.install()
    generated = ExitStack()
    try:
        session.prestart()
        host = introspect((), ()).host
        if has_gpu(host):
            kernels = Path(generated.enter_context(TemporaryDirectory(prefix="portkit-check-")))
            call = replace(call, sources=tuple(_with_generated(sources, kernels, tell)))
        journal = Journal.create(folder, _header(host, sources, planned, targets))
        records = _carry_out(_Run(journal, session, interruptions, watch), call, planned)
        journal.finish("complete")
    finally:
        session.close()
        generated.close()
        interruptions.restore()
    return Checked(journal.path, tuple(records))


def has_gpu(host: Host) -> bool:
    """Whether a script could run here as it is."""
    return bool(host.devices)


def _with_generated(sources: Iterable[CaseSource], folder: Path, tell: Callable[[str], None]) -> Iterator[CaseSource]:
    """Scripts with the kernels that torch.compile generates in them for the GPU of this host."""
    for number, source in enumerate(sources):
        check = source.check
        if check is None or not check.script:
            yield source
            continue
        tell("running the script on this GPU, for the kernels that torch.compile generates in it")
        answer = folder / str(number)
        seen = seen_in_script(check.script, answer, lambda seconds: tell(f"the script still runs, {seconds:.0f} s"))
        if seen.launches:
            tell(
                f"{len(seen.kernels)} kernels of torch.compile, generated for {seen.device}, are built for each target"
            )
        yield replace(source, check=replace(check, generated=str(answer))) if seen.launches else source


@dataclass(frozen=True)
class _Run:
    journal: Journal
    session: Session
    interruptions: Interruptions
    watch: RunWatch | None


def _carry_out(run: _Run, call: Call, planned: Sequence[PlannedCell]) -> list[Record]:
    known = {target.name: target for target in call.targets}
    hashes = {source.name: _hash(source) for source in call.sources}
    cells = {(each.evidence, each.cell): each for each in planned}
    if run.watch:
        run.watch.begin(len(planned), ())
    records, kept = [], Kept()
    for found in run.session.results(chains_for(planned, {s.name: s for s in call.sources}, known), run.watch):
        if not isinstance(found, CellResult):
            continue  # probes of devices: none was asked for
        kept.add(found)
        with run.interruptions.held():
            record = _record(run.journal, cells[found.evidence, found.cell], found, hashes, known)
        records.append(record)
        if run.watch:
            run.watch.finished(record)
    keep(run.journal.path, call, kept)
    return records


def _record(
    journal: Journal,
    planned: PlannedCell,
    result: CellResult,
    hashes: Mapping[str, str],
    targets: Mapping[str, Target],
) -> Record:
    blobs = {name: content for name, content in result.blobs.items() if name != Kept.BLOB}
    record = make_record(
        replace(result, blobs={}),
        planned,
        header=journal.header,
        params={},
        source_hash=hashes[planned.cell.case],
        architecture=targets[planned.cell.target].architecture.name,
        blobs={name: journal.store_blob(name, content) for name, content in blobs.items()},
    )
    return journal.append(record)


def _hash(source: CaseSource) -> str:
    """Hash of a check: its call, and the sources that its function is made of."""
    check = source.check
    assert check is not None
    call = [check.function, check.arguments, check.init, check.grid, check.backward, check.script[1:]]
    path = check.script[0] if check.script else source.path
    try:
        return digest([call, source_hash(CaseSource(source.name, path=path, module=None if path else source.module))])
    except CaseError:  # what does not parse, or has no file, is told by the worker that imports it
        return digest([call, str(source)])


def _header(
    host: Host, sources: Iterable[CaseSource], planned: Sequence[PlannedCell], targets: Sequence[Target]
) -> Header:
    names = [source.name for source in sources]
    return Header(
        run_id=new_run_id(),
        portkit=__version__,
        started=utc_now(),
        matrix=f"check {', '.join(names[:3])}{' …' if len(names) > 3 else ''}",
        matrix_hash=digest([CALL, *names]),
        tier=TIER,
        plan_hash=digest([each.label for each in planned]),
        cells=len(planned),
        host=host,
        targets=tuple(target.name for target in targets),
    )
