"""What GPUs can do at most, as earlier runs found it and kept it; no torch.

Kept per host, device, driver, torch, toolkit and portkit, since each changes what a
device reaches, in ``ceilings/`` of the user's cache folder, and taken over for a week.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path
from pydantic import TypeAdapter, ValidationError

from portkit import __version__
from portkit.model import CaseSource, Device, DeviceProbe, Evidence, Host, Target, digest
from portkit.run.jobs import Job
from portkit.store.journal import utc_now

LONGEST_DAYS: Final = 7.0
"""Days for which figures are taken over: drivers settings and cooling change unseen."""

CACHED, FRESH, OFF = PROBING = ("cached", "fresh", "off")
"""What a user may choose: take over what is kept, measure anew, or do without."""

FIGURES: Final = (
    "copy_gbs",
    "read_gbs",
    "write_gbs",
    "matmul_tflops",
    "event_overhead_us",
    "launch_us",
    "graph_launch_us",
    "evicted",
)
"""Fields of a probe that are measured with the device to oneself."""

_ADAPTER: Final = TypeAdapter(DeviceProbe)


def unprobed(device: Device, target: Target, why: str) -> DeviceProbe:
    """A probe that found nothing out, and why."""
    return DeviceProbe("", device.device_id, target.name, utc_now(), nulls=dict.fromkeys(FIGURES, why))


def probe_job(device: Device, target: Target) -> Job:
    """What a worker is asked in order to measure a GPU."""
    return Job(Evidence.MEASURED, CaseSource("ceilings"), (), target, devices=(device,), probe=True)


def known_probe(host: Host, device: Device, target: Target, how: str) -> DeviceProbe | None:
    """What need not be measured, by the user's choice among :data:`PROBING`; None where it must be."""
    if how == OFF:
        return unprobed(device, target, "not asked for: --portkit-probe off")
    return load_probe(host, device) if how == CACHED else None


def load_probe(host: Host, device: Device, folder: Path | None = None) -> DeviceProbe | None:
    """What an earlier run found on the device, if it is kept, readable and not too old."""
    try:
        found = _ADAPTER.validate_json(_path(host, device, folder).read_bytes())
    except (OSError, ValidationError):
        return None
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(found.measured)
    fresh = datetime.timedelta(0) <= age <= datetime.timedelta(days=LONGEST_DAYS)
    return found if fresh and found.device_id == device.device_id else None


def keep_probe(host: Host, device: Device, probe: DeviceProbe, folder: Path | None = None) -> None:
    """Keep what was found for later runs; a folder that can't be written keeps nothing.

    Only a probe that found bandwidths and rates, with nobody else on the device, is worth keeping.
    """
    if probe.copy_gbs is None or not probe.matmul_tflops or probe.other_processes != 0:
        return
    path = _path(host, device, folder)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(path, json.dumps(asdict(replace(probe, run_id="", other_processes=None)), indent=1))


def _path(host: Host, device: Device, folder: Path | None) -> Path:
    identity: Sequence[str | None] = (
        host.host_id,
        device.device_id,
        host.driver,
        host.torch,
        host.toolkit,
        __version__,
    )
    return (folder or user_cache_path("portkit") / "ceilings") / f"{digest(identity)}.json"


def _write_whole(path: Path, text: str) -> None:
    """Two runs may write at once: the last one's file is there, whole."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as scratch:
        scratch.write(text)
    Path(scratch.name).replace(path)
