"""What compiler and driver say of a kernel, beside what binary and rules say.

LLVM writes into AMD's assembly how many waves a SIMD holds. CUDA and HIP give both of
the driver's answers alike; their libraries differ in name alone.

Sources: ``cuOccupancyMaxActiveBlocksPerMultiprocessor`` of the CUDA driver API,
``hipModuleOccupancyMaxActiveBlocksPerMultiprocessor`` of HIP's runtime API.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from portkit.model import Architecture, Build, Launch, Loaded, Platform, Target
from portkit.run.binaries.amdgcn_text import WAVES, allocated_registers
from portkit.targets.occupancy import waves_per_simd

_CALLS: Final[Mapping[Platform, tuple[str, str]]] = {
    Platform.CUDA: ("libcuda.so.1", "cuOccupancyMaxActiveBlocksPerMultiprocessor"),
    Platform.ROCM: ("libamdhip64.so", "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"),
}


def ask_driver(kernel: Any, target: Target, threads: int) -> Loaded:
    """Registers of a loaded kernel of Triton's, and blocks of it that are resident at once.

    Args:
        kernel: compiled, and loaded onto the current device.
        target: the device's SKU.
        threads: of a block.
    """
    blocks = None
    if getattr(kernel.metadata, "num_ctas", 1) == 1:  # the calls know nothing of clusters
        blocks = _blocks(target.architecture.platform, kernel.function, threads, kernel.metadata.shared)
    return Loaded(kernel.n_regs, blocks)


def disagreements(build: Build, architecture: Architecture) -> dict[str, str]:
    """Where compiler or driver say otherwise than binary and rules, by the figure that is then in doubt."""
    found: dict[str, str] = {}
    for launch in build.launches:
        found = {**_of_compiler(launch, architecture), **_of_launch(launch), **found}
    return found


def _of_compiler(launch: Launch, architecture: Architecture) -> dict[str, str]:
    raw = launch.resources.raw
    if WAVES not in raw or not architecture.sourced:
        return {}
    rules = waves_per_simd(architecture, allocated_registers(launch.resources), raw["sgpr_count"])
    if raw[WAVES] == rules:
        return {}
    return {"build.occupancy": f"{launch.kernel}: LLVM says {raw[WAVES]} waves on a SIMD, the rules {rules}"}


def _of_launch(launch: Launch) -> dict[str, str]:
    found: dict[str, str] = {}
    loaded = launch.loaded
    if loaded is None:
        return found
    registers, blocks = launch.resources.registers_per_thread, launch.occupancy.blocks_per_unit
    if loaded.registers_per_thread != registers:
        text = f"{launch.kernel}: the driver says {loaded.registers_per_thread} registers, the binary {registers}"
        found["build.registers_per_thread"] = text
    if loaded.blocks_per_unit not in (None, blocks):
        text = f"{launch.kernel}: the driver says {loaded.blocks_per_unit} blocks on a unit, the rules {blocks}"
        found["build.occupancy"] = text
    return found


def _blocks(platform: Platform, function: int, threads: int, shared_bytes: int) -> int | None:
    library, name = _CALLS[platform]
    call = _call(loaded_path(library), name)
    blocks = ctypes.c_int()
    if call is None or call(ctypes.byref(blocks), function, threads, shared_bytes) != 0:
        return None
    return blocks.value


def loaded_path(library: str, maps: Path = Path("/proc/self/maps")) -> str:
    """Where this process has a library from; its own name where it has not.

    A wheel of torch may bring its own runtime. A second one, from the system, would take the
    first one's handle of a kernel for an address.
    """
    with contextlib.suppress(OSError):
        for line in maps.read_text().splitlines():
            _, _, path = line.partition("/")
            if path.rpartition("/")[2].startswith(library.removesuffix(".1")):
                return f"/{path}"
    return library


@functools.cache
def _call(library: str, name: str) -> Any:
    """The driver's function; None where this process can't find it."""
    try:
        function = getattr(ctypes.CDLL(library), name)
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.POINTER(ctypes.c_int), ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    function.restype = ctypes.c_int
    return function
