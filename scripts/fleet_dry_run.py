#!/usr/bin/env python3
"""Two nights of a fleet on a real Slurm of this host: all is well in the first, two things go wrong in the second.

    .venv/bin/python scripts/fleet_dry_run.py [--keep FOLDER] [--docs]

Three nodes stand for three SKUs, h200, mi300x and b200; without their GPUs, the evidence is compiled and
interpreted. In the second night the kernel's host function has a loop that never ends on the mi300x, whose units
are more than it reckons with, and the node of the b200 loses its power in the middle of its job. Printed is
what the commands print. The exit code is 0 where the merged table has every record that was finished, both
failures are named by cause, and ``portkit gate`` gives exit code 1. With ``--docs`` the transcripts in
docs/fleet.md are made anew of what was printed, where all is as promised.

Needs root and the packages slurm-wlm and munge; the Slurm is on loopback, and ends with the script.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from portkit.fleet.runs import Attempt, FleetRun, find_run
from portkit.store.merge import merge

ROOT = Path(__file__).resolve().parent.parent
FLEET_TESTS = ROOT / "tests" / "fleet"
sys.path.insert(0, str(FLEET_TESTS))

from slurm_cluster import Cluster, missing  # noqa: E402 (lies with the tests)

NODES = {"n1": "h200", "n2": "mi300x", "n3": "b200"}
LOST = "n3"
GOOD, HANGS = "return max(1, 148 // units)", "return 148 // units"
CELL_SECONDS = 15
PENDING_SECONDS = 15  # that the second attempt waits for the node that is gone
MOST_SECONDS = 500.0

PAGE = ROOT / "docs" / "fleet.md"
OF_THE_NIGHT = re.compile(
    r"attempt \d|[\w-]+: (done|node_lost|not_started|timeout)|warning:|kernel  |scaled_sum  "
    r"|job  |-+  |(h200|mi300x|b200)-|  +\S.*(Slurm|jobs in|Not responding|stage run)|reports:"
)
"""Lines of the second night that the page quotes: attempts, what became of the jobs, the table of kernels, the end."""
OF_THE_GATE = re.compile(r"\d+ fail|Failed|scaled_sum\[|    status|Not run")


@dataclass(frozen=True)
class Night:
    """What a night came to."""

    run: FleetRun
    code: int
    text: str  # of the command


def write_project(folder: Path) -> None:
    """A matrix of one kernel, and a fleet of three partitions."""
    shutil.copytree(FLEET_TESTS / "project", folder, dirs_exist_ok=True)
    common = {"count": 0, "python": sys.executable, "env": {"PYTHONPATH": str(ROOT)}}
    places = [{"target": sku, "partition": sku, "resource": f"gpu:{sku}", **common} for sku in NODES.values()]
    options = ["--portkit-emulate", "off", "-k", "float32 and not 4194304 and not b1024"]
    fleet = {
        "options": options,
        "retries": 1,
        "seconds": {"cell": CELL_SECONDS, "pending": PENDING_SECONDS},
        "places": places,
    }
    with (folder / "fleet.yaml").open("w") as file:
        YAML(typ="safe").dump(fleet, file)


def break_kernel(folder: Path) -> None:
    """What a commit of the day did."""
    path = folder / "kernels" / "scaled_sum.py"
    text = path.read_text()
    if GOOD not in text:
        raise RuntimeError(f"{path} has not the line that is to be broken")
    path.write_text(text.replace(GOOD, HANGS))


def night(folder: Path, slurm: Cluster, *, kill: str | None = None) -> Night:
    """``portkit fleet run`` to its end; a node is killed once its job has a record."""
    environment = slurm.environment() | {"PYTHONPATH": str(ROOT), "COLUMNS": "150"}
    command = [sys.executable, "-m", "portkit", "fleet", "run"]
    log = folder / "night.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out)
    if kill:
        wait_for_record(folder, NODES[kill])
        slurm.kill_node(kill)
    code = process.wait(MOST_SECONDS)
    text = log.read_text()
    print(f"$ portkit fleet run\n{text}", flush=True)
    return Night(find_run(folder / "reports" / "fleet", "latest"), code, text)


def wait_for_record(folder: Path, target: str) -> None:
    """Until the newest run's job of a target has finished a cell."""
    end = time.monotonic() + MOST_SECONDS
    while time.monotonic() < end:
        newest = max((folder / "reports" / "fleet").glob("*"), default=folder)
        reports = newest.glob(f"attempt-*/stage/*/{target}-{target}/**/report/*.jsonl")
        if any(b'"kind":"record"' in path.read_bytes() for path in reports):
            return
        time.sleep(0.05)
    raise RuntimeError(f"the job of {target} finished no cell")


def gate(before: Night, after: Night) -> tuple[int, str]:
    """The exit code of ``portkit gate`` over both nights, and what it prints."""
    sides = ["--baseline", str(before.run.reports), "--current", str(after.run.reports)]
    command = [sys.executable, "-m", "portkit", "gate", *sides]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "150"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    print(f"$ portkit gate --baseline … --current …\n{done.stdout}exit code {done.returncode}", flush=True)
    return done.returncode, done.stdout


def finished(run: FleetRun) -> int:
    """Records that jobs wrote, wherever they lie."""
    return sum(path.read_bytes().count(b'{"kind":"record"') for path in run.folder.rglob("*.jsonl"))


def merged(run: FleetRun) -> int:
    """Records that the merge has."""
    dataset = merge([run.reports])
    return sum(1 + len(row.other_runs) for row in (*dataset.rows, *dataset.drift))


def faults(first: Night, second: Night, gated: int) -> Iterator[str]:
    """What is not as promised."""
    if first.code != 0:
        yield f"the first night ended with code {first.code}"
    if second.code != 1:
        yield f"the second night ended with code {second.code}"
    lost = [attempt for attempt in second.run.attempts() if attempt.cause == "node_lost"]
    if [attempt.job for attempt in lost] != ["b200-b200"] or not _is_told(lost[0]):
        yield f"the lost node is not named: {json.dumps([str(attempt) for attempt in lost])}"
    if finished(second.run) != merged(second.run):
        yield f"{finished(second.run)} records were finished, {merged(second.run)} are merged"
    if "mi300x-mi300x: timeout (capture)" not in second.text:
        yield "the kernel that hangs is not named"
    if gated != 1:
        yield f"the gate's exit code is {gated}"


def _is_told(attempt: Attempt) -> bool:
    return attempt.records > 0 and attempt.scheduler.get("state") == "NODE_FAIL" and "NODE_FAIL" in attempt.why


def excerpt(text: str, kept: re.Pattern[str], folder: Path) -> str:
    """The lines that a page quotes, each run of others as one of dots; without the folder of this run."""
    lines = [line.rstrip() if kept.match(line) else "…" for line in text.replace(str(folder), "…").splitlines()]
    return "\n".join(line for line, _ in itertools.groupby(lines)).strip("…\n")


def quote(second: Night, gated: str, folder: Path) -> None:
    """Write the transcripts of the page anew."""
    text = PAGE.read_text()
    text = with_transcript(text, "night", excerpt(second.text, OF_THE_NIGHT, folder))
    PAGE.write_text(with_transcript(text, "gate", excerpt(gated, OF_THE_GATE, folder)))


def with_transcript(text: str, name: str, transcript: str) -> str:
    """A page with another transcript at the place of that name."""
    head = f"<!-- fleet_dry_run.py: {name} -->\n```\n"
    before, found, rest = text.partition(head)
    if not found:
        raise RuntimeError(f"{PAGE} has no place for the {name}")
    end = "\n```\n"
    return before + head + transcript + end + rest.partition(end)[2]


@contextlib.contextmanager
def place(keep: Path | None) -> Iterator[Path]:
    """Where to work: a folder that goes, or one that stays."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder:
        yield Path(folder)


def main() -> int:
    """Both nights and the gate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="folder for what is written; by default it is removed")
    parser.add_argument("--docs", action="store_true", help="make the transcripts of docs/fleet.md anew")
    options = parser.parse_args()
    if why := missing():
        print(f"no Slurm here: {why}", file=sys.stderr)
        return 2
    with place(options.keep) as folder:
        project = folder / "project"
        write_project(project)
        slurm = Cluster(folder / "slurm", NODES)
        try:
            slurm.start()
            first = night(project, slurm)
            break_kernel(project)
            second = night(project, slurm, kill=LOST)
        finally:
            slurm.stop()
        code, told = gate(first, second)
        wrong = list(faults(first, second, code))
        if options.docs and not wrong:
            quote(second, told, project)
    print("\n".join(wrong) or "as promised: every finished record is merged, both failures are named, the gate fails")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
