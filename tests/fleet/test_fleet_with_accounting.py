"""Jobs on a real Slurm with accounting, by ReFrame's backend ``slurm``, which asks sacct."""

import pytest
from fleet_files import ended
from waiting import until

from portkit.fleet import scheduler


def place(target, **keys):
    common = {"target": target, "partition": target, "resource": f"gpu:{target}", "scheduler": "slurm", "count": 0}
    return {**common, **keys}


@pytest.fixture
def slurm(accounted, monkeypatch):
    for name, value in accounted.environment().items():
        monkeypatch.setenv(name, value)
    return accounted


def sacct(slurm, number, *columns):
    """Columns of a job, in the accounting's own words."""
    return slurm.ask("sacct", "-X", "-n", "-P", "-j", number, "-o", ",".join(columns)).strip().split("|")


def number_of(project, job):
    (path,) = project.run.glob(f"attempt-1/jobs/{job}/number")
    return path.read_text()


def test_job_comes_to_its_end_and_an_absent_sku_is_told(slurm, played):
    played.write([place("h200"), place("a100", partition="h200", resource="gpu:a100", count=1)])
    ran = played.fleet("run")
    told = {attempt["job"]: (attempt["cause"], attempt["records"]) for attempt in played.attempts()}
    assert told == {"h200-h200": ("done", 3), "a100-h200": ("absent", 0)}, ran
    (site,) = played.run.rglob("site.yaml")
    assert site.read_text().count("scheduler: slurm") == 2
    number = number_of(played, "h200-h200")
    until(lambda: sacct(slurm, number, "State") == ["COMPLETED"], 30)
    assert sacct(slurm, number, "ExitCode", "NodeList") == ["0:0", "n1"]


def forget(folder, monkeypatch):
    """Let the controller answer as of a job that it remembers no more."""
    (folder / "scontrol").write_text("#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n")
    (folder / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.slow
def test_timeout_with_exit_code_0_and_a_lost_node_are_no_success(slurm, played, tmp_path, monkeypatch):
    """sacct has 0:0 of both; what counts is the state."""
    stop = tmp_path / "stop"
    stop.touch()
    hang = {"PLAYED_STOP_AFTER": "1", "PLAYED_STOP_FILE": str(stop)}
    played.write([place("h200"), place("mi300x", env=hang), place("b200", env=hang)])
    process = played.start("run")
    until(lambda: hangs(played, "mi300x-mi300x") and hangs(played, "b200-b200"), 60)
    slurm.kill_node("n3")
    slurm.say_down("n3")
    late = number_of(played, "mi300x-mi300x")
    slurm.ask("scontrol", "update", f"jobid={late}", "EndTime=now")
    try:
        ran = ended(process)
    finally:
        slurm.revive("n3")
    by_job = {attempt["job"]: attempt for attempt in played.attempts()}
    assert {job: (each["cause"], each["records"]) for job, each in by_job.items()} == {
        "h200-h200": ("done", 3),
        "mi300x-mi300x": ("timeout", 1),
        "b200-b200": ("node_lost", 1),
    }, ran
    assert ran.code == 3
    assert by_job["mi300x-mi300x"]["why"].startswith("Slurm: TIMEOUT (TimeLimit) on n2")
    assert by_job["b200-b200"]["why"].startswith("Slurm: NODE_FAIL")
    assert sacct(slurm, late, "State", "ExitCode") == ["TIMEOUT", "0:0"]
    assert sacct(slurm, number_of(played, "b200-b200"), "State", "ExitCode") == ["NODE_FAIL", "0:0"]
    forget(tmp_path, monkeypatch)
    said = scheduler.ask(late)
    assert said == {"from": "sacct", "state": "TIMEOUT", "exit_code": "0:0", "node": "n2"}
    assert not scheduler.is_active(said)


def hangs(project, job):
    """Whether a job wrote the last record that it writes for now, and ReFrame its number."""
    reports = project.folder.rglob(f"stage/**/{job}/**/report/*.jsonl")
    written = any(b'"kind":"record"' in path.read_bytes() for path in reports)
    return written and list(project.folder.rglob(f"jobs/{job}/number"))
