"""AMD's profiler, rocprofv3: its command, and what it complains of.

It counts few things at once, so the program runs once a counter
(:data:`~portkit.run.counters.rocprof_metrics.COUNTERS`). It has no ranges in its tables: the
program launches markers (:mod:`~portkit.run.counters.marker_ranges`). Its tool is a library
within the program, so a program that is killed leaves no table.

Neither exit code nor a lack of complaints says that something was counted: the tables do.
Written from its source and documentation; not yet run on AMD hardware.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from portkit.model import Counted, Target
from portkit.run.counters import SAID, BuiltKernel, Kernel, Table, Trouble, as_error, parts
from portkit.run.counters.markers import in_ranges
from portkit.run.counters.rocprof_metrics import BLOCKS, COUNTERS, DURATION, GATED, LDS, THREADS, RocprofMetrics
from portkit.run.counters.rocprof_tables import Dispatch, Dispatches, read_folder
from portkit.run.scrub import scrub

OLDEST: Final = (6, 4)
"""ROCm whose rocprofv3 has all options and columns used here."""

WITH_DATABASE: Final = (7, 0)
"""ROCm from which on it can write a database, which has the LDS of a launch."""

NOT_INSTALLED: Final = Trouble(
    "rocprofv3 is not installed",
    "install rocprofiler-sdk of ROCm 6.4 or later, and put rocprofv3 on the PATH",
)

NO_PERMISSION: Final = Trouble(
    "no permission to lock the GPU for counting (rocprofv3: capability SYS_PERFMON), so its counters may be wrong",
    "run as root or with CAP_PERFMON (a container: --cap-add=PERFMON); kernel.perf_event_paranoid is no matter",
)

_REMEDY_OLD: Final = f"install rocprofiler-sdk of ROCm {OLDEST[0]}.{OLDEST[1]} or later, best that of torch"

_TROUBLES: Final[Mapping[str, Trouble]] = {
    "could not be locked for profiling due to lack of permissions": NO_PERMISSION,
    "Required permission (CAP_PERFMON) is not set": NO_PERMISSION,
    "has a profiler attached to it": Trouble(
        "another profiler is attached to the GPU (rocprofv3), so counters may be wrong", "stop the other profiler"
    ),
    "Request exceeds the capabilities of the hardware": Trouble(
        "the GPU can't count what the counter is made of in one pass (rocprofv3: error 38)",
        "use a rocprofv3 of a later ROCm",
    ),
    "Context has a conflict with another context": Trouble(
        "another profiling tool is at work in the process (rocprofv3)",
        "unset LD_PRELOAD, HSA_TOOLS_LIB and ROCP_TOOL_LIBRARIES",
    ),
    "hsa_init failed": Trouble(
        "rocprofv3 can't open the GPU", "let the user into the groups render and video, and pass /dev/kfd and /dev/dri"
    ),
}
"""What rocprofv3 says → why nothing can be counted in that pass.

Source of words and remedies: rocprofiler-sdk's source and its documentation of ``rocprofv3-doctor``.
"""

_NO_COUNTER: Final = Trouble(
    "this rocprofv3 has no such counter for the GPU", "see `rocprofv3 -L`, and use that of a later ROCm"
)
_LACKS_COUNTER = re.compile(r"Unable to find all counters for agent \S+ \((?:gpu-\d+, )?(\w+)\)")

_BAD_OPTION = re.compile(r"^rocprofv3\S*: error:|No tracing options were enabled", re.M)
_ERROR = re.compile(r"^(?:(?:\[rocprofv3\] )?Fatal error:|[FE]\d{4,8}\b.*?\])\s*(.+)", re.M)
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_ROCM_VERSION = re.compile(r"rocm_version:\s*(\d+(?:\.\d+)+)")
_SDK_VERSION = re.compile(r"^\s*version:\s*(\d+)\.", re.M)
_OUTPUT: Final = "tables"
_NAME: Final = "portkit"
_ROOT: Final = Path("/opt/rocm")
_SECONDS = 60.0  # for rocprofv3 to tell its version


@dataclass(frozen=True)
class Rocprof:
    """rocprofv3 as it is installed."""

    path: str
    version: str  # of ROCm
    metrics: RocprofMetrics

    @property
    def tool(self) -> str:
        """Name and version."""
        return f"rocprofv3 of ROCm {self.version}"

    @property
    def log(self) -> str:
        """It complains where the program prints."""
        return SAID

    @property
    def passes(self) -> int:
        """One a counter."""
        return len(COUNTERS)

    @property
    def early(self) -> bool:
        """It may set its counters up when the program loads ROCm; not known, as it was not seen on a device."""
        return False

    def command(self, program: Sequence[str], folder: Path, number: int) -> list[str]:
        """How it runs a program for one counter, with a trace of all kernels beside it."""
        formats = ("csv", "rocpd") if parts(self.version) >= WITH_DATABASE else ("csv",)
        return [
            self.path,
            *("--pmc", COUNTERS[number], "--kernel-trace"),
            *("--output-format", *formats, "-d", str(folder / _OUTPUT), "-o", _NAME),
            *("--", *program),
        ]

    def trouble(self, output: str) -> Trouble | None:
        """What it says against counting anything in a pass."""
        known = next((trouble for words, trouble in _TROUBLES.items() if words in output), None)
        if self._lacks_counter(output):
            known = known or _NO_COUNTER
        if known or not _BAD_OPTION.search(output):
            return known
        return Trouble(f"{self.tool} refuses its options: {_last_error(output)}", _REMEDY_OLD)

    def _lacks_counter(self, output: str) -> bool:
        """Whether the GPU lacks it: rocprofv3 asks all GPUs of the host, an APU's graphics among them."""
        return self.metrics.target.architecture.name in _LACKS_COUNTER.findall(output)

    def last_words(self, output: str) -> str | None:
        """Its own error."""
        return _last_error(output) or None

    def read(self, folder: Path, number: int) -> Table | None:
        """The table of one counter; where that is 0 for every kernel, it counted nothing."""
        dispatches = read_folder(folder / _OUTPUT)
        return None if dispatches is None else _table(dispatches, COUNTERS[number])

    def without(self, number: int, why: str) -> dict[str, str]:
        """The pass's one counter."""
        return {COUNTERS[number]: why}

    def count(
        self, kernels: Sequence[Kernel], built: Sequence[BuiltKernel], lacking: Mapping[str, str]
    ) -> tuple[Counted, dict[str, str]]:
        """One call's figures from its kernels."""
        return self.metrics.count(kernels, built, lacking)


def _table(dispatches: Dispatches, counter: str) -> Table:
    values = [row.counters[counter] for row in dispatches.rows if counter in row.counters]
    kernels = tuple(_kernel(row, name) for name, row in in_ranges(dispatches.rows))
    if any(values) or not values:
        return Table(kernels, dispatches.whole)
    why = f"{counter} is 0 for every kernel of the run: {GATED}"
    return Table(tuple(_without(kernel, counter) for kernel in kernels), dispatches.whole, {counter: why})


def _without(kernel: Kernel, counter: str) -> Kernel:
    return replace(kernel, metrics={name: value for name, value in kernel.metrics.items() if name != counter})


def _kernel(row: Dispatch, name: str) -> Kernel:
    x, y, z = row.threads
    blocks = row.blocks[0] * row.blocks[1] * row.blocks[2]
    shape = {DURATION: float(row.duration_ns), BLOCKS: float(blocks), THREADS: float(x * y * z)}
    if row.lds_bytes is not None:
        shape[LDS] = float(row.lds_bytes)
    fields = {"Block Size": str(row.threads), "Grid Size": str(row.blocks)}
    return Kernel(name, row.name, {**shape, **row.counters}, fields)


def open_rocprof(target: Target) -> Rocprof:
    """rocprofv3 of this host.

    Args:
        target: the SKU whose counters are to be read.

    Raises:
        HostError: there is none, it does not run, or it is too old.
    """
    path = find_rocprof()
    if path is None:
        raise as_error(NOT_INSTALLED)
    version = rocprof_version(path)
    if parts(version) < OLDEST:
        raise as_error(Trouble(f"rocprofv3 of ROCm {version} is too old", _REMEDY_OLD))
    return Rocprof(path, version, RocprofMetrics(target))


def find_rocprof(environment: Mapping[str, str] | None = None) -> str | None:
    """Where rocprofv3 is: on the PATH, else where ROCm lies, of several the newest."""
    environment = os.environ if environment is None else environment
    named = (environment.get(name) for name in ("ROCM_PATH", "ROCM_HOME", "ROCM_DIR"))
    cores = sorted(_ROOT.glob("core-*"), key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)], reverse=True)
    roots = (*named, _ROOT, *cores)
    places = [environment.get("PATH", ""), *(f"{root}/bin" for root in roots if root)]
    return shutil.which("rocprofv3", path=os.pathsep.join(places))


@functools.cache
def rocprof_version(path: str) -> str:
    """Version of its ROCm, such as ``6.4.1``: a file beside it has it, and from 7.0 on it tells.

    Raises:
        HostError: it does not run, or nobody tells a version.
    """
    file = Path(path).resolve().parent.parent / ".info" / "version"
    if file.is_file() and (match := _VERSION.search(file.read_text(errors="replace"))):
        return match[0]
    said = _said_version(path)
    if match := _ROCM_VERSION.search(said):
        return match[1]
    if match := _SDK_VERSION.search(said):
        return f"{int(match[1]) + 6}.0"  # rocprofiler-sdk 1 came with ROCm 7, 0.6 (with no --version) with 6.4
    line = scrub(said.strip().partition("\n")[0])[:200] or "nothing"
    raise as_error(Trouble(f"rocprofv3 tells no version: {line}", _REMEDY_OLD))


def _said_version(path: str) -> str:
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise as_error(Trouble(f"rocprofv3 does not run: {scrub(str(error))}", "reinstall rocprofiler-sdk")) from error
    return done.stdout + done.stderr


def _last_error(output: str) -> str:
    found = [text.strip() for text in _ERROR.findall(output)]
    found = found or [line.strip() for line in output.splitlines() if "error:" in line]
    return scrub(found[-1])[:300] if found else ""
