"""Stands in for rocprofv3 beside the device of :mod:`stand_in_hip`: runs the program, and writes what that dispatched.

Unlike ``fake_rocprof``, which plays the program, too, this one sees nothing but kernels.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from rocprof_files import Ran, leave

VALUES = {"OccupancyPercent": 62.5, "MeanOccupancyPerCU": 20.0, "FETCH_SIZE": 4096.0, "WRITE_SIZE": 1024.0}


def install(folder):
    """Put it into a folder as an executable."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rocprofv3"
    places = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "pure")]
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {places!r}\n"
        "import stand_in_rocprof\nsys.exit(stand_in_rocprof.main())\n"
    )
    path.chmod(0o755)


def main():
    if sys.argv[1:] == ["--version"]:
        print("        version: 1.0.0\n   rocm_version: 7.0.2")
        return 0
    tables = Path(sys.argv[sys.argv.index("-d") + 1])
    tables.mkdir(parents=True)
    dispatches = tables / "dispatches.json"
    program = sys.argv[sys.argv.index("--") + 1 :]
    code = subprocess.call(program, env=os.environ | {"STAND_IN_DISPATCHES": str(dispatches)})
    if code == 0:
        counter = sys.argv[sys.argv.index("--pmc") + 1]
        leave(tables, [ran(each, counter) for each in json.loads(dispatches.read_text())], ("csv", "rocpd"))
    return code


def ran(dispatch, counter):
    blocks, threads = tuple(dispatch["blocks"]), tuple(dispatch["threads"])
    counters = {counter: VALUES[counter]}
    return Ran(f"{dispatch['name']}.kd", blocks, threads, dispatch["nanoseconds"], dispatch["lds"], counters)
