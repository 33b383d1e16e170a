"""``portkit doctor``: what this host can do, and each gap with its remedy."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata, util
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from portkit.baselines import KNOWN, Library
from portkit.cli.checks import BLOCKED, GAP, OK, Check
from portkit.cli.doctor_amd import amd_checks, rocprof_check
from portkit.errors import HostError
from portkit.model import Device
from portkit.run.counters.ncu import NO_PERMISSION, effective_capabilities, open_ncu, restricted
from portkit.run.neighbours.check import look
from portkit.run.neighbours.use import Use

PYTORCH_PAGE = "https://pytorch.org/get-started/locally/"
OLDEST_TRITON = (3, 5)
_KEEP_BYTECODE = "unset PYTHONDONTWRITEBYTECODE; where torch may not be written to, set PYTHONPYCACHEPREFIX=FOLDER"

_COLOURS = {OK: "green", GAP: "yellow", BLOCKED: "red"}


@dataclass(frozen=True)
class Facts:
    """What the checks look at, so that they can be tried on any host."""

    host: Mapping[str, Any] | None  # portkit.model.Host as plain values; None where the probe failed
    problems: Mapping[str, str]  # torch, triton or probe → why it is not usable
    root: Path = Path("/")  # of /dev and /proc
    uses: Mapping[str, Use] = field(default_factory=dict)  # device_id → who else is on it


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="All findings as JSON.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """What this host can do, and each gap with its remedy.

    Exit code 0 where a run is possible (compiled rows at least), 1 where it is not.
    """
    facts = gather()
    checks = list(examine(facts))
    possible = all(each.state != BLOCKED for each in checks)
    if as_json:
        found = {"possible": possible, "host": facts.host, "checks": [asdict(each) for each in checks]}
        click.echo(json.dumps(found, indent=2))
    else:
        _print_table(checks, possible, evidence(facts))
    context.exit(0 if possible else 1)


def gather() -> Facts:
    """Ask a child process for what needs torch, so that this one need not import it."""
    argv = [sys.executable, "-m", "portkit.run.host"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        answer = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return Facts(None, {"probe": "gave no answer within 120 s"})
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return Facts(None, {"probe": f"ended with code {done.returncode}: {last}"})
    uses = look([Device(**device) for device in answer["host"]["devices"]])
    return Facts(answer["host"], answer["problems"], uses=uses)


def examine(facts: Facts) -> Iterator[Check]:
    """All checks in order."""
    if facts.host is None:
        remedy = "run `python -m portkit.run.host` to see why; a driver that hangs or a broken torch does this"
        yield Check("probe", BLOCKED, facts.problems["probe"], remedy)
        return
    yield _torch(facts)
    yield from _driver_for_cuda(facts)
    yield from _bytecode(spec.cached if (spec := util.find_spec("torch")) else None)
    yield _triton(facts)
    yield _triton_owners(metadata.packages_distributions().get("triton", []))
    yield from _backends(facts)
    yield from _devices(facts)
    yield _c_compiler()
    yield from _triton_tools()
    yield from _profilers(facts)
    architectures = [device["architecture"] for device in facts.host["devices"]]
    yield from amd_checks(facts.root, _capabilities(facts.root), architectures)
    yield from map(_baseline_library, KNOWN)


def evidence(facts: Facts) -> tuple[str, ...]:
    """Kinds of rows that a run here can have."""
    host = facts.host
    if not host or not host["torch"] or not host["triton"]:
        return ()
    kinds = ["interpreted", *(["compiled"] if host["backends"] else [])]
    kinds += ["emulated"] if host["backends"] else []  # the machine code of targets of either vendor
    return (*kinds, "measured") if host["devices"] else tuple(kinds)


def _print_table(checks: Sequence[Check], possible: bool, kinds: Sequence[str]) -> None:
    """Coloured on a terminal only, and not where NO_COLOR is set: rich sees to both."""
    console = Console(highlight=False, markup=False)
    table = Table("", "what", "found", box=None, pad_edge=False)
    for each in checks:
        table.add_row(Text(each.state, style=_COLOURS[each.state]), each.name, each.found)
    console.print(table)
    remedies = Table(box=None, show_header=False, pad_edge=False)
    for each in checks:
        if each.remedy:
            remedies.add_row(f"  {each.name}:", each.remedy)
    if remedies.row_count:
        console.print("\nRemedies")
        console.print(remedies)
    console.print(f"\nRows that a run on this host can have: {', '.join(kinds) if possible else 'none'}")


# --------------------------------------------------------------------------
# torch and Triton


def _torch(facts: Facts) -> Check:
    host = facts.host or {}
    if host["torch"] is None:
        why = facts.problems.get("torch", "not installed")
        return Check("torch", BLOCKED, why, f"pip install 'portkit[run]', or the build for your GPU: {PYTORCH_PAGE}")
    found = f"{host['torch']} ({host['toolkit'] or 'CPU build'})"
    if gpu := _wrong_build(facts):
        return Check("torch", GAP, f"{found} beside {gpu}", f"install torch's build for that GPU: {PYTORCH_PAGE}")
    return Check("torch", OK, found)


def _wrong_build(facts: Facts) -> str | None:
    """The GPU of this host that the build of torch cannot use."""
    toolkit = (facts.host or {})["toolkit"] or ""
    for node, title, wanted in (("nvidia0", "an NVIDIA GPU", "CUDA"), ("kfd", "an AMD GPU", "HIP")):
        if (facts.root / "dev" / node).exists() and not toolkit.startswith(wanted):
            return f"{title} (/dev/{node})"
    return None


OLDEST_DRIVER = {11: (450, 80), 12: (525, 60), 13: (580, 65)}
"""Major version of CUDA → the oldest driver that runs it, minor versions of the toolkit being compatible.

Source: NVIDIA, CUDA Toolkit Release Notes, "CUDA Toolkit and Minimum Required Driver Version for CUDA
Minor Version Compatibility".
"""


def _driver_for_cuda(facts: Facts) -> Iterator[Check]:
    """A driver that is older than torch's CUDA: torch then sees no device."""
    host = facts.host or {}
    cuda = re.match(r"CUDA (\d+)\.", host["toolkit"] or "")
    driver = re.match(r"(\d+)\.(\d+)", host["driver"] or "")
    oldest = OLDEST_DRIVER.get(int(cuda[1])) if cuda else None
    if driver and oldest and (int(driver[1]), int(driver[2])) < oldest:
        found = f"{host['driver']}, too old for {host['toolkit']} of torch, which needs {oldest[0]}.{oldest[1]}"
        remedy = f"update NVIDIA's driver, or install torch's build for an older CUDA: {PYTORCH_PAGE}"
        yield Check("driver for torch's CUDA", GAP, found, remedy)


def _bytecode(cached: str | None) -> Iterator[Check]:
    """Python without compiled modules of torch, as in many an image of a container: each process compiles them anew.

    Args:
        cached: where Python would keep that of torch.
    """
    if cached is None or Path(cached).exists():
        return
    writable = sys.pycache_prefix is not None or os.access(Path(cached).parent.parent, os.W_OK)
    if sys.dont_write_bytecode or not writable:
        found = "Python keeps none, so that each process compiles torch's sources anew, for seconds"
        yield Check("bytecode of torch", GAP, found, _KEEP_BYTECODE)


def _triton(facts: Facts) -> Check:
    version = (facts.host or {})["triton"]
    if version is None:
        why = facts.problems.get("triton", "not installed")
        return Check("triton", BLOCKED, why, "pip install 'portkit[run]'; it pairs with a version of torch")
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_TRITON:
        return Check(
            "triton", BLOCKED, f"{version}, too old", "install Triton 3.5 or later with the torch it pairs with"
        )
    return Check("triton", OK, version)


def _triton_owners(owners: Sequence[str]) -> Check:
    """Two distributions that own one import name lie over each other's files."""
    names = sorted(set(owners))
    if len(names) > 1:
        remedy = f"pip uninstall {' '.join(names)}, then install the one that your torch asks for alone"
        return Check("import name triton", GAP, "owned by " + " and ".join(names), remedy)
    return Check("import name triton", OK, f"owned by {names[0]}" if names else "owned by no distribution")


def _backends(facts: Facts) -> Iterator[Check]:
    host = facts.host or {}
    if host["triton"] is None:
        return
    for name, platform in (("nvidia", "CUDA"), ("amd", "ROCm")):
        if name in host["backends"]:
            yield Check(f"Triton backend {name}", OK, f"{platform} targets compile")
        else:
            state = GAP if host["backends"] else BLOCKED
            remedy = "use a Triton wheel that ships it (PyPI's has both); rows without it are backend_missing"
            yield Check(f"Triton backend {name}", state, f"missing: {platform} targets do not compile", remedy)


# --------------------------------------------------------------------------
# Devices and tools


def _devices(facts: Facts) -> Iterator[Check]:
    host = facts.host or {}
    for device in host["devices"]:
        memory = device["memory_bytes"] / 2**30
        found = f"{device['name']}: target {device['target']}, {device['architecture']}, {memory:.0f} GiB"
        use = facts.uses.get(device["device_id"])
        if use and use.shared:
            remedy = "wait for their end or stop them; a run that measures is refused without --portkit-shared-device"
            yield Check(f"GPU {device['index']}", GAP, f"{found}; {use}", remedy)
        else:
            yield Check(f"GPU {device['index']}", OK, found)
    if not host["devices"]:
        yield _no_device(facts)
    if host["devices"] and host["driver"] is None:
        yield Check("driver", GAP, "version unknown", "the kernel driver states none under /proc or /sys")
    elif host["driver"]:
        yield Check("driver", OK, host["driver"])


def _no_device(facts: Facts) -> Check:
    nodes = [name for name in ("nvidia0", "kfd") if (facts.root / "dev" / name).exists()]
    if not nodes:
        remedy = "no row here is measured; run `pytest --benchmark` on a GPU host and `portkit merge` the reports"
        return Check("GPU", GAP, "none", remedy)
    remedy = "check torch's build, the driver, the user's groups (video, render) and the *_VISIBLE_DEVICES variables"
    return Check("GPU", GAP, f"/dev/{nodes[0]} is there, but torch sees no device", remedy)


def _c_compiler() -> Check:
    """Triton builds its launcher with one; compiling for an absent GPU needs none."""
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return Check("C compiler", OK, _version_line(path))
    return Check("C compiler", GAP, "none", "install gcc: Triton builds its launcher with it at the first launch")


def _triton_tools() -> Iterator[Check]:
    spec = util.find_spec("triton")
    if spec is None or not spec.origin:
        return
    folder = Path(spec.origin).parent / "backends" / "nvidia" / "bin"
    for name in ("ptxas", "cuobjdump"):
        path = folder / name
        if path.is_file():
            yield Check(name, OK, _version_line(str(path)))
        else:
            yield Check(name, GAP, "not in the Triton wheel", "use PyPI's Triton wheel, or set TRITON_PTXAS_PATH")


def _profilers(facts: Facts) -> Iterator[Check]:
    yield _ncu()
    yield _profiler("compute-sanitizer", "memory and race checks of NVIDIA GPUs", "install the CUDA toolkit")
    yield rocprof_check()
    params = facts.root / "proc/driver/nvidia/params"
    if params.is_file():
        yield _counter_permission(params.read_text(encoding="utf-8", errors="replace"), _capabilities(facts.root))


def _profiler(name: str, gives: str, remedy: str) -> Check:
    path = shutil.which(name)
    return Check(name, OK, _version_line(path)) if path else Check(name, GAP, f"not found: no {gives}", remedy)


def _ncu() -> Check:
    try:
        return Check("ncu", OK, open_ncu("").tool)
    except HostError as error:
        return Check("ncu", GAP, f"{error.message}: no counters of NVIDIA GPUs", error.remedy or "")


def _counter_permission(params: str, capabilities: int) -> Check:
    match = re.search(r"RmProfilingAdminOnly:\s*(\d)", params)
    if match is None:
        return Check("NVIDIA counters", GAP, "permission unknown: the driver does not say", NO_PERMISSION.remedy)
    if match[1] == "0":
        return Check("NVIDIA counters", OK, "open to every user")
    if restricted(params, capabilities):
        return Check("NVIDIA counters", GAP, "administrators only", NO_PERMISSION.remedy)
    return Check("NVIDIA counters", OK, "administrators only, which this process is")


def _capabilities(root: Path) -> int:
    status = root / "proc/self/status"
    return effective_capabilities(status.read_text().splitlines()) if status.is_file() else 0


def _baseline_library(library: Library) -> Check:
    name = f"baseline {library.distribution}"
    if not library.installed:
        remedy = f"pip install {library.distribution}; cases that name it have backend_missing for it"
        return Check(name, GAP, "not installed: no speedup over it", remedy)
    return Check(name, OK, library.version or "installed, version unknown")


def _version_line(path: str) -> str:
    """The line of ``--version`` that has a version, else that there is none."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"found, but does not run: {type(error).__name__}"
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    return next((line for line in lines if re.search(r"\d+\.\d+", line)), "found, version unknown")
