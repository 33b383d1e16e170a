"""An sshd on loopback, with a key, a configuration and a port of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from waiting import absent, search_path, until

HOST = "fleet-host"

_SERVER = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile {folder}/sshd.pid
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
StrictModes no
LogLevel ERROR
Subsystem sftp internal-sftp
"""

_CLIENT = """\
Host {host}
    HostName 127.0.0.1
    Port {port}
    User {user}
    IdentityFile {folder}/key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    StrictHostKeyChecking accept-new
    LogLevel ERROR
"""


def no_daemon() -> str | None:
    """Why no sshd can be started here; None where one can."""
    return absent(("sshd", "ssh", "ssh-keygen"), "package openssh-server")


@dataclass
class Daemon:
    """An sshd for the user that runs the tests."""

    folder: Path
    port: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None)

    def start(self) -> Daemon:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        for name in ("host_key", "key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
            subprocess.run(command, check=True)
        shutil.copy(self.folder / "key.pub", self.folder / "authorized_keys")
        user = pwd.getpwuid(os.geteuid()).pw_name
        names = {"folder": self.folder, "port": self.port, "host": HOST, "user": user}
        (self.folder / "sshd_config").write_text(_SERVER.format(**names))
        self.config.write_text(_CLIENT.format(**names))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        return self.start_again()

    def start_again(self) -> Daemon:
        """Start it with the keys and the port that it has."""
        self.stop()
        sshd = shutil.which("sshd", path=search_path())
        log = (self.folder / "sshd.log").open("ab")
        self._process = subprocess.Popen([sshd, "-D", "-e", "-f", str(self.folder / "sshd_config")], stderr=log)
        until(self._listens, 10, lambda: f"sshd does not listen: {(self.folder / 'sshd.log').read_text()}")
        return self

    @property
    def config(self) -> Path:
        """Client configuration that knows the host."""
        return self.folder / "ssh_config"

    def stop(self) -> None:
        """End it with every connection."""
        if self._process is not None:
            subprocess.run(["pkill", "-KILL", "-P", str(self._process.pid)], check=False)
            self._process.kill()
            self._process.wait()
            self._process = None

    def lose_power(self, mark: str) -> None:
        """End it with every connection, and all processes with a variable of that name; it may be started again."""
        self.stop()
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if any(word.startswith(f"{mark}=".encode()) for word in environment.read_bytes().split(b"\0")):
                    os.kill(int(environment.parent.name), signal.SIGKILL)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
