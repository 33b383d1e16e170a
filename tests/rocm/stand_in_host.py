"""The environment of a host whose device, amd-smi and rocprofv3 are stand-ins."""

import os
from pathlib import Path

import stand_in_rocprof

from portkit.store.merge import STAND_IN

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def environment(folder):
    """Variables of a process on such a host; its tools go into a folder.

    Args:
        folder: of one test, which is the salt, too: another process of these tests may play the same device.
    """
    stand_in_rocprof.install(folder / "bin")
    return {
        "PYTHONPATH": f"{HERE / 'stand_in'}:{ROOT}",
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PORTKIT_SALT": str(folder),
        STAND_IN: "mi300x",
    }
