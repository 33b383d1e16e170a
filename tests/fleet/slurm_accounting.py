"""Accounting for a Slurm of this host: a database of its own and slurmdbd, both on loopback."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from waiting import absent, search_path, until

PROGRAMS = ("mariadbd", "mariadb-install-db", "my_print_defaults", "slurmdbd", "sacct", "sacctmgr")

_DBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CommunicationParameters=NoInAddrAny
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass={word}
StorageLoc=slurm
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
"""

SLURM_CONF = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageTRES=gres/gpu
"""

_TABLES = """\
CREATE DATABASE slurm;
CREATE USER slurm@'127.0.0.1' IDENTIFIED BY '{word}';
GRANT ALL ON slurm.* TO slurm@'127.0.0.1';
"""

_DATABASE_OPTIONS = (
    "--no-defaults",
    "--user=root",
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=8M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-fast-shutdown=2",
)

Start = Callable[..., None]
"""Name and command of a daemon → it runs."""


def no_accounting() -> str | None:
    """Why no accounting can be started here; None where it can."""
    return absent(PROGRAMS, "packages slurmdbd, mariadb-server-core and mariadb-client-core")


def start_accounting(folder: Path, database: int, port: int, run: Start) -> None:
    """Start both, and wait until slurmdbd takes connections.

    Args:
        folder: of the cluster, whose munged runs.
        database: port of the database.
        port: of slurmdbd.
        run: starts a daemon that ends with the cluster.
    """
    word = secrets.token_hex(16)
    tables = folder / "tables.sql"
    tables.write_text(_TABLES.format(word=word))
    data = _database_folder(folder)
    run("mariadbd", "mariadbd", *_DATABASE_OPTIONS, *data, f"--port={database}", f"--init-file={tables}")
    until(lambda: _answers(database), 60, lambda: _end_of(folder / "mariadbd.out"))
    configuration = folder / "slurmdbd.conf"
    configuration.write_text(_DBD_CONF.format(folder=folder, port=port, database=database, word=word))
    configuration.chmod(0o600)  # slurmdbd refuses any other
    run("slurmdbd", "slurmdbd", "-D")
    until(lambda: _answers(port), 60, lambda: _end_of(folder / "slurmdbd.log"))


def _database_folder(folder: Path) -> tuple[str, ...]:
    """Make the database's own tables."""
    where = (f"--datadir={folder / 'database'}", f"--socket={folder / 'database.socket'}")
    options = ("--no-defaults", "--user=root", "--skip-test-db", "--skip-name-resolve", where[0])
    environment = os.environ | {"PATH": search_path()}
    command = ["mariadb-install-db", *options, "--innodb-log-file-size=8M"]
    made = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    if made.returncode:
        raise AssertionError(made.stdout + made.stderr)
    return where


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _end_of(path: Path) -> str:
    return path.read_text(errors="replace")[-2000:] if path.exists() else f"{path.name} is not there"
