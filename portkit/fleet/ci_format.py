"""The section ``ci:`` of a fleet file: what workflows that ``portkit ci`` writes have in common."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from portkit.plan.matrix_format import Rules, Section, Text, fitting, mistake

MOST_MINUTES: Final = 6 * 60
"""Limit of a job on a runner that GitHub hosts (https://docs.github.com/actions/reference/limits)."""

Minutes = Annotated[int, Field(gt=0, le=MOST_MINUTES)]


def _cron(text: str) -> str:
    fields = text.split(" ") if re.fullmatch(r"[0-9A-Za-z*/,-]+( [0-9A-Za-z*/,-]+){4}", text) else []
    most = zip(fields, (59, 23, 31, 12, 7), strict=False)  # minute, hour, day, month, day of the week
    if not fields or any(int(number) > limit for field, limit in most for number in re.findall(r"[0-9]+", field)):
        raise mistake(f"{text[:40]!r} is no schedule", "write five fields of cron in UTC, such as '17 2 * * *'")
    return text


_python = fitting("version of Python", r"3\.[0-9]{2}", "write one in quotes, such as '3.12'")
_client = fitting("client id", r"[A-Za-z0-9._]+", "write the client id of the app, such as Iv23liAbCdEfGhIjKlMn")
_secret = fitting(
    "name of a secret",
    r"(?!(?i:GITHUB_))[A-Za-z_][A-Za-z0-9_]*",
    "use letters, digits and _, and not GITHUB_ in front",
)
_history = fitting(
    "path of an object store",
    r"(s3|gs|az|abfss)://[A-Za-z0-9@][A-Za-z0-9@._/-]*",
    "write one such as s3://bucket/portkit",
)


class WorkflowFormat(Section):
    """What is asked of a CI system beside the places."""

    schedule: Annotated[Text, AfterValidator(_cron)] = Field(default="17 2 * * *", description="cron, in UTC")
    python: Annotated[Text, AfterValidator(_python)] = Field(
        default="3.12", description="Python of hosted runners, which have no GPU"
    )
    tools: Rules[Text] = Field(
        default=["python -m pip install 'portkit[report]'"], description="lines of shell: portkit without torch"
    )
    install: Rules[Text] = Field(
        default=["python -m pip install 'portkit[run,report]'"], description="lines of shell: with torch and Triton"
    )
    minutes: Minutes = Field(default=90, description="limit of a job that has no GPU")
    queue_minutes: Minutes = Field(default=30, description="how long a job may wait for its runner")
    app: Annotated[Text, AfterValidator(_client)] | None = Field(
        default=None, description="GitHub: client id of an app that may read runners; its key is PORTKIT_APP_KEY"
    )
    history: Annotated[Text, AfterValidator(_history)] | None = Field(
        default=None, description="where nights are kept; without it, in an artifact that goes from night to night"
    )
    secrets: Rules[Annotated[Text, AfterValidator(_secret)]] = Field(
        default=[], description="secrets that the history's object store needs, which it finds as variables"
    )
