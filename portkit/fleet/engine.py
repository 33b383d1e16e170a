"""Hands the jobs of one attempt to ReFrame, and waits for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import metadata, util
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from portkit.errors import FleetError
from portkit.fleet.reframe_site import site_text

OLDEST: Final = "4.10"

_CHECKS: Final = Path(__file__).parent / "checks.py"
_START: Final = "import sys; from reframe.frontend.cli import main; sys.exit(main())"
_GRACE_SECONDS: Final = 20.0
"""What ReFrame may take to cancel its jobs; of those over ssh it does not always see the end."""

Say = Callable[[str], None]


def check_engine() -> None:
    """See that ReFrame is there, and new enough.

    Raises:
        FleetError: it is not.
    """
    remedy = "pip install 'portkit[fleet]'"
    if util.find_spec("reframe") is None:
        raise FleetError("ReFrame is not installed here, and it runs the jobs of a fleet", remedy=remedy)
    found = metadata.version("reframe-hpc")
    if Version(found) < Version(OLDEST):
        raise FleetError(f"ReFrame {found} is installed, and {OLDEST} or newer is needed", remedy=remedy)


def run_engine(folder: Path, site: Mapping[str, Any], say: Say) -> dict[str, str]:
    """Run the jobs of ``folder/plan.json``, and wait for the last.

    Args:
        folder: of the attempt.
        site: ReFrame's site configuration.
        say: told each line by which ReFrame shows a job's progress.

    Returns:
        Job → why it failed, in ReFrame's words, for those that did.

    Raises:
        FleetError: ReFrame itself failed.
        KeyboardInterrupt: it was stopped; jobs that ran were cancelled.
    """
    (folder / "site.yaml").write_text(site_text(site))
    report = folder / "reframe.json"
    with (folder / "reframe.log").open("wb") as log:
        process = subprocess.Popen(
            _command(folder, report),
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C is ours, to pass on once
        )
        _follow(process, log.write, say)
    if not report.is_file():
        raise FleetError(
            f"ReFrame ended with code {process.returncode} and ran no job: {_last_line(folder / 'reframe.log')}",
            place=str(folder / "reframe.log"),
            remedy="see that file",
        )
    return _failures(json.loads(report.read_text()))


def _command(folder: Path, report: Path) -> list[str]:
    words = ["-C", str(folder / "site.yaml"), "-c", str(_CHECKS), "-r", "--nocolor", "--keep-stage-files"]
    return [sys.executable, "-c", _START, *words, "--prefix", str(folder), "--report-file", str(report)]


def _environment(folder: Path) -> dict[str, str]:
    """Ours, without ReFrame's own variables, which would change its settings."""
    rest = {name: value for name, value in os.environ.items() if not name.startswith("RFM_")}
    return rest | {"PORTKIT_FLEET_PLAN": str(folder / "plan.json")}


def _follow(process: subprocess.Popen[bytes], keep: Callable[[bytes], object], say: Say) -> None:
    assert process.stdout is not None
    try:
        for line in process.stdout:
            keep(line)
            if line.lstrip().startswith((b"[ RUN", b"[  ", b"[ FAIL")):
                say(line.decode(errors="replace").strip())
        process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise


def _failures(report: Mapping[str, Any]) -> dict[str, str]:
    cases = [case for run in report["runs"] for case in run["testcases"]]
    return {case["job_name"]: _reason(case) for case in cases if case.get("result") not in ("pass", "success")}


def _reason(case: Mapping[str, Any]) -> str:
    return " ".join(str(case.get("fail_reason") or case.get("fail_info") or case.get("result")).split())


def _last_line(path: Path) -> str:
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it printed nothing"
