"""What the words of ``portkit check`` ask for: a command line's, a comment's, and what git calls changed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from portkit.document import display_name
from portkit.errors import CaseError, HostError
from portkit.model import CaseSource, Check
from portkit.plan.check import Place, declared, read_grid, read_pairs, read_place, refuse_large, source_of
from portkit.plan.scan import scan
from portkit.plan.signature import refuse_mistaken
from portkit.render.check import needs_plain
from portkit.run.source_hash import own_files

PAIR = "NAME=VALUE"

_CALL_OPTIONS = (
    click.option("--arg", "arguments", multiple=True, metavar=PAIR, help="As x=bf16[4096,4096], eps=1e-6, flag=True."),
    click.option("--init", "init", multiple=True, metavar=PAIR, help="An argument that a class is made with."),
    click.option("--grid", default="", metavar="BLOCKS", help="Of a kernel that is launched itself: 1024 or 64,8."),
    click.option("--backward", is_flag=True, help="Take gradients, and check the kernels of the backward pass."),
)
"""What says how a function is called; a comment in a file may say the same."""


def call_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the options that say how a function is called."""
    for option in reversed(_CALL_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True)
class Call:
    """How a function is called, in the words of the options."""

    arguments: tuple[str, ...] = ()
    init: tuple[str, ...] = ()
    grid: str = ""
    backward: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing was said."""
        return self == Call()

    def check(self, function: str) -> Check:
        """The check of a function that is called so."""
        return Check(
            function=function,
            arguments=read_pairs(self.arguments, "--arg"),
            init=read_pairs(self.init, "--init"),
            grid=read_grid(self.grid),
            backward=self.backward,
        )


@dataclass(frozen=True)
class Emulation:
    """How machine code is run, in the words of the options."""

    wanted: bool = False
    small: tuple[str, ...] = ()
    reference: str | None = None

    def of(self, source: CaseSource) -> CaseSource:
        """The check with what its emulated call is, looked at before anything runs."""
        if not self.wanted:
            if self.small or self.reference:
                raise click.UsageError("--small and --reference are for --emulate")
            return source
        check = source.check
        assert check is not None
        if check.script:
            raise click.UsageError("a script is built and not emulated: name a function")
        if check.backward and not self.reference:
            raise click.UsageError("gradients need a --reference: Triton's interpreter gives none to compare with")
        reference = _reference(self.reference) if self.reference else None
        check = replace(check, small=read_pairs(self.small, "--small"), reference=reference)
        refuse_large(check)
        return replace(source, check=check)


def sources_of(
    places: Sequence[str], call: Call, emulation: Emulation, *, script: bool, changed: bool
) -> list[CaseSource]:
    """What is checked; empty where no changed file declares a check.

    Args:
        places: as the user named them; of a script, with its own arguments.
        call: how a function is called.
        emulation: whether and how its machine code is run.
        script: whether the first place is a script.
        changed: whether only what changed is checked.

    Raises:
        PortkitError: nothing is there, or the words ask for what can't be.
        click.UsageError: options that do not go together.
    """
    if script and changed:
        raise click.UsageError("--script and --changed do not go together: a script is run as it is")
    if script:
        found = [_script(places, call)]
    elif changed:
        found = list(_changed([read_place(each) for each in places], call))
    else:
        found = list(_named(places, call))
    return [emulation.of(source) for source in found]


def _named(places: Sequence[str], call: Call) -> Iterator[CaseSource]:
    if not places:
        raise click.UsageError("nothing to check was named; see portkit check --help")
    for text in places:
        place = read_place(text)
        if place.function:
            yield _looked_at(place, call.check(place.function))
        else:
            yield from _declared_or_refused(place, text, call)


def _declared_or_refused(place: Place, text: str, call: Call) -> Iterator[CaseSource]:
    """The checks that a file declares; with none, what it needs is said and the command ends."""
    if not call.empty:
        raise click.UsageError(f"arguments were given, and no function: name it as {text.rstrip(':')}:FUNCTION")
    if place.path is None:
        raise CaseError(
            "has no source file to look into", place=text, remedy=f"name a function, as {text.rstrip(':')}:FUNCTION"
        )
    found = list(_declared(place))
    if not found:
        click.echo(needs_plain(text, scan(place.path)), err=True)
        raise click.exceptions.Exit(2)
    yield from found


def _declared(place: Place) -> Iterator[CaseSource]:
    assert place.path is not None
    for where, words in declared(place.path):
        function, call = _words(words, where)
        yield _looked_at(place, call.check(function))


def _looked_at(place: Place, check: Check) -> CaseSource:
    """Where a check's function is, refused where the file alone shows that the call can't be made."""
    if place.path is not None:
        refuse_mistaken(place.path, check, display_name(place.path))
    return source_of(place, check)


def declaration(words: list[str], where: str) -> CaseSource:
    """What the words of a call ask for, the function with its file or module.

    Raises:
        CaseError: they ask for nothing, or for what is not there.
    """
    named, call = _words(words, where)
    place = read_place(named)
    if not place.function:
        raise CaseError(f"{named} names no function", place=where, remedy=f"write {named}:FUNCTION")
    return source_of(place, call.check(place.function))


@click.command("check", add_help_option=False)
@click.argument("function")
@call_options
def _declaration(**given: object) -> None:
    """What a comment in a file may say."""


def _words(words: list[str], where: str) -> tuple[str, Call]:
    try:
        read = _declaration.make_context("check", list(words)).params
    except click.ClickException as error:
        raise CaseError(
            f"the comment is no check: {error.format_message()}",
            place=where,
            remedy="write it as `# portkit: check FUNCTION --arg NAME=VALUE …`",
        ) from None
    return read["function"], Call(read["arguments"], read["init"], read["grid"], read["backward"])


def _script(places: Sequence[str], call: Call) -> CaseSource:
    if not places:
        raise click.UsageError("--script needs the path of a script")
    if not call.empty:
        raise click.UsageError("a script is run as it is: give its own arguments after --")
    place = read_place(places[0])
    if place.path is None or place.function:
        raise CaseError("is no script", place=places[0], remedy="name a Python file")
    return CaseSource(place.path.name, path=str(place.path), check=Check("", script=(str(place.path), *places[1:])))


def _reference(text: str) -> CaseSource:
    place = read_place(text)
    if not place.function:
        raise CaseError(f"{text} names no function", place="--reference", remedy=f"write {text}:FUNCTION")
    return source_of(place, Check(place.function))


# --------------------------------------------------------------------------
# Changed files


def _changed(places: Sequence[Place], call: Call) -> Iterator[CaseSource]:
    """Declared checks of which a file has changed: their own, or one of their folder that it imports."""
    if not call.empty:
        raise click.UsageError("--changed takes its arguments from comments in the files")
    root = Path(_git("rev-parse", "--show-toplevel")[0])
    changed = _git("diff", "--name-only", "-z", "HEAD", folder=root)
    new = _git("ls-files", "--others", "--exclude-standard", "-z", folder=root)
    touched = {root / name for name in (*changed, *new)}
    wanted = {place.path for place in places}
    for path in (root / name for name in _git("grep", "--untracked", "-zlE", _GREP, "--", "*.py", folder=root)):
        if wanted and path not in wanted:
            continue
        place = Place(path, None, None)
        found = list(_declared(place))
        if found and touched & {path, *(file for source in found for file in own_files(source))}:
            yield from found


_GREP = r"^[[:space:]]*#[[:space:]]*portkit:[[:space:]]*check[[:space:]]"


def _git(command: str, *arguments: str, folder: Path | None = None) -> list[str]:
    """What git answers, by lines, or by zeros where it is asked for them: it quotes odd paths otherwise.

    Raises:
        HostError: there is no git, or no repository here.
    """
    try:
        done = subprocess.run(["git", command, *arguments], cwd=folder, capture_output=True, check=False)
    except OSError as error:
        raise HostError(f"git does not run: {error.strerror}", remedy="install git, or name the files") from None
    nothing_found = command == "grep" and done.returncode == 1
    if done.returncode and not nothing_found:
        raise HostError(
            f"git {command} failed: {os.fsdecode(done.stderr).strip()}",
            remedy="call --changed in a git repository with a commit",
        )
    end = "\0" if b"\0" in done.stdout else "\n"
    return [each for each in os.fsdecode(done.stdout).split(end) if each]
