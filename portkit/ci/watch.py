"""A watchdog over a run's jobs: which of them wait for a runner that does not come.

Jobs of a run: https://docs.github.com/rest/actions/workflow-jobs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Final

from portkit.ci.api import Api

POLL_SECONDS: Final = 30

_WAITING: Final = frozenset({"queued", "waiting", "pending", "requested"})


def unstarted(api: Api, run: str, attempt: str, names: Collection[str]) -> list[str]:
    """Of the jobs with these names those that no runner has taken.

    Raises:
        CiError: the API gave no answer.
    """
    path = f"{api.of_repository}/actions/runs/{run}/attempts/{attempt}/jobs"
    return sorted(job["name"] for job in api.every(path, "jobs") if job["name"] in names and job["status"] in _WAITING)


def watch(look: Callable[[], list[str]], seconds: float, *, sleep: Callable[[float], None] | None = None) -> list[str]:
    """Wait until every job has started.

    Args:
        look: names of the jobs that have not.
        seconds: how long to wait.
        sleep: waits that many seconds; :func:`time.sleep` by default.

    Returns:
        The jobs that have not started by then; none where all have.
    """
    waited = 0.0
    while (left := look()) and waited < seconds:
        pause = min(POLL_SECONDS, seconds - waited)
        (sleep or time.sleep)(pause)
        waited += pause
    return left
