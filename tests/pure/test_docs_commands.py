"""Every command line of portkit in the documents is one: its name, its options and its values parse."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import portkit
from portkit.cli import cli

ROOT = Path(portkit.__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(?:[A-Z_]+=\S+ )?portkit (?P<words>[a-z][^`\n]*)`")
SYNOPSIS = re.compile(r"[\[\]…]|\b[A-Z]{2,}\b|\.\.\.")
"""What stands for a value, or for more: of such a line, and of a mention, the names of its options are held."""

OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


def in_blocks(text: str) -> Iterator[str]:
    """Lines of fenced and of indented blocks that begin with the command, or run it in a workflow.

    What a command prints begins with its name and a colon: ``portkit check: …``.
    """
    indented = [line for line in FENCED.sub("", text).split("\n") if line.startswith("    ")]
    fenced = [line for block in FENCED.findall(text) for line in block.replace("\\\n", " ").split("\n")]
    for line in [*indented, *fenced]:
        begun = re.sub(r"^(?:\$ |- run: |run: )", "", line.strip())
        if found := re.match(r"(?:[A-Z_]+=\S+ )*portkit (?=[a-z][\w-]*(?:\s|$))(.*)", begun):
            yield found[1]


def inline(text: str) -> Iterator[str]:
    """Commands in running text."""
    yield from (found["words"] for found in INLINE.finditer(FENCED.sub("", text)))


def split(words: str) -> list[str]:
    """A command's words, without a comment and without where its output goes."""
    lexer = shlex.shlex(words, posix=True, punctuation_chars="<>|&;")
    lexer.whitespace_split, lexer.commenters = True, "#"
    return list(itertools.takewhile(lambda word: not set(word) <= set("<>|&;"), lexer))


def lines() -> list[tuple[str, str, bool]]:
    """Each command once: its document, its words, and whether it is whole or a mention."""
    found: dict[str, tuple[str, bool]] = {}
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for whole, words in (*((True, each) for each in in_blocks(text)), *((False, each) for each in inline(text))):
            found.setdefault(words, (path.relative_to(ROOT).as_posix(), whole and not SYNOPSIS.search(words)))
    return [(where, words, whole) for words, (where, whole) in found.items()]


LINES = lines()


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the first words name, and the words behind them."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"no command {words[0]}"
        command, words = found, words[1:]
    return command, words


def test_there_are_many():
    assert len(LINES) > 80
    assert sum(whole for *_, whole in LINES) > 30
    assert len({words.split()[0] for _, words, _ in LINES}) > 15


@pytest.mark.parametrize(("where", "words", "whole"), LINES, ids=[f"{where}: {words}" for where, words, _ in LINES])
def test_it_is_a_command_with_these_options(where, words, whole):
    command, rest = command_of(split(words) if whole else words.split())
    if whole and not isinstance(command, click.Group):
        command.make_context(command.name, rest)  # parses, and runs nothing
        return
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
    assert [name for name in OPTION.findall(re.sub(r"'[^']*'", "", words)) if name not in known] == []
