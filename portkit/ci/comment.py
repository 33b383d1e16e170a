"""The comment on a pull request, from a run that was made with no right to write one.

Pull requests, comments: https://docs.github.com/rest/pulls/pulls, https://docs.github.com/rest/issues/comments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from portkit.ci.api import Api
from portkit.errors import CiError
from portkit.render.github import MARKER

_BOT: Final = "github-actions[bot]"


def pull_request_of(api: Api, run: Mapping[str, Any]) -> int | None:
    """The open pull request whose newest commit a run was of, by what GitHub says and nothing that the run left.

    The run's own list of pull requests is empty for those of forks, so they are found by owner and branch of
    the head; the commit must be the same.

    Args:
        api: of the repository that the pull request is for.
        run: ``workflow_run`` of the event.

    Returns:
        Its number; None where it has been closed or has a newer commit.

    Raises:
        CiError: the event is of another form, or the API gave no answer.
    """
    try:
        head, branch, commit = run["head_repository"], run["head_branch"], run["head_sha"]
        wanted = (commit, head["id"])
        owner = head["owner"]["login"]
    except (KeyError, TypeError):
        raise CiError(
            "the event is of no run of a pull request", place="GITHUB_EVENT_PATH", remedy="call it on workflow_run"
        ) from None
    found = api.every(f"{api.of_repository}/pulls", state="open", head=f"{owner}:{branch}")
    heads = ((pull["number"], (pull["head"]["sha"], (pull["head"]["repo"] or {}).get("id"))) for pull in found)
    return next((int(number) for number, head_of in heads if head_of == wanted), None)


def put(api: Api, number: int, text: str) -> str:
    """Write the comment, or renew the one that is there.

    Args:
        api: of the repository.
        number: of the pull request.
        text: with :data:`~portkit.render.github.MARKER` as its first line.

    Returns:
        The address of the comment.

    Raises:
        CiError: the API did not take it.
    """
    path = f"{api.of_repository}/issues/{number}/comments"
    earlier = next((each["id"] for each in api.every(path) if _is_ours(each)), None)
    if earlier is None:
        return str(api.send("POST", path, {"body": text})["html_url"])
    renewed = api.send("PATCH", f"{api.of_repository}/issues/comments/{int(earlier)}", {"body": text})
    return str(renewed["html_url"])


def _is_ours(comment: Mapping[str, Any]) -> bool:
    """Whether the workflow wrote it: anyone may write the marker into a comment of their own."""
    author = comment.get("user") or {}
    return author.get("login") == _BOT and str(comment.get("body") or "").startswith(MARKER)
