"""GitHub's REST API, as far as the steps of a workflow need it.

Sources: https://docs.github.com/rest (version 2022-11-28), pages named at each caller.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from portkit.ci.environment import variable
from portkit.errors import CiError

_SECONDS: Final = 60
_A_PAGE: Final = 100
_MOST_PAGES: Final = 20


class RefusedError(CiError):
    """The API answered that the token may not, or that there is no such thing."""


@dataclass(frozen=True)
class Api:
    """Requests about one repository.

    Paths begin at the API's address and are made of constants and of parts that :func:`part` has quoted.
    """

    repository: str  # owner/name
    token: str
    address: str = "https://api.github.com"

    @property
    def of_repository(self) -> str:
        """What paths about the repository begin with."""
        return f"/repos/{self.repository}"

    @property
    def owner(self) -> str:
        """The user or organisation that the repository belongs to."""
        return self.repository.partition("/")[0]

    def get(self, path: str, **query: object) -> Any:
        """The answer to a question.

        Raises:
            RefusedError: the API says 401, 403 or 404.
            CiError: it says anything else but yes, or nothing.
        """
        return self._ask("GET", path, query)

    def every(self, path: str, key: str | None = None, **query: object) -> Iterator[Any]:
        """The entries of a list that comes in pages, at most 2,000 of them.

        Args:
            path: of the list.
            key: where the entries stand in the answer; None where the answer is the list.
            query: of the request.
        """
        for page in range(1, _MOST_PAGES + 1):
            answer = self.get(path, **query, per_page=_A_PAGE, page=page)
            entries = answer[key] if key else answer
            yield from entries
            if len(entries) < _A_PAGE:
                return

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """Make or change something.

        Raises:
            RefusedError: the token may not.
            CiError: it did not work otherwise.
        """
        return self._ask(method, path, {}, body)

    def _ask(self, method: str, path: str, query: Mapping[str, object], body: Mapping[str, Any] | None = None) -> Any:
        url = f"{self.address}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self.token}",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "portkit",
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            kind = RefusedError if error.code in (401, 403, 404) else CiError
            remedy = "see that the job has the permission that this request needs"
            raise kind(f"answered {error.code} {error.reason}", place=f"{method} {path}", remedy=remedy) from None
        except (OSError, ValueError) as error:
            raise CiError(f"gave no answer: {error}", place=f"{method} {path}", remedy="run the job again") from None


def part(text: object) -> str:
    """A text as one part of a path, whatever characters it has."""
    return urllib.parse.quote(str(text), safe="")


def from_environment(token: str = "GITHUB_TOKEN") -> Api:
    """The API that a step's variables name.

    Raises:
        CiError: the step has no token, or does not run on GitHub.
    """
    address = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
    return Api(variable("GITHUB_REPOSITORY"), variable(token), address)
