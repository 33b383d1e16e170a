"""The artifact of the last good night, from GitLab.

https://docs.gitlab.com/api/job_artifacts, "Download job artifacts by reference name": of the newest
successful pipelines of a branch of this project, with the job's own token. Pipelines of merge requests
have references of their own, and those of a fork are another project's.
"""

from __future__ import annotations

import shutil
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Final

from portkit.ci.api import part
from portkit.ci.environment import variable
from portkit.errors import CiError

_SECONDS: Final = 300


def fetch_night(job: str, output: Path) -> bool:
    """Download the artifacts of a job of the last good pipeline of the default branch.

    Args:
        job: name of the job.
        output: file for the archive.

    Returns:
        Whether there is one.

    Raises:
        CiError: GitLab gave no answer, or the job's token may not.
    """
    project, branch = variable("CI_PROJECT_ID"), variable("CI_DEFAULT_BRANCH")
    path = f"/projects/{part(project)}/jobs/artifacts/{part(branch)}/download"
    query = urllib.parse.urlencode({"job": job, "search_recent_successful_pipelines": "true"})
    url = f"{variable('CI_API_V4_URL')}{path}?{query}"
    request = urllib.request.Request(url, headers={"JOB-TOKEN": variable("CI_JOB_TOKEN")})
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer, output.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return False
        raise CiError(
            f"answered {error.code} {error.reason}", place=path, remedy="see the job token's rights"
        ) from None
    except OSError as error:
        raise CiError(f"gave no answer: {error}", place=path, remedy="run the job again") from None
    return True
