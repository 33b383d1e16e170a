"""What a step of a CI system is told by variables, and how it answers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from portkit.errors import CiError
from portkit.render.github import Annotation, annotation_commands


def variable(name: str) -> str:
    """A variable that the CI system sets for every step.

    Raises:
        CiError: it is not set.
    """
    found = os.environ.get(name, "")
    if not found:
        raise CiError("is not set", place=name, remedy="run this in a step of the workflow that `portkit ci` writes")
    return found


def event() -> Mapping[str, Any]:
    """What started the workflow, as GitHub tells it.

    Raises:
        CiError: there is no such file, or it is no JSON.
    """
    path = Path(variable("GITHUB_EVENT_PATH"))
    try:
        told: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CiError(f"can't be read: {error}", place=str(path), remedy="run this in a step of a workflow") from None
    return told


def give(outputs: Mapping[str, str]) -> None:
    """Set outputs of the step, one line each; without a CI system they are printed."""
    lines = "".join(f"{name}={_one_line(value)}\n" for name, value in outputs.items())
    if file := os.environ.get("GITHUB_OUTPUT"):
        with Path(file).open("a", encoding="utf-8") as opened:
            opened.write(lines)
    else:
        click.echo(lines, nl=False)


def _one_line(value: str) -> str:
    if "\n" in value or "\r" in value:
        raise ValueError("an output of two lines would be two outputs")
    return value


def tell(level: str, title: str, message: str) -> None:
    """Print an annotation of the run: error, warning or notice."""
    click.echo(annotation_commands([Annotation(level, title, message, None)]))


def summarise(markdown: str) -> None:
    """Add to the summary of the run, where there is one."""
    if file := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(file).open("a", encoding="utf-8") as opened:
            opened.write(f"{markdown}\n")
