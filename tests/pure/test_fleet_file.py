"""What a fleet file comes to: places, ReFrame's site, the words of a job, and what every host gets."""

import json
import re
import shlex
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from portkit.ci.github import workflows
from portkit.cli import main
from portkit.errors import FleetError
from portkit.fleet.conclude import JobState, exit_code, expected_targets
from portkit.fleet.job import job_files
from portkit.fleet.reframe_site import site, site_text
from portkit.fleet.runs import Attempt, Cause, FleetJob, create_run, find_run
from portkit.fleet.site import Host, Local, Partition, chosen, read_fleet
from portkit.fleet.source import collect_source
from portkit.fleet.starter import starter
from portkit.targets.catalog import load_catalog

NONCE = "c" * 32
FLEET = """\
seconds: {cell: 60, job: 3600, lock: 5}
options: [-k, "bfloat16 and not w8"]
places:
  - target: h200
    partition: gpu
    nodes: [n1, n2]
    access: [--cpus-per-task=16]
    scheduler: slurm
  - target: mi300x
    host: amd1
    count: 2
    devices: [2, 3]
    container: docker run --rm "a image"
    setup: [module load rocm]
    env: {PORTKIT_SALT: "a b"}
  - {target: b200, local: true, count: 0, optional: true}
  - target: l4
    ci: {runner: [self-hosted, l4]}
"""


@pytest.fixture
def fleet(tmp_path):
    (tmp_path / "fleet.yaml").write_text(FLEET)
    return read_fleet(tmp_path / "fleet.yaml")


def test_places(fleet):
    partition, host, local, ci = fleet.places
    assert (type(partition), type(host), type(local)) == (Partition, Host, Local)
    assert [place.name for place in fleet.places] == ["h200-gpu", "mi300x-amd1", "b200-local", "l4-ci"]
    assert (partition.resource, partition.expected) == ("gpu", "h200:measured")
    assert (local.devices, local.expected) == ((), "b200")
    assert ci.ci.runner == ("self-hosted", "l4")
    assert ci not in fleet.reachable
    assert [place.target for place in chosen(fleet, ["b200", "h200-gpu"])] == ["h200", "b200"]
    assert fleet.targets == ("h200", "mi300x", "b200", "l4")


def test_site_of_reframe(fleet):
    read = YAML(typ="safe").load(site_text(site(fleet)))
    slurm, ssh, local = read["systems"][0]["partitions"]
    assert slurm["access"] == ["--partition=gpu", "--no-requeue", "--gres=gpu:1", "--cpus-per-task=16"]
    assert (slurm["scheduler"], slurm["max_jobs"]) == ("slurm", 2)
    assert (ssh["scheduler"], ssh["sched_options"]) == ("ssh", {"ssh_hosts": ["amd1"]})
    assert "-o ServerAliveInterval=15" in ssh["access"]
    assert local["scheduler"] == "local"


def words_of(text, name):
    line = next(line for line in text.splitlines() if line.startswith(f"{name}="))
    return shlex.split(line.removeprefix(f"{name}=").strip("()"))


def test_words_of_a_job(fleet):
    files = job_files(fleet, fleet.reachable[1], NONCE)
    text = files["job.env"]
    assert files["setup.sh"] == "module load rocm\n"
    assert words_of(text, "container") == ["docker", "run", "--rm", "a image"]
    assert words_of(text, "devices") == ["2", "3"]
    arguments = words_of(text, "arguments")
    assert arguments[arguments.index("--portkit-nonce") + 1] == NONCE
    assert arguments[arguments.index("--portkit-devices") + 1] == "2,3"
    assert arguments[-2:] == ["-k", "bfloat16 and not w8"]
    assert "export PORTKIT_SALT='a b'" in text
    assert "locked=1\nlock_seconds=5" in text


def test_slurm_locks_its_gpus_itself_and_builders_interpret(fleet):
    assert "locked=0" in job_files(fleet, fleet.reachable[0], NONCE)["job.env"]
    arguments = words_of(job_files(fleet, fleet.reachable[2], NONCE)["job.env"], "arguments")
    assert arguments[arguments.index("--portkit-target") + 1] == "b200,interpreter"


def test_jobs_of_nodes(fleet, tmp_path):
    run = create_run(tmp_path / "runs", fleet, fleet.reachable)
    assert [(job.name, job.node) for job in run.jobs()][:2] == [("h200-gpu-n1", "n1"), ("h200-gpu-n2", "n2")]
    assert find_run(tmp_path / "runs", "latest") == run
    with pytest.raises(FleetError, match="no run 'x' of a fleet"):
        find_run(tmp_path / "runs", "x")


def state(fleet, index, cause):
    place = fleet.places[index]
    attempt = Attempt(place.name, 1, NONCE, "", "", cause)
    return JobState(FleetJob(place.name, place.name, place.target), place, (attempt,))


def test_absence_is_no_failure_where_it_is_declared_and_any_other_cause_is(fleet):
    good, absent = state(fleet, 1, Cause.DONE), state(fleet, 2, Cause.ABSENT)
    assert exit_code((good, absent), ()) == 0
    assert expected_targets((good, absent)) == ("mi300x:measured",)
    assert exit_code((good, state(fleet, 2, Cause.TIMEOUT)), ()) == 3
    missing = state(fleet, 0, Cause.ABSENT)
    assert exit_code((good, missing), ()) == 3
    assert expected_targets((good, missing)) == ("mi300x:measured", "h200:measured")


@pytest.fixture
def project(fleet, tmp_path, monkeypatch):
    (tmp_path / "kernels" / "__pycache__").mkdir(parents=True)
    (tmp_path / "kernels" / "one.py").write_text("")
    (tmp_path / "kernels" / "shared.py").write_text("")
    (tmp_path / "matrix.yaml").write_text("kernels: {one: }\ntargets: [h200]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_host_gets_the_kernels_folder_and_no_settings_from_above(fleet, project):
    collect_source(fleet, project / "source")
    found = sorted(str(path.relative_to(project / "source")) for path in (project / "source").rglob("*"))
    assert found == ["kernels", "kernels/one.py", "kernels/shared.py", "matrix.yaml", "pytest.ini"]


def test_kernels_beside_the_matrix_are_refused(fleet, project):
    (project / "one.py").write_text("")
    (project / "matrix.yaml").write_text("kernels: {one: {path: one.py}}\ntargets: [h200]\n")
    with pytest.raises(FleetError, match="kernels into a folder of their own"):
        collect_source(fleet, project / "source")


def test_init_writes_a_fleet_file_and_reframes_site(project, capsys):
    (project / "fleet.yaml").unlink()
    assert main(["fleet", "init"]) == 0
    assert "h200-local" in capsys.readouterr().out
    assert [type(place) for place in read_fleet(Path("fleet.yaml")).places] == [Local]
    assert YAML(typ="safe").load(Path("reframe-site.yaml"))["systems"][0]["partitions"][0]["scheduler"] == "local"


def test_init_refuses_a_matrix_and_files_that_are_not_there(project, capsys):
    (project / "fleet.yaml").write_text("matrix: other.yaml\n" + FLEET)
    assert main(["fleet", "init"]) == 2
    told = capsys.readouterr().err
    assert "fleet.yaml: matrix: no such file: " in told
    assert "other.yaml" in told
    assert "portkit init" in told
    (project / "fleet.yaml").write_text("files: [data]\n" + FLEET)
    assert main(["fleet", "init"]) == 2
    assert "data: no such file or folder\n  remedy: mend `files` of fleet.yaml" in capsys.readouterr().err
    assert not (project / "reframe-site.yaml").exists()


def test_every_example_of_the_fleet_file_to_begin_with_is_right(project):
    lines = starter(project).splitlines()
    keys = re.compile(r"(  )?# (?=[- ] |[a-z]+:)")
    (project / "fleet.yaml").write_text("\n".join(keys.sub(r"\1", line, count=1) for line in lines))
    fleet = read_fleet(project / "fleet.yaml")
    assert [type(place).__name__ for place in fleet.places] == ["Local", "Partition", "Host", "Place"]
    assert fleet.ci.history == "s3://bucket/portkit"
    assert (fleet.retries, fleet.tier) == (1, "full")
    assert len(workflows(fleet, "matrix.yaml", "full", load_catalog())) == 3


def test_status_shows_every_attempt(fleet, project, capsys):
    run = create_run(project / "reports" / "fleet", fleet, fleet.reachable[2:])
    (run.folder / "source").mkdir()
    run.add(Attempt("b200-local", 1, NONCE, "a", "b", Cause.LOST, "died", records=1, cells=3))
    run.add(Attempt("b200-local", 2, NONCE, "a", "b", Cause.DONE, records=3, cells=3))
    assert main(["fleet", "status"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["b200-local", "b200", "1", "lost", "1/3", "died"] in lines
    assert ["b200-local", "b200", "2", "done", "3/3"] in lines
    assert main(["fleet", "status", "--json"]) == 0
    assert [each["cause"] for each in json.loads(capsys.readouterr().out)] == ["lost", "done"]
