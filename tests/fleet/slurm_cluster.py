"""A real Slurm on this host: munged, slurmctld and one slurmd a node, each with ports of its own on loopback.

With accounting there are slurmdbd and its database, too, and then ``sacct`` answers.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_accounting import SLURM_CONF, start_accounting
from waiting import absent, search_path, until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")

_CONF = """\
ClusterName=portkit
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
MpiDefault=none
GresTypes=gpu
SlurmdTimeout=8
MessageTimeout=4
TCPTimeout=1
SlurmctldTimeout=10
InactiveLimit=0
KillWait=2
MinJobAge=300
ReturnToService=2
"""


def missing() -> str | None:
    """Why no Slurm can be started here; None where one can."""
    if os.geteuid() != 0:
        return "a Slurm is started by root alone"
    return absent(PROGRAMS, "packages slurm-wlm and munge")


@dataclass
class Cluster:
    """Nodes by name, each with one fake GPU of a SKU, in a partition of the SKU's name."""

    folder: Path
    nodes: Mapping[str, str]  # node → SKU
    accounting: bool = False
    _daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self) -> Cluster:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("state", *(f"spool-{node}" for node in self.nodes)):
            (self.folder / name).mkdir()
        database, accountant, *ports = _free_ports(3 + len(self.nodes))
        self._write_configuration(
            ports, SLURM_CONF.format(folder=self.folder, port=accountant) if self.accounting else ""
        )
        self._start_munge()
        if self.accounting:
            start_accounting(self.folder, database, accountant, self._run)
            self.ask("sacctmgr", "--immediate", "add", "cluster", "portkit")
        self._run("slurmctld", "slurmctld", "-D", "-c")
        for node in self.nodes:
            self.start_node(node)
        self.ask("scontrol", "update", f"nodename={node}", "state=resume")
        until(self._all_idle, 30, self._why_not)
        return self

    def environment(self) -> dict[str, str]:
        return os.environ | {"SLURM_CONF": str(self._configuration), "PATH": search_path()}

    @property
    def _configuration(self) -> Path:
        return self.folder / "slurm.conf"

    def ask(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=30, check=False)
        return done.stdout + done.stderr

    def start_node(self, node: str) -> None:
        self._run(node, "slurmd", "-D", "-c", "-N", node)

    def kill_node(self, node: str) -> None:
        """What a loss of power leaves: neither the daemon nor any process of its jobs, and nobody told of it."""
        daemon = self._daemons.pop(node)
        lost = [daemon.pid, *self._processes_of(node)]
        for signum in (signal.SIGSTOP, signal.SIGKILL):  # all at once: a watcher that lives on would tell
            for pid in lost:
                _kill(pid, signum)
        daemon.wait()

    def say_down(self, node: str) -> None:
        """What a health check tells the controller, which would find out itself some seconds later."""
        self.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=power lost")

    def revive(self, node: str) -> None:
        """Start a node that was killed."""
        self.start_node(node)
        until(self._all_idle, 60, self._why_not)

    def stop(self) -> None:
        if "slurmctld" in self._daemons:
            self.ask("scancel", "--user=root", "--full", "--signal=KILL")
        for daemon in reversed(self._daemons.values()):  # one by one: the controller tells the accounting what it knows
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
        for node in self.nodes:
            for pid in self._processes_of(node):
                _kill(pid)

    def _processes_of(self, node: str) -> list[int]:
        """Processes of this cluster's jobs on a node, and those that watch over them."""
        entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [int(entry.name) for entry in entries if self._is_of_job(entry, node) or self._watches(entry, node)]

    def _is_of_job(self, process: Path, node: str) -> bool:
        marks = {f"SLURMD_NODENAME={node}", f"SLURM_CONF={self._configuration}"}
        return marks <= set(_read(process / "environ").split("\0"))

    def _watches(self, process: Path, node: str) -> bool:
        """Whether it is a slurmstepd of the node; one wipes its own environment, and has the node's log open."""
        log = str(self.folder / f"slurmd-{node}.log")
        return "slurmstepd" in _read(process / "comm") and log in _open_files(process)

    def _write_configuration(self, ports: Sequence[int], more: str) -> None:
        conf = _CONF.format(controller=ports[0], folder=self.folder) + more
        gres = ""
        for port, (node, sku) in zip(ports[1:], self.nodes.items(), strict=True):
            conf += f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=2 Gres=gpu:{sku}:1\n"
            gres += f"NodeName={node} Name=gpu Type={sku} File=/dev/null\n"
        for sku in dict.fromkeys(self.nodes.values()):
            own = ",".join(node for node, its in self.nodes.items() if its == sku)
            conf += f"PartitionName={sku} Nodes={own} MaxTime=INFINITE State=UP\n"
        self._configuration.write_text(conf)
        (self.folder / "gres.conf").write_text(gres)

    def _start_munge(self) -> None:
        self.folder.chmod(0o711)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        files = {name: str(self.folder / f"munge.{name}") for name in ("socket", "pid", "log", "seed")}
        options = [f"--{name}{'' if name == 'socket' else '-file'}={path}" for name, path in files.items()]
        self._run("munged", "munged", "--foreground", "--force", f"--key-file={key}", *options)
        until((self.folder / "munge.socket").exists, 10, lambda: "munged has no socket")

    def _run(self, name: str, *command: str) -> None:
        log = (self.folder / f"{name}.out").open("ab")
        self._daemons[name] = subprocess.Popen(
            command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        log.close()

    def _all_idle(self) -> bool:
        return self.ask("sinfo", "-h", "-N", "-o", "%t").split() == ["idle"] * len(self.nodes)

    def _why_not(self) -> str:
        logs = "\n".join(f"{each.name}: {each.read_text()[-2000:]}" for each in sorted(self.folder.glob("*.log")))
        return f"not all nodes are idle:\n{self.ask('sinfo', '-N', '-l')}\n{logs}"


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _open_files(process: Path) -> set[str]:
    with contextlib.suppress(OSError):
        return {str(entry.readlink()) for entry in (process / "fd").iterdir()}
    return set()


def _kill(pid: int, signum: int = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)
