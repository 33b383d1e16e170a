"""Workflow files as YAML with words to fill in.

A template is YAML itself, so that it can be read and checked as what it becomes. Filling works
on the parsed tree: a value of the fleet file ends as one scalar, whatever characters it has.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import LiteralScalarString

DATA: Final = Path(__file__).parent / "data"


@cache
def actions() -> Mapping[str, Mapping[str, Any]]:
    """Each action's short name → its repository, version, commit and date."""
    return read_data("actions.yaml")


def read_data(name: str) -> Mapping[str, Mapping[str, Any]]:
    """A table of :data:`DATA` as plain values."""
    read: Mapping[str, Mapping[str, Any]] = YAML(typ="safe").load(DATA / name)
    return read


def filled(name: str, words: Mapping[str, Any], kept: Set[str] = frozenset()) -> CommentedMap:
    """A template of :data:`DATA` with its words filled in.

    Args:
        name: of the file.
        words: word → value, for scalars that are this word and nothing else.
        kept: marks of steps that are kept; a step with ``only: MARK`` of another mark is left out.
    """
    tree = load(name)
    for job in tree["jobs"].values():
        job["steps"] = _steps(job["steps"], kept)
    fill(tree, words)
    return tree


def load(name: str) -> CommentedMap:
    """A template as it is."""
    tree: CommentedMap = _yaml().load(DATA / name)
    return tree


def fill(node: Any, words: Mapping[str, Any]) -> None:
    """Put values in the place of the scalars that are a word, in a tree and all below it."""
    places: Sequence[Any] = list(node) if isinstance(node, CommentedMap) else range(len(node))
    for place in places:
        value = node[place]
        if isinstance(value, CommentedMap | CommentedSeq):
            fill(value, words)
        elif isinstance(value, str) and value in words:
            node[place] = copy.copy(words[value])  # two places with one list would become an alias


def text(tree: Mapping[str, Any], head: Sequence[str]) -> str:
    """The YAML of a tree, below lines of comment."""
    written = io.StringIO()
    _yaml().dump(tree, written)
    return "".join(f"# {line}\n" for line in head) + written.getvalue()


def lines_of(commands: Sequence[str]) -> str:
    """Lines of shell as one scalar, in YAML's literal style where they are several."""
    return commands[0] if len(commands) == 1 else LiteralScalarString("".join(f"{line}\n" for line in commands))


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 4096  # no line is folded that the template does not fold
    yaml.preserve_quotes = True
    return yaml


def _steps(given: CommentedSeq, kept: Set[str]) -> CommentedSeq:
    """The steps with those that ``setup`` stands for, each action pinned."""
    steps = CommentedSeq(each for step in given for each in _expanded(step) if each.pop("only", None) in {None, *kept})
    for step in steps:
        _pin(step)
    return steps


def _expanded(step: CommentedMap) -> Iterator[CommentedMap]:
    if "setup" not in step:
        yield step
        return
    yield from copy.deepcopy(_beginnings()[step["setup"]])


@cache
def _beginnings() -> CommentedMap:
    """Name → the steps that ``setup`` stands for; they are to be copied."""
    return load("github-steps.yml")


def _pin(step: CommentedMap) -> None:
    if "uses" in step:
        action = actions()[step["uses"]]
        step["uses"] = f"{action['uses']}@{action['commit']}"
        step.yaml_add_eol_comment(action["version"], "uses")
