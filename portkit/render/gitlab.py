"""What GitLab shows of a comparison beside the lines of a merge request: a code quality report.

Format: https://docs.gitlab.com/ci/testing/code_quality, "Code Quality report format". The texts are
shown as plain text; what has no line in the repository has no place in such a report, and is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from portkit.model import digest
from portkit.render.github import Annotation
from portkit.store.schema import clean

_SEVERITIES: Final[Mapping[str, str]] = {"error": "critical", "warning": "major", "notice": "info"}


def code_quality(found: Sequence[Annotation]) -> str:
    """The report of remarks on lines, as JSON.

    Args:
        found: as :func:`portkit.render.github.annotate` makes them.
    """
    return json.dumps([_entry(each, each.place.file, each.place.line) for each in found if each.place], indent=1)


def _entry(found: Annotation, file: str, line: int) -> dict[str, object]:
    return {
        "description": clean(f"{found.title}: {found.message}"),
        "check_name": found.title.partition(" ")[0],
        "fingerprint": digest([file, found.title, found.message], 32),
        "severity": _SEVERITIES[found.level],
        "location": {"path": file, "lines": {"begin": line}},
    }
