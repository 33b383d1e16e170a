"""NVIDIA's profiler, Nsight Compute: its command, and what it complains of.

One pass counts all that is asked for, so no kernel is replayed: each finds the caches as its
call left them, and memory need not be saved and restored. Caches are ours to flush and clocks
are left alone (``--cache-control none --clock-control none``), as in the timing.

Beside each figure that is asked for, ncu works out sum, mean, least and most over the chip's units, and that
takes it longer than the counting; where it can be told to leave that, it is.

Neither exit code nor a lack of complaints says that something was counted: the table does.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from portkit.model import Counted
from portkit.run.counters import MAY_COUNT, RANGE, BuiltKernel, Kernel, Table, Trouble, as_error, parts, text_of
from portkit.run.counters.ncu_csv import parse
from portkit.run.counters.ncu_metrics import Metrics
from portkit.run.scrub import scrub

OLDEST: Final = (2020, 1)
"""Version that has all options used here: ``--cache-control`` came with 2019.5, the name ``ncu`` with 2020.1."""

PERMISSION_PAGE: Final = "https://developer.nvidia.com/ERR_NVGPUCTRPERM"

NOT_INSTALLED: Final = Trouble(
    "Nsight Compute (ncu) is not installed",
    "install it with CUDA's toolkit or by itself, and put ncu on the PATH",
)

NO_PERMISSION: Final = Trouble(
    "no permission to read hardware counters (ERR_NVGPUCTRPERM)",
    "load the driver with NVreg_RestrictProfilingToAdminUsers=0, or run as root or with CAP_SYS_ADMIN"
    f" (a container: --cap-add=SYS_ADMIN), see {PERMISSION_PAGE}",
)

_LOCKED: Final = Trouble(
    "ncu can't open its lock file, which belongs to another user",
    "set TMPDIR to a folder of your own, or have $TMPDIR/nsight-compute-lock removed",
)

_TROUBLES: Final[Mapping[str, Trouble]] = {
    "ERR_NVGPUCTRPERM": NO_PERMISSION,
    "driver resource was unavailable": Trouble(
        "another tool holds the hardware counters (ncu: a driver resource was unavailable)",
        "stop the other profiler; DCGM lets go of them with `dcgmi profile --pause`",
    ),
    "nsight-compute-lock": _LOCKED,
    "InterprocessLockFailed": _LOCKED,
    "not compatible with Nsight Compute": Trouble(
        "this ncu does not fit the driver", "install the Nsight Compute of the driver's CUDA version"
    ),
    "Profiling is not supported on device": Trouble(
        "this ncu can't profile the GPU",
        "install the Nsight Compute of the driver's CUDA version, for Volta one of CUDA 12, and see `ncu --list-chips`",
    ),
}
"""What ncu says → why nothing can be counted."""

_BAD_OPTION = re.compile(r"unrecogni[sz]ed option|the argument \(.*\) for option", re.I)
_NO_METRIC = re.compile(r"[Ff]ailed to find metric[s:]?\s*['\"]?(?P<name>\w[\w.]*)")
_ERROR = re.compile(r"^==ERROR==\s*(.+)", re.M)
_CODE = re.compile(r"application returned an error code \((?P<code>-?\d+)\)")
_TOOLKIT = Path("/usr/local/cuda")
_OUTPUT: Final = "output"
_FIGURES_ASKED_FOR_ALONE: Final = "--disable-extra-suffixes"
_SECONDS = 30.0  # for ncu to tell its version


@dataclass(frozen=True)
class Ncu:
    """Nsight Compute as it is installed."""

    path: str
    version: str
    metrics: Metrics
    options: tuple[str, ...] = ()  # of those that not every version has

    @property
    def tool(self) -> str:
        """Name and version."""
        return f"ncu {self.version}"

    @property
    def log(self) -> str:
        """Complaints and table are in one file."""
        return _OUTPUT

    @property
    def passes(self) -> int:
        """All that is asked for is counted at once."""
        return 1

    @property
    def early(self) -> bool:
        """It meets the device where the program initialises CUDA."""
        return True

    def command(self, program: Sequence[str], folder: Path, number: int = 0) -> list[str]:
        """How it runs a program and writes a table of the kernels within our ranges."""
        return [
            self.path,
            *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(folder / _OUTPUT)),
            *("--cache-control", "none", "--clock-control", "none"),
            *("--target-processes", "application-only"),  # and not its compilers
            *self.options,
            *("--nvtx", "--nvtx-include", f"{RANGE}/"),
            *("--metrics", ",".join(self.metrics.names)),
            *program,
        ]

    def trouble(self, output: str) -> Trouble | None:
        """What it says against counting anything at all."""
        known = next((trouble for words, trouble in _TROUBLES.items() if words in output), None)
        if known:
            return known
        if _BAD_OPTION.search(output):
            return Trouble(f"ncu {self.version} is too old: {_first_error(output)}", _remedy_old())
        if missing := _NO_METRIC.search(output):
            return Trouble(f"ncu {self.version} has no metric {missing['name']} for this GPU", _remedy_old())
        return None

    def last_words(self, output: str) -> str | None:
        """Its own error, or that of the program."""
        code = _CODE.search(output)
        return _first_error(output) or (f"the program ended with code {code['code']}" if code else None)

    def read(self, folder: Path, number: int = 0) -> Table | None:
        """The table in its output."""
        return parse(text_of(folder / _OUTPUT))

    def without(self, number: int, why: str) -> dict[str, str]:
        """Nothing is known without the one pass."""
        return {}

    def count(
        self, kernels: Sequence[Kernel], built: Sequence[BuiltKernel] = (), lacking: Mapping[str, str] | None = None
    ) -> tuple[Counted, dict[str, str]]:
        """One call's figures from its kernels; the table knows all but, where it was not asked for, local memory."""
        return self.metrics.count(kernels, built)


def open_ncu(architecture: str, *, local: bool = True) -> Ncu:
    """Nsight Compute of this host.

    Args:
        architecture: of the device, such as ``sm_90``.
        local: whether the traffic of local memory is counted, too.

    Raises:
        HostError: there is none, it does not run, or it is too old.
    """
    path = find_ncu()
    if path is None:
        raise as_error(NOT_INSTALLED)
    version = ncu_version(path)
    if parts(version) < OLDEST:
        raise as_error(Trouble(f"ncu {version} is too old", _remedy_old()))
    offered = tuple(option for option in (_FIGURES_ASKED_FOR_ALONE,) if option in _help_of(path))
    return Ncu(path, version, Metrics.of(architecture, local=local), offered)


def find_ncu(environment: Mapping[str, str] | None = None) -> str | None:
    """Where ncu is: on the PATH, else where CUDA's toolkit lies."""
    environment = os.environ if environment is None else environment
    roots = (environment.get("CUDA_HOME"), environment.get("CUDA_PATH"), _TOOLKIT)
    places = [environment.get("PATH", ""), *(f"{root}/bin" for root in roots if root)]
    return shutil.which("ncu", path=os.pathsep.join(places))


@functools.cache
def ncu_version(path: str) -> str:
    """Version that ncu tells, such as ``2025.3.1.0``.

    Raises:
        HostError: it does not run, or tells none.
    """
    try:
        done = _told(path, "--version")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise as_error(Trouble(f"ncu does not run: {scrub(str(error))}", "reinstall Nsight Compute")) from error
    match = re.search(r"\bVersion (\d{4}(?:\.\d+)+)", done.stdout)
    if match is None:
        said = scrub((done.stdout + done.stderr).strip().partition("\n")[0])[:200] or f"exit {done.returncode}"
        raise as_error(Trouble(f"ncu tells no version: {said}", "reinstall Nsight Compute"))
    return match[1]


@functools.cache
def _help_of(path: str) -> str:
    """What ncu says of its options; nothing where it does not."""
    try:
        return _told(path, "--help").stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _told(path: str, option: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [path, option], capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
    )


def restricted(params: str, capabilities: int) -> bool:
    """Whether the driver keeps its counters from this process.

    Args:
        params: text of ``/proc/driver/nvidia/params``.
        capabilities: effective ones of the process, as bits.
    """
    match = re.search(r"RmProfilingAdminOnly:\s*(\d)", params)
    return bool(match and match[1] != "0" and not capabilities & MAY_COUNT)


def effective_capabilities(status: Iterable[str]) -> int:
    """Capabilities in the lines of ``/proc/self/status``, as bits; none where they are not told."""
    line = next((line for line in status if line.startswith("CapEff:")), "CapEff: 0")
    return int(line.split()[1], 16)


def _first_error(output: str) -> str:
    """What it calls an error, but for the program's own; the driver's follows on a line of its own."""
    found = [text.strip() for text in _ERROR.findall(output) if not _CODE.search(text)]
    return scrub(" ".join(found[:2]))[:300]


def _remedy_old() -> str:
    return f"install Nsight Compute {OLDEST[0]}.{OLDEST[1]} or later, best that of the driver's CUDA version"
