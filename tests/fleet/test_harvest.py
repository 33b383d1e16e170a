"""What becomes of an attempt, by its own word, the scheduler's and ReFrame's; whose reports are taken."""

import json

import pytest
from factories import header, record

from portkit.fleet.harvest import Found, gather, judge
from portkit.fleet.runs import Cause
from portkit.store.journal import Journal

NONCE, OTHER = "a" * 32, "b" * 32
BEGUN = {"nonce": NONCE, "stage": "run"}
DEAD = {"node": "n7", "node_state": "DOWN+NOT_RESPONDING"}


def report(folder, run_id, nonce, *, end=True):
    run = header(run_id=run_id, nonce=nonce, cells=1)
    journal = Journal.create(folder, run)
    journal.append(record(run=run))
    journal.finish() if end else journal.close()


@pytest.fixture
def stage(tmp_path):
    folder = tmp_path / "stage"
    (folder / "report").mkdir(parents=True)
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    (attempt / "stage").write_text(str(folder))
    return folder


def collect(stage, outcome, **keys):
    (stage / "outcome").write_text("".join(f"{word} {value}\n" for word, value in outcome.items()))
    settings = {"slurm": False, "by_ssh": False, "failure": "", "into": stage.parent / "reports" / "job.1"}
    return gather(stage.parent / "attempt", NONCE, **settings | keys)


def test_own_reports_are_moved_and_others_refused(stage):
    report(stage / "report", "20260101T000000Z-mine", NONCE)
    report(stage / "report", "20260101T000000Z-stale", OTHER)
    report(stage / "report", "20260101T000000Z-nobody", None)
    (stage / "report" / "damaged.jsonl").write_text("{}\n")
    found = collect(stage, BEGUN | {"cause": "done"})
    assert [each.header.run_id for each in found.reports] == ["20260101T000000Z-mine"]
    assert [path.name for path in (stage.parent / "reports" / "job.1").iterdir()] == ["20260101T000000Z-mine.jsonl"]
    assert found.refused[2].startswith("damaged.jsonl: not a line of a portkit report")
    assert found.refused[:2] == (
        "20260101T000000Z-nobody.jsonl: is of another job: no fleet asked for it",
        f"20260101T000000Z-stale.jsonl: is of another job: its word is {OTHER}",
    )
    assert judge(found)[0] is Cause.STALE


def test_outcome_of_another_job_is_stale(stage):
    found = collect(stage, {"nonce": OTHER, "cause": "done"})
    assert judge(found) == (Cause.STALE, f"what came back is of another job, whose word is {OTHER}")


def test_done_needs_a_whole_report(stage):
    outcome = BEGUN | {"cause": "done", "code": "0"}
    assert judge(collect(stage, outcome)) == (Cause.NO_REPORT, "pytest ended with code 0 and left no report")
    report(stage / "report", "20260101T000000Z-cut", NONCE, end=False)
    cause, why = judge(collect(stage, outcome))
    assert cause is Cause.FAILED
    assert why.startswith("the report is partial: no end line")


def test_whole_report(stage):
    report(stage / "report", "20260101T000000Z-mine", NONCE)
    assert judge(collect(stage, BEGUN | {"cause": "done"})) == (Cause.DONE, "")


@pytest.mark.parametrize(
    ("found", "cause", "words"),
    [
        (
            {"outcome": BEGUN, "said": {"state": "NODE_FAIL", **DEAD}},
            Cause.NODE_LOST,
            "Slurm: NODE_FAIL on n7; the node",
        ),
        ({"outcome": BEGUN, "said": {"state": "FAILED", **DEAD}}, Cause.NODE_LOST, "DOWN+NOT_RESPONDING"),
        ({"outcome": BEGUN, "said": {"state": "TIMEOUT", "exit_code": "0:0"}}, Cause.TIMEOUT, "Slurm: TIMEOUT, in the"),
        ({"outcome": BEGUN, "said": {"state": "RUNNING"}}, Cause.RUNNING, "Slurm: RUNNING"),
        ({"outcome": BEGUN, "said": {"state": "COMPLETED"}}, Cause.LOST, "Slurm: COMPLETED, in the stage run"),
        ({"outcome": BEGUN, "said": {"state": "CANCELLED by 0"}}, Cause.CANCELLED, "CANCELLED by 0"),
        (
            {"outcome": BEGUN | {"cause": "cancelled", "why": "w"}, "said": {"state": "TIMEOUT"}},
            Cause.TIMEOUT,
            "; w, in",
        ),
        ({"outcome": BEGUN}, Cause.LOST, "the job ended without a word, in the stage run"),
        ({"outcome": BEGUN, "by_ssh": True}, Cause.NODE_LOST, "the connection to the host was lost in the stage run"),
        ({"outcome": BEGUN, "by_ssh": True, "overdue": True}, Cause.TIMEOUT, "gave no sign within its limit"),
        ({"by_ssh": True, "failure": "ssh: connect: Connection refused"}, Cause.UNREACHABLE, "Connection refused"),
        ({"failure": "sbatch: error: invalid partition specified: x"}, Cause.ABSENT, "invalid partition"),
        ({"failure": "sbatch: error: Invalid generic resource (gres)"}, Cause.ABSENT, "generic resource"),
        ({"failure": "job error: maximum pending time exceeded"}, Cause.NOT_STARTED, "pending"),
        (
            {"failure": "job error: x", "said": {"state": "BOOT_FAIL"}},
            Cause.NODE_LOST,
            "job error: x; Slurm: BOOT_FAIL",
        ),
        ({"outcome": BEGUN | {"cause": "locked", "why": "held"}}, Cause.LOCKED, "held"),
        ({"outcome": BEGUN | {"cause": "unheard of", "why": "new"}}, Cause.FAILED, "new"),
    ],
)
def test_cause(found, cause, words):
    told, why = judge(Found(NONCE, **found))
    assert (told, words in why) == (cause, True), why


def test_copy_of_a_lost_host_stands_in(tmp_path):
    attempt = tmp_path / "attempt"
    report(attempt / "mirror" / "report", "20260101T000000Z-mine", NONCE, end=False)
    (attempt / "mirror" / "outcome").write_text(f"nonce {NONCE}\nstage run\n")
    found = gather(attempt, NONCE, slurm=False, by_ssh=True, failure="", into=tmp_path / "into")
    assert judge(found)[0] is Cause.NODE_LOST
    assert len(found.reports[0].records) == 1


def test_word_of_slurm_is_kept_where_it_forgot_the_job(stage, monkeypatch):
    monkeypatch.setattr("portkit.fleet.scheduler.ask", lambda number: {})
    (stage.parent / "attempt" / "number").write_text("7")
    (stage.parent / "attempt" / "scheduler.json").write_text(json.dumps({"state": "NODE_FAIL"}))
    assert judge(collect(stage, BEGUN, slurm=True)) == (Cause.NODE_LOST, "Slurm: NODE_FAIL, in the stage run")


def test_outcome_shows_no_escape_sequence(stage):
    found = collect(stage, BEGUN | {"cause": "failed", "why": "\x1b[31mred\x1b[0m"})
    assert judge(found) == (Cause.FAILED, "red")
