"""``portkit ci``: workflows of CI systems, and what their steps call."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from portkit.ci.environment import event, give, summarise, tell, variable
from portkit.cli.options import PATH, fleet_option
from portkit.cli.outputs import write
from portkit.errors import CiError, FleetError
from portkit.fleet.site import Fleet, read_fleet
from portkit.targets.catalog import load_catalog


@click.group("ci")
def command() -> None:
    """Write workflows that run the matrix every night, from the fleet file.

    github and gitlab write files; the others are what those files call.
    """


# -- files


@command.command("github")
@fleet_option
@click.option(
    "-o", "--output", type=PATH, default=Path(".github/workflows"), show_default=True, help="Folder of the workflows."
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 where a file is not what it would be.")
def github(fleet_file: Path, output: Path, check: bool) -> int:
    """Write GitHub's workflows: nightly, pull request, comment."""
    from portkit.ci.github import workflows  # noqa: PLC0415 (ruamel.yaml is read when files are written)

    fleet = read_fleet(fleet_file)
    matrix, tier = _matrix_of(fleet)
    made = workflows(fleet, matrix, tier, load_catalog())
    return _put({output / name: text for name, text in made.items()}, check)


@command.command("gitlab")
@fleet_option
@click.option("-o", "--output", type=PATH, default=Path(".gitlab-ci.yml"), show_default=True, help="File to write.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 where the file is not what it would be.")
def gitlab(fleet_file: Path, output: Path, check: bool) -> int:
    """Write GitLab's pipeline: nightly, and merge requests."""
    from portkit.ci.gitlab import pipeline  # noqa: PLC0415

    fleet = read_fleet(fleet_file)
    matrix, tier = _matrix_of(fleet)
    return _put({output: pipeline(fleet, matrix, tier, load_catalog())}, check)


def _matrix_of(fleet: Fleet) -> tuple[str, str]:
    """Path of the matrix in the repository, and the tier that is run.

    Raises:
        FleetError: the matrix lacks the tier, or the fleet file is not below the current folder.
    """
    from portkit.plan.expand import QUICK  # noqa: PLC0415
    from portkit.plan.matrix import FULL, read_matrix  # noqa: PLC0415

    if fleet.path.is_absolute() or ".." in fleet.path.parts:
        raise FleetError(
            "must be named as in the repository",
            place=str(fleet.path),
            remedy="call it in the repository's folder, with a path below it",
        )
    path = fleet.path.parent / fleet.matrix
    matrix = read_matrix(path)
    tier = fleet.tier or (QUICK if QUICK in matrix.tiers else FULL)
    if tier not in {*matrix.tiers, FULL}:
        raise FleetError(
            f"{path} has no tier {tier!r}", place=f"{fleet.path}: tier", remedy=f"known: {', '.join(matrix.tiers)}"
        )
    return path.as_posix(), tier


def _put(files: Mapping[Path, str], check: bool) -> int:
    if check:
        stale = [path for path, text in files.items() if not path.is_file() or path.read_text("utf-8") != text]
        for path in stale:
            fault = "is not what this command writes" if path.is_file() else "is not there: without --check it is made"
            click.echo(f"{path} {fault}", err=True)
        return 1 if stale else 0
    for path, text in files.items():
        write(path, text)
        click.echo(path)
    return 0


# -- what the files call


@command.command("plan")
@fleet_option
def plan(fleet_file: Path) -> None:
    """Jobs of the night, as outputs of a step: jobs, expect, watch.

    With a token in PORTKIT_RUNNERS_TOKEN that may see runners, a place whose runners are all offline
    gets no job: it is told at once, and missing in the merged table.
    """
    from portkit.ci.jobs import expectation, github_entry, jobs  # noqa: PLC0415
    from portkit.ci.runners import Presence  # noqa: PLC0415

    found = jobs(read_fleet(fleet_file), load_catalog())
    states = _presences([job.labels for job in found])
    for job, state in zip(found, states, strict=True):
        if state is Presence.OFFLINE:
            level = "error" if job.expected else "warning"
            tell(level, f"{job.place} is offline", f"no runner with the labels {', '.join(job.labels)} is online")
    here = [job for job, state in zip(found, states, strict=True) if state is not Presence.OFFLINE]
    give(
        {
            "jobs": json.dumps([github_entry(job) for job in here]),
            "expect": expectation(found),
            "watch": str(Presence.UNKNOWN in states).lower(),
        }
    )


def _presences(labels: Sequence[Sequence[str]]) -> Sequence[str]:
    """What is known of each job's runners; of none where no token may see them."""
    from portkit.ci.api import from_environment  # noqa: PLC0415
    from portkit.ci.runners import Presence, presence, registered  # noqa: PLC0415

    if not os.environ.get("PORTKIT_RUNNERS_TOKEN"):
        return [Presence.UNKNOWN] * len(labels)
    try:
        runners = registered(from_environment("PORTKIT_RUNNERS_TOKEN"))
    except CiError as error:
        tell("warning", "runners are not known", error.message)
        return [Presence.UNKNOWN] * len(labels)
    return [presence(each, runners) for each in labels]


@command.command("watch")
@fleet_option
def watch(fleet_file: Path) -> int:
    """Wait until each job has a runner; exit with 1 where one has none in time."""
    from portkit.ci.api import from_environment  # noqa: PLC0415
    from portkit.ci.jobs import jobs  # noqa: PLC0415
    from portkit.ci.watch import unstarted  # noqa: PLC0415
    from portkit.ci.watch import watch as wait  # noqa: PLC0415

    fleet = read_fleet(fleet_file)
    labels = {job.place: job.labels for job in jobs(fleet, load_catalog())}
    api, run, attempt = from_environment(), variable("GITHUB_RUN_ID"), variable("GITHUB_RUN_ATTEMPT")
    minutes = fleet.ci.queue_minutes
    left = wait(lambda: unstarted(api, run, attempt, labels), minutes * 60)
    for place in left:
        wanted = ", ".join(labels[place])
        tell("error", f"{place} has no runner", f"none with the labels {wanted} took the job in {minutes} minutes")
        summarise(f"- `{place}` still waits for a runner with the labels `{wanted}`, after {minutes} minutes.")
    return 1 if left else 0


@command.command("baseline")
@click.option("--artifact", required=True, help="Artifact that the run must still have.")
@click.option("--any-result", is_flag=True, help="A run that failed will do.")
def baseline(artifact: str, any_result: bool) -> None:
    """Id of the last good run of this workflow on the default branch, as output `run` of a step.

    Runs of forks and of pull requests are none. Empty where there is none.
    """
    from portkit.ci.api import from_environment  # noqa: PLC0415
    from portkit.ci.nights import last_night, workflow_file  # noqa: PLC0415

    workflow = workflow_file(variable("GITHUB_WORKFLOW_REF"))
    run = last_night(from_environment(), workflow, artifact, variable("GITHUB_RUN_ID"), good=not any_result)
    if run is None:
        tell("notice", "no earlier night", f"no run of {workflow} on the default branch has an artifact {artifact}")
    give({"run": run or ""})


@command.command("comment")
@click.argument("paths", nargs=-1, required=True, type=PATH)
def comment(paths: tuple[Path, ...]) -> None:
    """Comment on the pull request whose reports these are; for a workflow that `workflow_run` starts.

    The pull request is found by what GitHub says of the run, the text is made here of the reports.
    """
    from portkit.analysis.rows import comparison  # noqa: PLC0415
    from portkit.ci.api import from_environment  # noqa: PLC0415
    from portkit.ci.comment import pull_request_of, put  # noqa: PLC0415
    from portkit.render.github import pull_request_comment  # noqa: PLC0415
    from portkit.store.merge import merge  # noqa: PLC0415

    api = from_environment()
    number = pull_request_of(api, event().get("workflow_run") or {})
    if number is None:
        tell("notice", "no comment", "the pull request is closed, or has a newer commit")
        return
    click.echo(put(api, number, pull_request_comment(comparison(merge(paths)))))


@command.command("gitlab-night")
@click.option("--job", required=True, help="Job that has the reports.")
@click.option("-o", "--output", type=PATH, required=True, help="Archive to write; none where there is no such night.")
def gitlab_night(job: str, output: Path) -> None:
    """Fetch the artifacts of the last good pipeline of GitLab's default branch."""
    from portkit.ci.gitlab_night import fetch_night  # noqa: PLC0415

    if not fetch_night(job, output):
        click.echo(f"no earlier night: no good pipeline of the default branch has artifacts of {job}", err=True)
