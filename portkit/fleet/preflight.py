"""``python -m portkit.fleet.preflight``: whether this host has exactly the GPUs that a job was sent for.

Runs on the host, in its own interpreter or container. The last line of its output says what is there; the
exit code is 0 where that is what was expected, 3 where it is not, and 2 for a mistake.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from portkit import __version__
from portkit.errors import PortkitError
from portkit.model import SCHEMA_VERSION, Device, Host
from portkit.plan.matrix import read_matrix
from portkit.run.devices import choose_devices
from portkit.run.host import probe_host

EXIT_WRONG = 3
FOUND = Path("preflight.json")


def difference(target: str, count: int, devices: Sequence[Device]) -> str | None:
    """How the visible GPUs differ from those expected; None where they do not.

    >>> difference("h200", 1, ())
    'expected 1 × h200, no GPU is visible'
    """
    seen = [device.target for device in devices]
    if seen == [target] * count:
        return None
    wanted = f"{count} × {target}" if count else "no GPU"
    return f"expected {wanted}, {_counted(seen)}"


def _counted(seen: Sequence[str]) -> str:
    if not seen:
        return "no GPU is visible"
    return "visible: " + ", ".join(f"{seen.count(name)} × {name}" for name in sorted(set(seen)))


def look(matrix: Path, devices: Collection[int] | None) -> Host:
    """This host, with the GPUs that the job may use.

    Raises:
        PortkitError: the matrix or the catalogue is wrong, or the host lacks a device.
    """
    host = probe_host(read_matrix(matrix).target_files)
    return choose_devices(host, devices)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="portkit.fleet.preflight")
    parser.add_argument("--matrix", type=Path, required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--devices", default="", help="indices with commas; all visible ones by default")
    parser.add_argument("--schema", type=int, default=SCHEMA_VERSION, help="newest layout that the asking side reads")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Look, keep what was found in :data:`FOUND`, and say how it differs."""
    asked = _parser().parse_args(arguments)
    if asked.schema < SCHEMA_VERSION:
        print(f"portkit {__version__} of this host writes reports that the asking side can't read: upgrade that")
        return EXIT_WRONG
    try:
        host = look(asked.matrix, [int(index) for index in asked.devices.split(",")] if asked.devices else None)
    except PortkitError as error:
        print(error.render().replace("\n", " "))
        return EXIT_WRONG if asked.devices else 2
    found = {"portkit": __version__, "python": host.python, "torch": host.torch, "triton": host.triton}
    FOUND.write_text(json.dumps(found | {"targets": [device.target for device in host.devices]}))
    told = difference(asked.target, asked.count, host.devices)
    print(told or f"as expected: {asked.count} × {asked.target}")
    return EXIT_WRONG if told else 0


if __name__ == "__main__":
    sys.exit(main())
