"""GitLab's pipeline: nightly by a schedule, and the rows that need no GPU for merge requests."""

from __future__ import annotations

import shlex
from typing import Any, Final

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import FoldedScalarString

from portkit.ci.jobs import Job, expectation, jobs
from portkit.ci.templates import fill, load, text
from portkit.ci.words import common_words, made_by
from portkit.fleet.site import Fleet
from portkit.targets.catalog import Catalog

_RESERVED: Final = frozenset({"builds", "merge", "gate"})

_NIGHTLY: Final = ('$CI_PIPELINE_SOURCE == "schedule"', '$CI_PIPELINE_SOURCE == "web"')


def pipeline(fleet: Fleet, matrix: str, tier: str, catalog: Catalog) -> str:
    """The text of the pipeline file.

    Args:
        fleet: which places there are; at least one must be reached by a CI system.
        matrix: path of the matrix file in the repository.
        tier: of the matrix.
        catalog: of the fleet's targets.

    Raises:
        FleetError: no place of the fleet is reached by a CI system.
    """
    found = jobs(fleet, catalog)
    tree = load("gitlab.yml")
    fill(tree, _words(fleet, matrix, tier, found))
    if fleet.options:
        tree["variables"]["PYTEST_ADDOPTS"] = shlex.join(fleet.options)
    if fleet.ci.history:
        del tree["merge"]["cache"]
    for job in found:
        tree.insert(list(tree).index("merge"), f"run {job.place}", _job(job))
    return text(tree, made_by("gitlab", fleet))


def _words(fleet: Fleet, matrix: str, tier: str, found: list[Job]) -> dict[str, Any]:
    given = fleet.ci
    return common_words(fleet, matrix, tier) | {
        "IMAGE": f"python:{given.python}",
        "CELL_SECONDS": str(fleet.seconds.cell),
        "HOST_MINUTES": f"{given.minutes} minutes",
        "INSTALL": CommentedSeq(given.install),
        "TOOLS": CommentedSeq(given.tools),
        "EXPECT": expectation(found),
    }


def _job(job: Job) -> CommentedMap:
    """A place's job; the options of its container are the runner's own configuration."""
    made = CommentedMap(stage="run", tags=CommentedSeq(job.labels))
    if job.image:
        made["image"] = job.image
    made["timeout"] = f"{job.minutes} minutes"
    made["rules"] = CommentedSeq(CommentedMap({"if": condition}) for condition in _NIGHTLY)
    made["variables"] = CommentedMap(TARGET=job.target, COUNT=str(job.count), LIMIT=f"{job.seconds}s")
    made["script"] = CommentedSeq([*job.setup.splitlines(), *_script(job)])
    made["artifacts"] = CommentedMap(when="always", expire_in="90 days", paths=CommentedSeq(["night/"]))
    return made


def _script(job: Job) -> list[str]:
    """What the job runs; its last line fails where the run has left no report."""
    return [
        f'{job.command} -m portkit.fleet.preflight --matrix "$MATRIX" --target "$TARGET" --count "$COUNT"',
        FoldedScalarString(
            f'timeout --kill-after=60s "$LIMIT" {job.command} -m pytest --benchmark --portkit-matrix "$MATRIX" '
            '--portkit-tier "$TIER" --portkit-target "$TARGET" --portkit-cell-seconds "$CELL_SECONDS" '
            '--portkit-report "night/$CI_JOB_ID"'
        ),
        'ls "night/$CI_JOB_ID"/*.jsonl',
    ]
