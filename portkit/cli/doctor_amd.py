"""What ``portkit doctor`` looks at on a host with an AMD GPU: access, counters, management library.

Written from documentation; not yet run on AMD hardware.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from portkit.cli.checks import GAP, OK, Check
from portkit.errors import HostError
from portkit.run.amd_smi import REMEDY
from portkit.run.counters import MAY_COUNT
from portkit.run.counters.rocprof import NO_PERMISSION, open_rocprof
from portkit.targets.catalog import load_catalog

CapabilityBits = int

_LEVELS: Final = "sys/class/drm/card*/device/power_dpm_force_performance_level"
_GROUPS: Final = (
    "let the user into the groups that own them (sudo usermod -aG render,video $USER, then log in anew);"
    " in a container: --device /dev/kfd --device /dev/dri --group-add video --group-add the number of the host's render"
)

CanOpen = Callable[[Path], bool]


def can_open(path: Path) -> bool:
    """Whether this process may read and write a device node."""
    return os.access(path, os.R_OK | os.W_OK)


def amd_checks(
    root: Path, capabilities: CapabilityBits, architectures: Sequence[str], can_open: CanOpen = can_open
) -> Iterator[Check]:
    """All checks of a host that has ``/dev/kfd``; none of another.

    Args:
        root: of ``/dev``, ``/proc`` and ``/sys``.
        capabilities: effective ones of this process, as bits.
        architectures: of the GPUs that torch sees.
        can_open: whether this process may read and write a device node.
    """
    if not (root / "dev/kfd").exists():
        return
    yield _access(root, can_open)
    yield _permission(capabilities)
    if any(name.startswith(("gfx11", "gfx12")) for name in architectures):
        yield from _levels(root)
    yield _library()


def rocprof_check() -> Check:
    """The profiler and its version."""
    try:
        return Check("rocprofv3", OK, open_rocprof(load_catalog().get("mi300x")).tool)
    except HostError as error:
        return Check("rocprofv3", GAP, f"{error.message}: no counters of AMD GPUs", error.remedy or "")


def _access(root: Path, can_open: CanOpen) -> Check:
    nodes = [root / "dev/kfd", *sorted((root / "dev/dri").glob("renderD*"))]
    shut = [f"/{node.relative_to(root)}" for node in nodes if not can_open(node)]
    if shut:
        return Check("AMD GPU access", GAP, f"this process may not open {', '.join(shut)}", _GROUPS)
    if len(nodes) == 1:
        return Check("AMD GPU access", GAP, "/dev/kfd is there, and no /dev/dri/renderD*", _GROUPS)
    return Check("AMD GPU access", OK, f"/dev/kfd and {len(nodes) - 1} of /dev/dri/renderD*")


def _permission(capabilities: CapabilityBits) -> Check:
    """By AMD's word the kernel asks for the capability alone, whatever ``kernel.perf_event_paranoid`` is."""
    if capabilities & MAY_COUNT:
        return Check("AMD counters", OK, "this process has CAP_PERFMON or CAP_SYS_ADMIN")
    found = "no CAP_PERFMON: rocprofv3 of ROCm 7.0 or later can't lock the GPU, and its counters may be wrong"
    return Check("AMD counters", GAP, found, NO_PERMISSION.remedy)


def _levels(root: Path) -> Iterator[Check]:
    """Radeon's counters stand still under the level auto, which lets their clock go off."""
    for file in sorted(root.glob(_LEVELS)):
        level, card = file.read_text(errors="replace").strip(), file.parts[-3]
        if level == "auto":
            remedy = f"for counters: amd-smi set -g 0 --perf-level stable_std, or profile_standard into {file}, as root"
            yield Check(f"performance level {card}", GAP, "auto: on Radeon all counters may read 0", remedy)
        else:
            yield Check(f"performance level {card}", OK, level)


def _library() -> Check:
    if importlib.util.find_spec("amdsmi") is None:
        return Check("amdsmi", GAP, "not installed: no clocks, power, temperature, partition modes", REMEDY)
    return Check("amdsmi", OK, "installed")
