"""Runs the cases as any user would, by ``pytest --benchmark`` in a folder of its own, and judges the report."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from portkit.errors import HostError
from portkit.model import Device
from portkit.run.selftest.judge import CASES, Checked, judge
from portkit.store.journal import Report, read_report
from portkit.targets.catalog import load_catalog

_CASES: Final = Path(__file__).with_name("cases.py")
_COPY: Final = "known_kernels.py"
SECONDS: Final = 300.0
"""After which a run that should take less than two minutes is given up."""

_OPTIONS: Final = (
    *("--portkit-baselines", "eager", "--portkit-emulate", "off", "--portkit-probe", "off"),
    *("--portkit-cell-seconds", "60", "-p", "no:cacheprovider", "-q"),
)
_NO_GPU: Final = "no GPU 0 is here"  # says a run that is given --portkit-devices 0


@dataclass(frozen=True)
class Trial:
    """What a run of the cases left."""

    report: Report
    device: Device
    checks: tuple[Checked, ...]


def run_trial(
    folder: Path | None = None, options: Sequence[str] = (), shapes: Mapping[str, str] | None = None
) -> Trial:
    """Measure the cases on this host's first GPU, and judge what portkit says of them.

    Args:
        folder: where the report goes, and stays; a folder for temporary files unless given.
        options: more of ``pytest --benchmark``.
        shapes: case → another shape than its own, as a matrix has it.

    Raises:
        HostError: the run left no report, or there is no GPU.
    """
    folder = folder or Path(tempfile.mkdtemp(prefix="portkit-selftest-"))
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_CASES, folder / _COPY)  # as a user's file: a case within portkit has no source of its own
    (folder / "matrix.yaml").write_text(matrix(shapes or {}), encoding="utf-8")
    output = _pytest(folder, options)
    reports = sorted((folder / "reports" / "local").glob("*.jsonl"))
    if not reports:
        raise _no_report(output)
    report = read_report(reports[-1])
    return Trial(report, device := _measured_on(report), tuple(_checks(report, device)))


def matrix(shapes: Mapping[str, str]) -> str:
    """The matrix of the cases; its targets are those of the host."""
    own = {name: f", shapes: [{shape}]" for name, shape in shapes.items()}
    kernels = "".join(f"  {name}: {{path: {_COPY}{own.get(name, '')}}}\n" for name in CASES)
    return f"version: 1\nkernels:\n{kernels}targets: [h200]\n"


def _pytest(folder: Path, options: Sequence[str]) -> str:
    command = [sys.executable, "-m", "pytest", "--benchmark", "--portkit-devices", "0", *_OPTIONS, *options]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise HostError(f"the run took more than {SECONDS:g} s", remedy="see `portkit doctor`") from error
    return done.stdout + done.stderr


def _measured_on(report: Report) -> Device:
    if not report.header.host.devices:
        raise HostError("torch sees no GPU here", remedy="see `portkit doctor`; what needs no GPU has tests of its own")
    return report.header.host.devices[0]


def _checks(report: Report, device: Device) -> Iterator[Checked]:
    catalog = load_catalog()
    target = catalog.match_device(
        name=device.name, architecture=device.architecture, units=device.units, memory_bytes=device.memory_bytes
    )
    return judge(report, device, target)


def _no_report(output: str) -> HostError:
    if _NO_GPU in output:
        remedy = "run it on a host with a GPU; `portkit doctor` says what is missing here"
        return HostError("no GPU is here that torch can use", remedy=remedy)
    return HostError(f"the run left no report: {_last(output)}", remedy="see `portkit doctor`")


def _last(output: str) -> str:
    """What pytest says last before it sums up, but for rulers and the remedy of an error."""
    told = re.split("(?m)^=+ short test summary", output)[0]
    lines = [line.strip() for line in told.splitlines()]
    words = [line for line in lines if line and not line.startswith(("==", "__", "remedy:"))]
    return words[-1][:300] if words else "no output"
