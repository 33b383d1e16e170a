"""Jobs on a real Slurm: one that comes to its end, absent SKUs, and a node that is lost."""

import json
import time

import pytest


def place(target, **keys):
    return {"target": target, "partition": target, "resource": f"gpu:{target}", "count": 0, **keys}


@pytest.fixture
def slurm(cluster, monkeypatch):
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    return cluster


def test_jobs_and_absent_skus(slurm, project):
    project.write(
        [
            place("h200"),
            {"target": "b200", "partition": "nowhere", "count": 0},
            {"target": "mi300x", "partition": "h200", "resource": "gpu:mi300x", "count": 1, "optional": True},
            {"target": "mi355x", "partition": "mi300x", "resource": "gpu:mi300x", "count": 1},
        ],
        options=["-k", "float32 and b256 and 65536"],
    )
    ran = project.fleet("run")
    by_job = {attempt["job"]: attempt for attempt in project.attempts()}
    assert by_job["h200-h200"]["cause"] == "done", ran
    print(ran.out, ran.err, json.dumps(by_job, indent=1))
