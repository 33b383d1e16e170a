"""The jobs of one attempt as tests of ReFrame, which loads this file with ``-c``.

A test passes where its job came to its end and brought a report; what the report says is for the merge.
``PORTKIT_FLEET_PLAN`` names the file that says which jobs there are.
"""

import json
import os
import shutil
import threading
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, run_after, run_before, sanity_function

from portkit.fleet import scheduler
from portkit.fleet.job import OUTCOME
from portkit.fleet.outcome import read_outcome
from portkit.fleet.reframe_site import SYSTEM

_PLAN = json.loads(Path(os.environ["PORTKIT_FLEET_PLAN"]).read_text())
_JOBS = {entry["name"]: entry for entry in _PLAN["jobs"]}


@rfm.simple_test
class FleetJob(rfm.RunOnlyRegressionTest, special=True):  # type: ignore[misc,call-arg]
    """One job on its place; ``special`` is what ReFrame asks of a class with a ``run`` of its own."""

    job_name = parameter(list(_JOBS))
    executable = "bash"

    @run_after("init")
    def take_entry(self) -> None:
        """Where it goes, and for how long."""
        self.entry = _JOBS[self.job_name]
        self.folder = Path(self.entry["folder"])
        self.executable_opts = ["job.sh"]
        self.valid_prog_environs = ["builtin"]
        self.valid_systems = [f"{SYSTEM}:{self.entry['place']}"]
        self.sourcesdir = self.entry["source"]
        self.time_limit = f"{self.entry['seconds']}s"
        if self.entry["slurm"]:
            self.max_pending_time = f"{self.entry['pending_seconds']}s"

    @run_before("run")
    def add_files(self) -> None:
        """What the job is to do, and where its folder is."""
        for path in (self.folder / "files").iterdir():
            shutil.copy2(path, self.stagedir)
        self.job.options += self.entry["options"]
        (self.folder / "stage").write_text(self.stagedir)

    def run(self) -> None:
        """Hand the job over, and note Slurm's number of it at once; over ssh, set a limit, which that backend lacks.

        A hook after ``run`` would come when the job has ended: too late for both.
        """
        super().run()
        (self.folder / "number").write_text(str(self.job.jobid))
        if "exec" in getattr(self.job, "steps", {}):
            self.watchdog = threading.Timer(self.entry["seconds"], self.end_connection)
            self.watchdog.daemon = True
            self.watchdog.start()

    def end_connection(self) -> None:
        """End the ssh that waits for a job over its limit."""
        connection = self.job.steps["exec"]
        if connection.started() and connection.exitcode is None:
            (self.folder / "overdue").touch()
            connection.cancel()

    @run_before("sanity")
    def ask_scheduler(self) -> None:
        """The scheduler's own word, while it remembers the job."""
        if self.entry["slurm"]:
            (self.folder / "scheduler.json").write_text(json.dumps(scheduler.ask(str(self.job.jobid))))

    @sanity_function
    def came_to_its_end(self) -> object:
        """Whether the job said of itself that it is done."""
        outcome = read_outcome(Path(self.stagedir) / OUTCOME)
        ours = outcome.get("nonce") == self.entry["nonce"]
        done = ours and outcome.get("cause") == "done"
        return sn.assert_true(done, msg=outcome.get("why") or "the job did not come to its end")
