"""Which earlier run of a workflow may be compared with: one of this repository's own default branch.

An artifact of a fork is whatever its owner wanted: runs of pull requests are in the same list, and a
fork's branch may be named as the default branch is. Runs and artifacts:
https://docs.github.com/rest/actions/workflow-runs, https://docs.github.com/rest/actions/artifacts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from portkit.ci.api import Api, part
from portkit.errors import CiError

_OWN_EVENTS: Final = frozenset({"schedule", "workflow_dispatch", "push"})
"""Events that only who may write to the repository brings about."""

_MOST_RUNS: Final = 50
"""Runs that are looked at: of more nights than these the artifacts are gone."""


def workflow_file(reference: str) -> str:
    """The file's name in a ``GITHUB_WORKFLOW_REF``.

    >>> workflow_file("octo/repo/.github/workflows/nightly.yml@refs/heads/main")
    'nightly.yml'

    Raises:
        CiError: it is of another form.
    """
    found = re.search(r"/\.github/workflows/([^/@]+)@", reference)
    if not found:
        raise CiError(f"{reference[:80]!r} names no workflow file", place="GITHUB_WORKFLOW_REF", remedy="see its value")
    return found[1]


def last_night(api: Api, workflow: str, artifact: str, current: str, *, good: bool) -> str | None:
    """The newest earlier run of a workflow that has an artifact and may be trusted.

    Args:
        api: of the repository.
        workflow: file name of the workflow.
        artifact: that the run must still have.
        current: id of the run that asks.
        good: whether it must have succeeded.

    Returns:
        The id of the run; None where there is none.

    Raises:
        CiError: the API gave no answer.
    """
    about = api.get(api.of_repository)
    runs = _runs(api, workflow, about["default_branch"], "success" if good else "completed")
    return next(
        (
            str(run["id"])
            for run in runs
            if str(run["id"]) != current and _is_own(run, about) and _has(api, run["id"], artifact)
        ),
        None,
    )


def _runs(api: Api, workflow: str, branch: str, status: str) -> Iterator[Mapping[str, Any]]:
    path = f"{api.of_repository}/actions/workflows/{part(workflow)}/runs"
    answer = api.get(path, branch=branch, status=status, per_page=_MOST_RUNS)
    yield from answer["workflow_runs"]


def _is_own(run: Mapping[str, Any], repository: Mapping[str, Any]) -> bool:
    """Whether a run is of the default branch of the repository itself."""
    head = run.get("head_repository") or {}
    return (
        head.get("id") == repository["id"]
        and run["head_branch"] == repository["default_branch"]
        and run["event"] in _OWN_EVENTS
    )


def _has(api: Api, run: int, artifact: str) -> bool:
    answer = api.get(f"{api.of_repository}/actions/runs/{run}/artifacts", name=artifact)
    return any(each["name"] == artifact and not each["expired"] for each in answer["artifacts"])
