"""GitHub's workflows: nightly, pull request, and the comment on a pull request."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from portkit.ci.jobs import jobs
from portkit.ci.templates import filled, lines_of, text
from portkit.ci.words import common_words, made_by
from portkit.fleet.site import Fleet
from portkit.targets.catalog import Catalog

FOLDER: Final = PurePosixPath(".github/workflows")

TEMPLATES: Final[Mapping[str, str]] = {
    "nightly.yml": "github-nightly.yml",
    "pull-request.yml": "github-pull-request.yml",
    "comment.yml": "github-comment.yml",
}
"""Name of each workflow's file → its template."""

_ARTIFACT: Final = "history-artifact"
"""Mark of the steps that carry the history from night to night, where no object store has it."""

_APP: Final = "app"
"""Mark of the step that asks for the app's token, where there is an app."""


def workflows(fleet: Fleet, matrix: str, tier: str, catalog: Catalog) -> dict[str, str]:
    """The text of each workflow file.

    Args:
        fleet: which places there are; at least one must be reached by a CI system.
        matrix: path of the matrix file in the repository.
        tier: of the matrix.
        catalog: of the fleet's targets.

    Raises:
        FleetError: no place of the fleet is reached by a CI system.
    """
    jobs(fleet, catalog)  # a fleet without any is refused here rather than at night
    words = _words(fleet, matrix, tier)
    kept = frozenset(mark for mark, is_kept in ((_ARTIFACT, not fleet.ci.history), (_APP, fleet.ci.app)) if is_kept)
    return {name: _workflow(template, words, kept, fleet) for name, template in TEMPLATES.items()}


def _workflow(template: str, words: Mapping[str, Any], kept: frozenset[str], fleet: Fleet) -> str:
    tree = filled(template, words, kept)
    if "env" in tree and fleet.options:
        tree["env"]["PYTEST_ADDOPTS"] = shlex.join(fleet.options)
    _give_secrets(tree, fleet)
    return text(tree, made_by("github", fleet))


def _words(fleet: Fleet, matrix: str, tier: str) -> dict[str, Any]:
    given = fleet.ci
    return common_words(fleet, matrix, tier) | {
        "SCHEDULE": given.schedule,
        "PYTHON": given.python,
        "TOOLS": lines_of(given.tools),
        "INSTALL": lines_of(given.install),
        "FLEET": fleet.path.as_posix(),
        "CELL_SECONDS": fleet.seconds.cell,
        "HOST_MINUTES": given.minutes,
        "WATCH_MINUTES": given.queue_minutes + 15,
        "APP": given.app,
        "RUNNERS_TOKEN": "${{ steps.app.outputs.token }}" if given.app else "",
    }


def _give_secrets(tree: Mapping[str, Any], fleet: Fleet) -> None:
    """Give the object store's secrets to the steps that name the history, and to no other."""
    steps = (step for job in tree["jobs"].values() for step in job["steps"])
    for step in steps:
        if "HISTORY" in step.get("env", {}):
            step["env"].update({name: f"${{{{ secrets.{name} }}}}" for name in fleet.ci.secrets})
