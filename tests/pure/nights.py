"""Made-up nights of one kernel, for the history and the trend."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from factories import build as build_of
from factories import header, host, launch, record, timing

from portkit.model import Evidence, Outcome, Stage, Status
from portkit.store.journal import Journal


def night(folder: Path, day: int, *, fused_ms: float = 0.5, registers: int = 32, **changes: Any) -> Path:
    """The report of one night: softmax measured on an H200 and built for an MI300X.

    Args:
        folder: of the report.
        day: of November 2026.
        fused_ms: time on both clocks' medians.
        registers: of the build for the MI300X.
        changes: of the host, such as ``triton``; ``device`` and ``status`` are the measured row's, ``portkit``
            the run's.
    """
    device, status = changes.pop("device", "d0d0"), changes.pop("status", Status.PASSED)
    source = changes.pop("source", "5" * 16)
    started = datetime.datetime(2026, 11, day, 2, 17, tzinfo=datetime.UTC)
    run = header(
        run_id=f"202611{day:02}T021700Z-0badcafe",
        started=started.isoformat(),
        portkit=changes.pop("portkit", "0.1.0"),
        cells=2,
        host=host(**changes),
    )
    good = status is Status.PASSED
    measured = record(
        Evidence.MEASURED,
        run=run,
        source_hash=source,
        device=device,
        outcome=Outcome(status) if good else Outcome(status, Stage.VERIFY, "off by 1"),
        timing=timing(fused_ms) if good else None,
    )
    built = record(run=run, source_hash=source, target="mi300x", build=build_of(launch(registers)))
    journal = Journal.create(folder, run)
    journal.append(measured)
    journal.append(built)
    journal.finish()
    return journal.path
