"""Which of GitHub's self-hosted runners are there, for jobs that would wait a day for one that is not.

Lists of runners: https://docs.github.com/rest/actions/self-hosted-runners; both need a right that a
workflow's own token can't have.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from portkit.ci.api import Api, RefusedError


class Presence(enum.StrEnum):
    """What is known of the runners of a job."""

    ONLINE = "online"
    OFFLINE = "offline"  # such runners are registered, and none of them is online
    UNKNOWN = "unknown"  # none is registered where the token may look: hosted, scaled on demand, or of a group


@dataclass(frozen=True)
class Runner:
    """A registered runner."""

    name: str
    online: bool
    labels: frozenset[str]  # lower case, as GitHub compares them


def registered(api: Api) -> list[Runner]:
    """Runners of the repository and, where the token may see them, of its organisation.

    Raises:
        RefusedError: the token may not see the repository's.
        CiError: the API gave no answer.
    """
    own = list(api.every(f"{api.of_repository}/actions/runners", "runners"))
    return [_runner(each) for each in (*own, *_of_organisation(api))]


def _of_organisation(api: Api) -> Iterator[Mapping[str, object]]:
    try:
        yield from api.every(f"/orgs/{api.owner}/actions/runners", "runners")
    except RefusedError:  # the owner is a person, or the app has no right to the organisation's
        return


def _runner(told: Mapping[str, object]) -> Runner:
    labels = told["labels"]
    assert isinstance(labels, Sequence)
    return Runner(str(told["name"]), told["status"] == "online", frozenset(each["name"].lower() for each in labels))


def presence(labels: Iterable[str], runners: Sequence[Runner]) -> Presence:
    """Whether a runner that has all of these labels is online."""
    wanted: Set[str] = {label.lower() for label in labels}
    fitting = [runner for runner in runners if wanted <= runner.labels]
    if not fitting:
        return Presence.UNKNOWN
    return Presence.ONLINE if any(runner.online for runner in fitting) else Presence.OFFLINE
