"""What is done with a job at the place where it runs: its files are fetched, it is ended, its folder is removed."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from portkit.fleet.job import DIE_WITHIN_SECONDS, KILL_AFTER_SECONDS, OUTCOME, REPORTS
from portkit.fleet.reframe_site import ssh_command
from portkit.fleet.site import Host, Local

SECONDS: Final = 120.0
"""Limit of one command on a host."""

_MOST_BYTES: Final = 1 << 30


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
    archive = _answer(_command(host, script))
    return bool(archive) and _unpack(archive, into)


def forget(host: Host | Local, nonce: str) -> None:
    """Remove the way to the job's folder, and the folder itself where ReFrame made it on the host."""
    place = place_on_host(nonce)
    script = f'folder=$(readlink {place}) && rm -f {place} && case $folder in */rfm.*) rm -rf -- "$folder" ;; esac'
    _answer(_command(host, script))


def end_job(place: Host | Local, nonce: str) -> None:
    """Tell a job to stop that may run on though nobody waits for it, and wait until it says that it ended.

    Over ssh a job lives on when its connection is gone, and keeps its GPU.
    """
    seconds = KILL_AFTER_SECONDS + DIE_WITHIN_SECONDS + 5
    script = f"""cd {place_on_host(nonce)}/ 2>/dev/null || exit 0
pid=$(sed -n 's/^pid //p' {OUTCOME})
[ "$(readlink "/proc/$pid/cwd")" = "$(pwd -P)" ] || exit 0
kill -TERM "$pid"
for second in $(seq {seconds}); do
    grep -q '^end ' {OUTCOME} && exit 0
    sleep 1
done"""
    _answer(_command(place, script))


def _command(place: Host | Local, script: str) -> list[str]:
    words = ["sh", "-c", script]
    return ssh_command(place, words) if isinstance(place, Host) else words


def _answer(command: Sequence[str]) -> bytes:
    """What a command printed; nothing where the host does not answer in time."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout


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
