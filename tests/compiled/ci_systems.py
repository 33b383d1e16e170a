"""What GitHub and GitLab do with a workflow, as far as ``portkit ci`` writes it: jobs and steps in order, their shell,
expressions, artifacts and the cache. Not tried: the service itself, runners, containers, and the actions' own code."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fake_github import TOKEN, FakeGithub, step_variables
from ruamel.yaml import YAML

import portkit

ROOT = Path(portkit.__file__).parent.parent
REPOSITORY = "/repos/octo/kernels"


@dataclass
class Ended:
    """A step or a job that ended."""

    code: int
    out: str = ""
    err: str = ""


def environment(tools: Path, variables: Mapping[str, Any]) -> dict[str, str]:
    """That of a step, with this interpreter and this portkit."""
    tools.mkdir(parents=True, exist_ok=True)
    for name, words in {"python": "", "python3": "", "portkit": "-m portkit"}.items():
        (tools / name).write_text(f'#!/bin/bash\nexec {sys.executable} {words} "$@"\n')
        (tools / name).chmod(0o755)
    path = {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return {**os.environ, **path, **{name: str(value) for name, value in variables.items()}}


def shell(script: str, folder: Path, variables: Mapping[str, str]) -> Ended:
    """A script as both systems run it."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


@dataclass
class Github:
    """Runs nights of one workflow, and keeps their artifacts."""

    folder: Path
    api: FakeGithub
    good: list[int] = field(default_factory=list)  # runs that succeeded as a whole
    nights: int = 0

    def night(self, project: Path) -> dict[str, Ended]:
        """``job: step`` → how it ended, of those that ran."""
        self.nights += 1
        workflow = YAML(typ="safe").load(project / ".github/workflows/nightly.yml")
        self._tell_of_runs()
        night = GithubNight(self, project, workflow)
        night.run()
        if all(result in ("success", "skipped") for result in night.results.values()):
            self.good.append(self.nights)
        return night.ended

    def artifacts(self, number: int) -> Path:
        return self.folder / "artifacts" / str(number)

    def _tell_of_runs(self) -> None:
        self.api.answers[REPOSITORY] = {"id": 7, "default_branch": "main"}
        runs = [self._run(number) for number in range(self.nights - 1, 0, -1)]
        path = f"{REPOSITORY}/actions/workflows/nightly.yml/runs"
        wanted = [run for run in runs if run["id"] in self.good]
        self.api.answers[path] = lambda query: {"workflow_runs": wanted if query.get("status") == "success" else runs}
        for number in range(1, self.nights):
            names = [{"name": each.name, "expired": False} for each in self.artifacts(number).iterdir()]
            self.api.answers[f"{REPOSITORY}/actions/runs/{number}/artifacts"] = {"artifacts": names}
        self.api.answers[f"{REPOSITORY}/actions/runs/{self.nights}/attempts/1/jobs"] = {"jobs": []}

    @staticmethod
    def _run(number: int) -> dict[str, Any]:
        return {"id": number, "event": "schedule", "head_branch": "main", "head_repository": {"id": 7}}


@dataclass
class GithubNight:
    """One run of a workflow."""

    github: Github
    project: Path
    workflow: Mapping[str, Any]
    results: dict[str, str] = field(default_factory=dict)  # job → success, failure or skipped
    ended: dict[str, Ended] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known: dict[str, str] = {
            "github.token": TOKEN,
            "github.run_id": str(self.github.nights),
            "github.run_attempt": "1",
            "github.event_name": "schedule",
            "github.ref_name": "main",
            "github.event.repository.default_branch": "main",
            "inputs.accept": "",
        }

    def run(self) -> None:
        for name, job in self.workflow["jobs"].items():
            needs = job.get("needs", [])
            well = all(self.results[need] == "success" for need in ([needs] if isinstance(needs, str) else needs))
            if not self._holds(job.get("if"), well):
                self.results[name] = "skipped"
                continue
            entries = list(self._entries(job))
            outcomes = [self._job(entry.get("place", name), job, entry) for entry in entries]
            self.results[name] = "success" if all(outcomes) else "failure"
            self.known[f"needs.{name}.result"] = self.results[name]
            for output, value in job.get("outputs", {}).items():
                self.known[f"needs.{name}.outputs.{output}"] = self._text(value)

    def _entries(self, job: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        matrix = job.get("strategy", {}).get("matrix", {}).get("include")
        yield from json.loads(self.known[re.sub(r".*fromJSON\((.*)\).*", r"\1", matrix)]) if matrix else [{}]

    def _job(self, name: str, job: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
        """Whether every step of a job went well, in a checkout of its own."""
        self.known = {key: to for key, to in self.known.items() if not key.startswith(("matrix.", "steps."))}
        self.known |= {f"matrix.{key}": str(value) for key, value in entry.items()}
        place = self.github.folder / f"{self.github.nights}-{name}"
        shutil.copytree(self.project, place)
        well = True
        for step in job["steps"]:
            if self._holds(step.get("if"), well):
                done = self._step(step, place)
                self.ended[f"{name}: {step.get('name', step.get('uses', '').partition('@')[0])}"] = done
                well = well and done.code == 0
        return well

    def _step(self, step: Mapping[str, Any], place: Path) -> Ended:
        if "run" in step:
            return self._shell(step, place)
        given = {name: self._text(value) for name, value in step.get("with", {}).items()}
        match step["uses"].partition("@")[0]:
            case "actions/upload-artifact":
                return self._upload(given, place)
            case "actions/download-artifact":
                return self._download(given, place)
        return Ended(0)  # checkout and setup-python

    def _shell(self, step: Mapping[str, Any], place: Path) -> Ended:
        output = place / "step-output"
        variables = {
            **step_variables(self.github.api.address),
            "GITHUB_RUN_ID": str(self.github.nights),
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_OUTPUT": output,
            "GITHUB_STEP_SUMMARY": self.github.folder / f"summary-{self.github.nights}.md",
            **{name: self._text(value) for name, value in {**self.workflow["env"], **step.get("env", {})}.items()},
        }
        done = shell(step["run"], place, environment(self.github.folder / "tools", variables))
        for line in output.read_text().splitlines() if output.exists() else ():
            name, _, value = line.partition("=")
            self.known[f"steps.{step['id']}.outputs.{name}"] = value
        output.unlink(missing_ok=True)
        return done

    def _upload(self, given: Mapping[str, str], place: Path) -> Ended:
        found = [place / path for path in given["path"].split("\n") if path and (place / path).exists()]
        if not found:
            return Ended(1 if given.get("if-no-files-found") == "error" else 0, err="no files were found")
        into = self.github.artifacts(self.github.nights) / given["name"]
        for path in found:
            _copy(path, into if path.is_dir() else into / path.name)
        return Ended(0)

    def _download(self, given: Mapping[str, str], place: Path) -> Ended:
        store = self.github.artifacts(int(given.get("run-id", self.github.nights)))
        found = [
            each for each in store.iterdir() if fnmatch.fnmatch(each.name, given.get("pattern", given.get("name", "")))
        ]
        for each in found:
            _copy(each, place / given["path"] / (each.name if "pattern" in given else ""))
        return Ended(0 if found or "pattern" in given else 1)

    def _text(self, value: object) -> str:
        """A value with its expressions worked out."""
        return re.sub(r"\$\{\{ (.+?) \}\}", lambda found: self.known.get(found[1], ""), str(value))

    def _holds(self, condition: str | None, well: bool) -> bool:
        """Whether a job or a step runs: without a word on failures, where all went well before it."""
        text = re.sub(r"\$\{\{|\}\}", "", condition or "True")
        anyway = "always()" in text or "cancelled()" in text
        text = text.replace("!cancelled()", "True").replace("always()", "True").replace("&&", "and").replace("||", "or")
        text = re.sub(r"\b[a-z_]+(\.[A-Za-z_]+)+", lambda found: repr(self.known.get(found[0], "")), text)
        return (well or anyway) and bool(eval(text, {"__builtins__": {}}))


@dataclass
class Gitlab:
    """Runs nights of one pipeline."""

    folder: Path
    api: FakeGithub
    nights: int = 0

    def night(self, project: Path) -> dict[str, Ended]:
        """Job → how its script ended; with ``after`` its after_script."""
        self.nights += 1
        pipeline = YAML(typ="safe").load(project / ".gitlab-ci.yml")
        jobs = {name: job for name, job in pipeline.items() if isinstance(job, dict) and "script" in job}
        ended: dict[str, Ended] = {}
        for stage in pipeline["stages"]:
            for name, job in jobs.items():
                if job["stage"] == stage:
                    ended |= self._job(name, job, pipeline["variables"], project)
        if all(done.code == 0 for done in ended.values()):
            self._serve_night()
        return ended

    def _job(self, name: str, job: Mapping[str, Any], variables: Mapping[str, Any], project: Path) -> dict[str, Ended]:
        place = self.folder / f"{self.nights}-{name.replace(' ', '-')}"
        shutil.copytree(project, place)
        artifacts, cache = self.folder / f"artifacts-{self.nights}", self.folder / "cache"
        for stored in (artifacts, *([cache] if "cache" in job else [])):
            if stored.exists():
                _copy(stored, place)
        given = environment(self.folder / "tools", {**variables, **job.get("variables", {}), **self._variables(name)})
        ended = {name: shell(_script(job.get("before_script", ()), job["script"]), place, given)}
        if "after_script" in job:
            ended[f"{name}, after"] = shell(_script(job["after_script"]), place, given)
        _keep(job["artifacts"].get("paths", []), place, artifacts)
        _keep(job.get("cache", {}).get("paths", []), place, cache)
        return ended

    def _variables(self, name: str) -> dict[str, str]:
        return {
            "CI_JOB_ID": f"{self.nights}{sum(map(ord, name))}",
            "CI_COMMIT_BRANCH": "main",
            "CI_DEFAULT_BRANCH": "main",
            "CI_PROJECT_ID": "7",
            "CI_API_V4_URL": self.api.address,
            "CI_JOB_TOKEN": TOKEN,
        }

    def _serve_night(self) -> None:
        """What this night's jobs keep is what later ones find as the last good one."""
        kept = self.folder / f"artifacts-{self.nights}"
        archive = shutil.make_archive(str(self.folder / f"night-{self.nights}"), "zip", kept)
        self.api.answers["/projects/7/jobs/artifacts/main/download"] = Path(archive).read_bytes()


def _script(*parts: Sequence[str]) -> str:
    return "\n".join(line for part in parts for line in part)


def _keep(paths: Sequence[str], place: Path, into: Path) -> None:
    for path in paths:
        if (place / path).exists():
            _copy(place / path, into / path)


def _copy(path: Path, into: Path) -> None:
    into.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, into, dirs_exist_ok=True)
    else:
        shutil.copy2(path, into)
