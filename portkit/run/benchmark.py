"""A run of the matrix: what pytest drives, without pytest.

``prepare`` reads the matrix and what it names; ``Run`` carries out the chosen
cells and writes each record the moment it is known.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from portkit import __version__
from portkit.errors import PortkitError
from portkit.model import (
    INTERPRETER,
    CaseDeclaration,
    CellResult,
    Device,
    Header,
    Matrix,
    Outcome,
    Plan,
    PlannedCell,
    Record,
    Stage,
    Status,
    Target,
    digest,
)
from portkit.plan.cases import Introspection, introspect
from portkit.plan.expand import Selection, default_tier, expand
from portkit.plan.matrix import read_matrix
from portkit.run.jobs import Limits
from portkit.run.session import Session, chains_for
from portkit.store.journal import Journal, new_run_id, utc_now
from portkit.store.record import make_record
from portkit.targets.catalog import Catalog, load_catalog


@dataclass(frozen=True)
class Prepared:
    """A plan with all that carrying it out needs."""

    matrix: Matrix
    plan: Plan
    declarations: Mapping[str, CaseDeclaration]
    failures: Mapping[str, PortkitError]  # kernel → why its file can't be used
    introspection: Introspection
    targets: Mapping[str, Target]
    devices: tuple[Device, ...]


def prepare(path: Path, *, tier: str | None, selection: Selection) -> Prepared:
    """Read matrix, kernel files, catalogue and host, and expand the plan.

    Raises:
        PortkitError: the matrix, the catalogue or the host does not allow a run.
    """
    matrix = read_matrix(path)
    catalog = load_catalog([Path(name) for name in matrix.target_files])
    introspection = introspect([kernel.source for kernel in matrix.kernels], matrix.target_files)
    devices = introspection.host.devices
    targets = {target.name: target for target in _known(catalog, devices)}
    present = tuple(dict.fromkeys(device.target for device in devices))
    plan = Plan((), tier or default_tier(matrix), digest([]))
    if introspection.cases:  # with none, the failures alone are the message
        version = introspection.host.triton
        plan = expand(
            matrix, introspection.cases, targets, tier=tier, targets=selection, present=present, triton=version
        )
    return Prepared(matrix, plan, introspection.cases, introspection.failures, introspection, targets, devices)


class Run:
    """Carries out cells of a plan; every cell gets exactly one record.

    Args:
        prepared: the plan and what it needs.
        cells: the cells to carry out, a part of the plan or all of it.
        folder: where the report goes.
        session: processes that may have been started early.
    """

    def __init__(self, prepared: Prepared, cells: Sequence[PlannedCell], folder: Path, session: Session) -> None:
        self._prepared = prepared
        self._planned = {(planned.evidence, planned.cell): planned for planned in cells}
        self._session = session
        self.records: dict[str, Record] = {}
        self.header = _header(prepared, cells)
        self.journal = Journal.create(folder, self.header)
        self._arriving = self._carry_out()

    def record_of(self, planned: PlannedCell) -> Record:
        """The record of a cell; waits for it, and writes what comes in meanwhile."""
        while planned.label not in self.records:
            record = next(self._arriving, None)
            if record is None:
                return self._keep(planned, _never_answered(planned))
        return self.records[planned.label]

    def finish(self, exit_state: str) -> None:
        """Close processes and report; what was finished is kept either way."""
        self._session.close()
        self.journal.finish(exit_state)

    def _carry_out(self) -> Iterator[Record]:
        for planned in self._planned.values():
            if planned.excluded is not None:
                outcome = Outcome(Status.EXCLUDED, Stage.PLAN, planned.excluded)
                yield self._keep(planned, CellResult(planned.cell, planned.evidence, outcome))
        prepared = self._prepared
        sources = {name: declaration.source for name, declaration in prepared.declarations.items()}
        chains = chains_for(list(self._planned.values()), sources, prepared.targets, prepared.devices)
        for result in self._session.results(chains):
            yield self._keep(self._planned[result.evidence, result.cell], result)

    def _keep(self, planned: PlannedCell, result: CellResult) -> Record:
        declaration = self._prepared.declarations[planned.cell.case]
        target = planned.cell.target
        record = make_record(
            result,
            planned,
            header=self.header,
            params=declaration.variants[planned.cell.variant],
            source_hash=declaration.source_hash,
            architecture=None if target == INTERPRETER else self._prepared.targets[target].architecture.name,
            blobs={name: self.journal.store_blob(name, content) for name, content in result.blobs.items()},
        )
        self.records[planned.label] = self.journal.append(record)
        return record


def default_limits(cell_seconds: float | None = None) -> Limits:
    """One worker a core that this process may use."""
    limits = Limits(workers=len(os.sched_getaffinity(0)))
    return limits if cell_seconds is None else replace(limits, cell_seconds=cell_seconds)


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


def _header(prepared: Prepared, cells: Sequence[PlannedCell]) -> Header:
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
    )


def _never_answered(planned: PlannedCell) -> CellResult:
    outcome = Outcome(Status.WORKER_LOST, Stage.RUN, "no worker answered for this cell")
    return CellResult(planned.cell, planned.evidence, outcome)
