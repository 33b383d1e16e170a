"""An sshd on loopback, with a key, a configuration and a port of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

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
    absent = [name for name in ("sshd", "ssh", "ssh-keygen") if shutil.which(name, path=_path()) is None]
    return f"{', '.join(absent)} not installed (package openssh-server)" if absent else None


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


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
        sshd = shutil.which("sshd", path=_path())
        log = (self.folder / "sshd.log").open("ab")
        self._process = subprocess.Popen([sshd, "-D", "-e", "-f", str(self.folder / "sshd_config")], stderr=log)
        self._until_it_listens()
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

    def _until_it_listens(self) -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"sshd does not listen: {(self.folder / 'sshd.log').read_text()}")
