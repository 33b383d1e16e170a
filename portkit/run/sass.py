"""NVIDIA: the machine code of a cubin as text, by the nvdisasm that comes with Triton.

PTX names as many registers as it likes: what ptxas spills is seen in its machine code alone.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from portkit.errors import HostError

SECONDS: Final = 60
"""Until nvdisasm is given up; it takes two for the 9,000 instructions of a large kernel."""

_INSTRUCTION: Final = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(\S.*)")
_LABEL: Final = re.compile(r"\.L_\w+:|[A-Za-z_][\w$]*:")
_SCHEDULING: Final = re.compile(r"\s+(?:&|\?).*$")


def machine_code(cubin: bytes) -> str:
    """Labels and instructions of a cubin's functions, a line each.

    Raises:
        HostError: there is no nvdisasm, or it does not read this cubin.
    """
    try:
        tool = _nvdisasm()
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            done = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        raise HostError(f"nvdisasm: {error}") from error
    if done.returncode:
        raise HostError(f"nvdisasm: {(done.stderr.strip() or f'exit {done.returncode}').splitlines()[0]}")
    return "\n".join(line for each in done.stdout.splitlines() if (line := _said(each)))


def _nvdisasm() -> Path:
    from triton import knobs  # noqa: PLC0415 (only a kernel that spills asks for it)

    return Path(knobs.nvidia.nvdisasm.path)


def _said(line: str) -> str:
    """A line of nvdisasm without offsets and scheduling; empty where it is neither instruction nor label."""
    if found := _INSTRUCTION.match(line):
        return f"  {_SCHEDULING.sub('', found[1]).rstrip(' ;')}"
    return line.strip() if _LABEL.fullmatch(line.strip()) else ""
