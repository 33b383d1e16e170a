"""Fleet files and what a command makes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML


@dataclass(frozen=True)
class Ended:
    """A command that ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Project:
    """A folder with a matrix."""

    folder: Path
    python: str
    variables: Mapping[str, str]

    def write(self, places: Sequence[Mapping[str, Any]], **keys: Any) -> None:
        """The fleet file; each place gets this interpreter."""
        common = {"python": self.python, "env": {k: v for k, v in self.variables.items() if v}}
        content = {"retries": 0, **keys, "places": [{**common, **place} for place in places]}
        with (self.folder / "fleet.yaml").open("w") as file:
            YAML(typ="safe").dump(content, file)

    def start(self, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """``portkit fleet …`` under way."""
        command = [sys.executable, "-m", "portkit", "fleet", *arguments]
        settings = {**(environment or os.environ), "COLUMNS": "200"}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.folder, env=settings, stdout=pipe, stderr=pipe, text=True)

    def fleet(self, *arguments: str, environment: Mapping[str, str] | None = None, seconds: float = 120) -> Ended:
        """``portkit fleet …`` to its end."""
        return ended(self.start(*arguments, environment=environment), seconds)

    @property
    def run(self) -> Path:
        """The newest run's folder."""
        return max((self.folder / "reports" / "fleet").iterdir())

    def attempts(self) -> list[dict[str, Any]]:
        """What was recorded of the newest run."""
        return [json.loads(line) for line in (self.run / "attempts.jsonl").read_text().splitlines()]


def ended(process: subprocess.Popen[str], seconds: float = 120) -> Ended:
    """Wait for a command."""
    out, err = process.communicate(timeout=seconds)
    return Ended(process.returncode, out, err)


def played_python(folder: Path) -> str:
    """An interpreter that plays a host: it takes the words of a job and runs nothing of them."""
    here = Path(__file__).parent
    path = folder / "played-python"
    roots = f"{here.parents[1]}:{here.parent / 'pure'}"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={roots} exec {sys.executable} {here / "played_host.py"} "$@"\n')
    path.chmod(0o755)
    return str(path)
