"""Copies of what jobs over ssh have so far, fetched as they go on: later, a lost host gives nothing."""

from __future__ import annotations

import concurrent.futures
import io
import subprocess
import tarfile
import threading
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from portkit.fleet.job import OUTCOME, REPORTS
from portkit.fleet.reframe_site import ssh_command
from portkit.fleet.site import Host

EVERY_SECONDS: Final = 60.0
"""What a lost host may cost at most: the records of so long."""

_SECONDS: Final = 120.0
_MOST_BYTES: Final = 1 << 30
_AT_ONCE: Final = 8


def place_on_host(nonce: str) -> str:
    """Where the job's folder is found on its host: job.sh makes a link there."""
    return f"/tmp/portkit-fleet-{nonce}"


def fetch(host: Host, nonce: str, into: Path, *, blobs: bool = False) -> bool:
    """Fetch outcome and reports of a job.

    Args:
        host: where it runs.
        nonce: its word.
        into: folder of the copy; what is there is replaced file by file.
        blobs: also fetch what lies beside the reports.

    Returns:
        Whether the host answered and had them.
    """
    files = f"{OUTCOME} {REPORTS}" if blobs else f"{OUTCOME} $(ls {REPORTS}/*.jsonl)"
    script = f"cd {place_on_host(nonce)}/ && tar -czf - {files} 2>/dev/null"
    command = ssh_command(host, ["sh", "-c", script])
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return bool(done.stdout) and _unpack(done.stdout, into)


def forget(host: Host, nonce: str) -> bool:
    """Remove the job's folder from its host."""
    place = place_on_host(nonce)
    script = f'folder=$(readlink {place}) && rm -f {place} && case $folder in */rfm.*) rm -rf -- "$folder" ;; esac'
    try:
        command = ssh_command(host, ["sh", "-c", script])
        return subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _unpack(archive: bytes, into: Path) -> bool:
    """Write the plain files of an archive whose names are those that were asked for; one that is cut off is refused."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            members = [member for member in tar if member.isreg() and _is_ours(PurePosixPath(member.name))]
            if sum(member.size for member in members) > _MOST_BYTES:
                return False
            into.mkdir(parents=True, exist_ok=True)
            tar.extractall(into, members, filter="data")
    except (tarfile.TarError, OSError, EOFError):
        return False
    return True


def _is_ours(path: PurePosixPath) -> bool:
    return path.parts[0] in (OUTCOME, REPORTS) and ".." not in path.parts and not path.is_absolute()


class Mirror:
    """Fetches from all hosts again and again until it is closed."""

    def __init__(self, jobs: Mapping[Path, tuple[Host, str]], every_seconds: float = EVERY_SECONDS) -> None:
        self._jobs = jobs  # folder of the copy → host and nonce
        self._every = every_seconds
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="portkit-mirror", daemon=True)

    def __enter__(self) -> Mirror:
        if self._jobs:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(_SECONDS)

    def _go_on(self) -> None:
        with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
            while not self._closed.wait(self._every):
                copies = [pool.submit(fetch, host, nonce, folder) for folder, (host, nonce) in self._jobs.items()]
                concurrent.futures.wait(copies)
