"""What Slurm says of a job: its state in the scheduler's own words.

An exit code says little there: of a job that was over its time limit sacct has 0:0, and squeue forgets
a job once it ended. So the state is asked for. The controller knows it best, and remembers it for some minutes;
after that the accounting has it, which some seconds earlier may still say that the job runs.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from typing import Final

ACTIVE: Final = frozenset(
    ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "STOPPED", "SUSPENDED", "RESIZING")
)
"""States of a job that has not ended."""

LOST: Final = frozenset(("NODE_FAIL", "BOOT_FAIL"))
"""States of a job whose node is to blame."""

_SECONDS: Final = 30.0

Said = Mapping[str, str]
"""``state``, ``reason``, ``exit_code``, ``node``, ``node_state``, ``node_reason``, and ``from``, who said it."""


def ask(job_id: str) -> dict[str, str]:
    """The newest word on a job; empty where neither scontrol nor sacct knows it.

    Args:
        job_id: Slurm's number of it.
    """
    said = _from_scontrol(job_id) or _from_sacct(job_id)
    if said and (node := said.get("node")):
        said |= _of_node(node)
    return {name: value for name, value in said.items() if value not in ("", "(null)", "None", "N/A")}


def cancel(job_id: str) -> None:
    """Ask Slurm to end a job; one that has ended already stays as it is."""
    _answer("scancel", job_id)


def text(said: Said) -> str:
    """One line for people: state, reason, node."""
    if not said:
        return ""
    reason = f" ({said['reason']})" if "reason" in said else ""
    on = f" on {said['node']}" if "node" in said else ""
    node = f"; the node is {said['node_state']}" if "node_state" in said else ""
    why = f" ({said['node_reason']})" if "node_reason" in said else ""
    code = f", exit code {said['exit_code']}" if said.get("exit_code", "0:0") != "0:0" else ""
    return f"Slurm: {said.get('state', 'no state')}{reason}{on}{code}{node}{why}"


def state(said: Said) -> str:
    """The state's name, without what follows it, as in ``CANCELLED by 0``."""
    return said.get("state", "").partition(" ")[0]


def is_active(said: Said) -> bool:
    """Whether the job still waits or runs."""
    return state(said) in ACTIVE


def is_blocked(said: Said) -> bool:
    """Whether the job waits for a node that is gone, so that it would wait until somebody mends that."""
    return state(said) == "PENDING" and said.get("reason", "").startswith("ReqNodeNotAvail")


def _from_scontrol(job_id: str) -> dict[str, str]:
    fields = _fields(_answer("scontrol", "show", "job", "--oneliner", job_id))
    if "JobState" not in fields:
        return {}
    return {
        "from": "scontrol",
        "state": fields["JobState"],
        "reason": fields.get("Reason", "").replace("_", " "),
        "exit_code": fields.get("ExitCode", ""),
        "node": fields.get("NodeList", ""),
    }


def _from_sacct(job_id: str) -> dict[str, str]:
    """What the accounting says; nothing where there is none."""
    columns = ("State", "Reason", "ExitCode", "NodeList")
    answer = _answer("sacct", "-X", "-n", "-P", "-j", job_id, "-o", ",".join(columns))
    values = answer.splitlines()[0].split("|") if answer else []
    if len(values) != len(columns):
        return {}
    return {"from": "sacct", **dict(zip(("state", "reason", "exit_code", "node"), values, strict=True))}


def _of_node(node: str) -> dict[str, str]:
    answer = _answer("scontrol", "show", "node", "--oneliner", node)
    state = _fields(answer).get("State", "")
    if not state.startswith(("DOWN", "FAIL", "DRAIN", "UNKNOWN")) and "NOT_RESPONDING" not in state:
        return {}
    reason = re.search(r"Reason=(.*?)(?: \[|$)", answer, re.MULTILINE)
    return {"node_state": state, "node_reason": reason[1].strip() if reason else ""}


def _fields(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S*)", line))


def _answer(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
