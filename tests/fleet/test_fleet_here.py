"""Jobs on this host: a driver that is killed, and a host without ReFrame."""

import signal

import pytest
from fleet_files import ended
from waiting import until

from portkit.errors import FleetError
from portkit.fleet.engine import check_engine


@pytest.mark.slow
def test_killed_driver_leaves_jobs_that_resume_takes_up(played, tmp_path):
    stop = tmp_path / "stop"
    stop.touch()
    state = {"PORTKIT_FLEET_STATE": str(tmp_path / "state")}
    variables = {"PLAYED_STOP_AFTER": "1", "PLAYED_STOP_FILE": str(stop), "PLAYED_TIMEOUTS": "1", **state}
    played.write([{"target": "b200", "local": True, "count": 0, "env": variables}])
    process = played.start("run")
    until(lambda: list(played.folder.rglob("stage/**/report/*.jsonl")), 60)
    process.send_signal(signal.SIGKILL)
    ended(process)
    assert ["b200-local", "b200", "1", "run", "1"] in [line.split() for line in played.fleet("status").out.splitlines()]
    stop.unlink()
    resumed = played.fleet("resume")
    assert [attempt["cause"] for attempt in played.attempts()] == ["cancelled", "done"], resumed
    assert played.attempts()[0]["why"] == "was told to stop by SIGTERM, in the stage run"
    assert "b200-local: timeout" in resumed.out
    assert resumed.code == 1
    again = played.fleet("resume")
    assert (again.code, len(played.attempts())) == (1, 2)


def test_host_without_reframe(monkeypatch):
    monkeypatch.setattr("portkit.fleet.engine.util.find_spec", lambda name: None)
    with pytest.raises(FleetError, match=r"ReFrame is not installed here.*\n  remedy: pip install 'portkit\[fleet\]'"):
        check_engine()


def test_reframe_that_is_too_old(monkeypatch):
    monkeypatch.setattr("portkit.fleet.engine.metadata.version", lambda name: "4.9.2")
    with pytest.raises(FleetError, match=r"ReFrame 4\.9\.2 is installed, and 4\.10 or newer is needed"):
        check_engine()
