"""Going on with a run that was cut short: which one, whether it may, and what is left to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from portkit.errors import ReportError, nearest
from portkit.model import CaseDeclaration, Device, Evidence, Header, Host, Record
from portkit.store.journal import Report
from portkit.store.record import CHOICE_OF_DEVICE

LATEST: Final = "latest"
"""What a user writes for the newest report of the folder."""


def is_repeated(record: Record) -> bool:
    """Whether a resumed run runs a cell again that has a record; never one that is as the matrix expects."""
    return record.outcome.no_verdict and record.outcome.status is not record.expected


def find_report(folder: Path, name: str) -> Path:
    """The report to go on with.

    Args:
        folder: where reports are kept.
        name: a run id, a report's path, or ``latest``.

    Raises:
        ReportError: there is no such report.
    """
    path = Path(name)
    if path.suffix == ".jsonl" and path.is_file():
        return path
    known = {each.stem: each for each in sorted(folder.glob("*.jsonl"))}
    if name == LATEST and known:
        return known[max(known)]
    if name not in known:
        raise ReportError(
            "no report is here to go on with" if name == LATEST else f"no report of a run {name!r}",
            place=str(folder),
            remedy=f"name a run id or a report: {nearest(name, known)}" if known else "start a run without resuming",
        )
    return known[name]


def check_resumable(
    report: Report,
    now: Header,
    declarations: Mapping[str, CaseDeclaration],
    devices: Sequence[Device],
    *,
    same_device: bool,
) -> None:
    """Refuse where what follows would not be of one piece with what is there.

    Args:
        report: as it stands.
        now: the header that a new run would have.
        declarations: cases as they are now.
        devices: of this host, that cells would be measured on.
        same_device: whether another device of the same SKU is refused too.

    Raises:
        ReportError: source, matrix, plan, versions, settings or SKU differ; names each.
    """
    then = report.header
    differences = [
        *_plan_differences(then, now),
        *_source_differences(report.records, declarations),
        *_host_differences(then.host, now.host),
        *(_device_differences(report, devices) if same_device else ()),
    ]
    if then.portkit != now.portkit:
        differences.append(_changed("portkit", then.portkit, now.portkit))
    if differences:
        raise ReportError(
            "the run can't go on: " + "; ".join(differences),
            place=report.path,
            remedy="start a new run, or undo what changed",
        )


def _plan_differences(then: Header, now: Header) -> Iterator[str]:
    if then.matrix != now.matrix:
        yield _changed("the matrix", then.matrix, now.matrix)
    elif then.matrix_hash != now.matrix_hash:
        yield f"{then.matrix} was edited"
    if then.tier != now.tier:
        yield _changed("tier", then.tier, now.tier)
    elif then.matrix_hash == now.matrix_hash and then.plan_hash != now.plan_hash:
        yield _other_cells(then, now)
    if then.modes != now.modes:
        yield _changed("modes of timing", then.modes, now.modes)
    if then.baselines != now.baselines:
        yield _changed("baselines", _asked(then), _asked(now))


def _asked(header: Header) -> object:
    return "those of the tier" if header.baselines is None else header.baselines


def _other_cells(then: Header, now: Header) -> str:
    """Why the plans differ: other GPUs get other measured cells, otherwise it is the choice."""
    before, after = (tuple(sorted({device.target for device in header.host.devices})) for header in (then, now))
    if before != after:
        return _changed("GPUs of the host:", before, after)
    return f"other cells are chosen ({then.cells} then, {now.cells} now): give the same -k, node ids and targets"


def _source_differences(records: Sequence[Record], declarations: Mapping[str, CaseDeclaration]) -> Iterator[str]:
    recorded = {(record.cell.case, record.keys.source_hash) for record in records}
    changed = {case for case, source in recorded if case in declarations and declarations[case].source_hash != source}
    if changed:
        yield f"the source of {', '.join(sorted(changed))} changed"


def _host_differences(then: Host, now: Host) -> Iterator[str]:
    for name in ("python", "torch", "triton", "toolkit", "driver", "backends"):
        before, after = getattr(then, name), getattr(now, name)
        if before != after:
            yield _changed(name, before, after)
    for name in sorted((set(then.settings) | set(now.settings)) - CHOICE_OF_DEVICE):
        if then.settings.get(name) != now.settings.get(name):
            yield _changed(name, then.settings.get(name), now.settings.get(name))


def _device_differences(report: Report, devices: Sequence[Device]) -> Iterator[str]:
    used = {record.device_id for record in report.records if record.evidence is Evidence.MEASURED} - {None}
    if not used <= {device.device_id for device in devices}:
        yield "it is another device of the same SKU, which --portkit-same-device forbids"


def _changed(what: str, before: object, after: object) -> str:
    return f"{what} {_text(before)} → {_text(after)}"


def _text(value: object) -> str:
    return ", ".join(value) or "none" if isinstance(value, tuple) else "none" if value is None else str(value)
