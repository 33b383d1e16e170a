"""``portkit check``: any kernel on any target, without a matrix."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from portkit.analysis.rows import Comparison, comparison
from portkit.cli.names import count_or_all, names
from portkit.cli.outputs import terminal_width
from portkit.errors import CaseError, HostError
from portkit.model import CaseSource, Check, Status, Target
from portkit.plan.check import (
    TARGETS,
    Place,
    declared,
    read_grid,
    read_pairs,
    read_place,
    refuse_large,
    source_of,
)
from portkit.plan.scan import scan
from portkit.render.check import check_json, check_plain, needs_plain
from portkit.run.checking import Checked, run_checks
from portkit.run.kept_checks import own_folder
from portkit.run.progress import LiveLine, PlainLines
from portkit.run.source_hash import own_files
from portkit.store.merge import merge
from portkit.targets.catalog import load_catalog

ALL = "all"

SAID_SECONDS = 2.0
"""Between two lines on how it gets on, where there is no terminal."""

_PAIR = "NAME=VALUE"

_CALL_OPTIONS = (
    click.option("--arg", "arguments", multiple=True, metavar=_PAIR, help="As x=bf16[4096,4096], eps=1e-6, flag=True."),
    click.option("--init", "init", multiple=True, metavar=_PAIR, help="An argument that a class is made with."),
    click.option("--grid", default="", metavar="BLOCKS", help="Of a kernel that is launched itself: 1024 or 64,8."),
    click.option("--backward", is_flag=True, help="Take gradients, and check the kernels of the backward pass."),
)
"""What says how a function is called; a comment in a file may say the same."""


def _call_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_CALL_OPTIONS):
        function = option(function)
    return function


@click.command("check", short_help="Build any kernel for any target: what it needs there, and what differs.")
@click.argument("places", nargs=-1, metavar="[FILE|MODULE][:FUNCTION]...")
@_call_options
@click.option("--emulate", is_flag=True, help="Run the machine code on the CPU, too, and compare its results.")
@click.option("--small", multiple=True, metavar=_PAIR, help="An argument of the emulated call that is smaller.")
@click.option(
    "--reference",
    metavar="FILE|MODULE:FUNCTION",
    help="What emulated results are held against.  [default: Triton's interpreter]",
)
@click.option("--script", is_flag=True, help="Run the first argument as a script, the others are its own, after --.")
@click.option("--changed", is_flag=True, help="Check the functions of changed files that a comment in them declares.")
@click.option(
    "-t",
    "--targets",
    default="",
    metavar="NAMES",
    help=f"With commas, or {ALL}.  [default: {len(TARGETS)} in wide use]",
)
@click.option("--json", "as_json", is_flag=True, help="Rows and findings as data.")
@click.option(
    "--findings",
    "shown",
    metavar="N|all",
    callback=count_or_all,
    default="5",
    show_default=True,
    help="Most findings that are told, or all.",
)
@click.option("--report", type=click.Path(path_type=Path), help="Folder of the report.  [default: the user's cache]")
@click.option("--fresh", is_flag=True, help="Build again though nothing has changed.")
def command(  # noqa: PLR0913, PLR0917 (click hands each option over)
    places: tuple[str, ...],
    arguments: tuple[str, ...],
    init: tuple[str, ...],
    grid: str,
    backward: bool,
    emulate: bool,
    small: tuple[str, ...],
    reference: str | None,
    script: bool,
    changed: bool,
    targets: str,
    as_json: bool,
    shown: int | None,
    report: Path | None,
    fresh: bool,
) -> int:
    """Build any kernel for any target: what it needs there, and what differs.

    No GPU is needed, and no case file. FILE:FUNCTION or MODULE:FUNCTION is called with the
    arguments given, on tensors without memory, in a process that looks like a host of the target;
    every Triton kernel it launches is built. A FILE alone is searched for comments that say how
    its functions are called; without one, what it needs is told.

    Ends with 1 where a target does not build it, and with 2 where it can't be called.
    """
    chosen = _targets(targets)
    given = (arguments, init, grid, backward)
    if script:
        sources = [_script(places, given)]
    elif changed:
        sources = list(_changed([read_place(each) for each in places], given))
        if not sources:
            click.echo("no changed file declares a check", err=True)
            return 0
    else:
        sources = list(_sources(places, given))
    sources = [_emulated(source, emulate, small, reference) for source in sources]
    checked = _run(sources, chosen, report or own_folder(), emulate=emulate, fresh=fresh)
    if why := checked.unusable:
        raise CaseError(why)
    compared = comparison(merge([checked.report]))
    click.echo(check_json(compared, checked.report) if as_json else _as_text(compared, checked, shown))
    return 0 if all(_fine(record.outcome.status) for record in checked.records) else 1


def _fine(status: Status) -> bool:
    return status.good or status.skipped


def _as_text(compared: Comparison, checked: Checked, shown: int | None) -> str:
    end = f"report: {checked.report}"
    if checked.kept:
        end += "\n  of an earlier call: nothing that it depends on has changed (--fresh builds again)"
    return f"{check_plain(compared, shown, terminal_width())}\n\n{end}"


# --------------------------------------------------------------------------
# What is checked

_Given = tuple[tuple[str, ...], tuple[str, ...], str, bool]


def _check(function: str, given: _Given) -> Check:
    arguments, init, grid, backward = given
    return Check(
        function=function,
        arguments=read_pairs(arguments, "--arg"),
        init=read_pairs(init, "--init"),
        grid=read_grid(grid),
        backward=backward,
    )


def _sources(places: Sequence[str], given: _Given) -> Iterator[CaseSource]:
    if not places:
        raise click.UsageError("nothing to check was named; see portkit check --help")
    for text in places:
        place = read_place(text)
        if place.function:
            yield source_of(place, _check(place.function, given))
        else:
            yield from _declared_or_refused(place, text, given)


def _declared_or_refused(place: Place, text: str, given: _Given) -> Iterator[CaseSource]:
    """The checks that a file declares; with none, what it needs is said and the command ends."""
    if any(given):
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
        function, given = _words(words, where)
        yield source_of(place, _check(function, given))


def declaration(words: list[str], where: str) -> CaseSource:
    """What the words of a call ask for, the function with its file or module.

    Raises:
        CaseError: they ask for nothing, or for what is not there.
    """
    named, given = _words(words, where)
    place = read_place(named)
    if not place.function:
        raise CaseError(f"{named} names no function", place=where, remedy=f"write {named}:FUNCTION")
    return source_of(place, _check(place.function, given))


@click.command("check", add_help_option=False)
@click.argument("function")
@_call_options
def _declaration(**given: object) -> None:
    """What a comment in a file may say."""


def _words(words: list[str], where: str) -> tuple[str, _Given]:
    try:
        read = _declaration.make_context("check", list(words)).params
    except click.ClickException as error:
        raise CaseError(
            f"the comment is no check: {error.format_message()}",
            place=where,
            remedy="write it as `# portkit: check FUNCTION --arg NAME=VALUE …`",
        ) from None
    return read["function"], (read["arguments"], read["init"], read["grid"], read["backward"])


def _script(places: Sequence[str], given: _Given) -> CaseSource:
    if not places:
        raise click.UsageError("--script needs the path of a script")
    if any(given):
        raise click.UsageError("a script is run as it is: give its own arguments after --")
    place = read_place(places[0])
    if place.path is None or place.function:
        raise CaseError("is no script", place=places[0], remedy="name a Python file")
    return CaseSource(place.path.name, path=str(place.path), check=Check("", script=(str(place.path), *places[1:])))


def _emulated(source: CaseSource, emulate: bool, small: Sequence[str], reference: str | None) -> CaseSource:
    """The check with what its emulated call is, looked at before anything runs."""
    if not emulate:
        if small or reference:
            raise click.UsageError("--small and --reference are for --emulate")
        return source
    check = source.check
    assert check is not None
    if check.script:
        raise click.UsageError("a script is built and not emulated: name a function")
    if check.backward and not reference:
        raise click.UsageError("gradients need a --reference: Triton's interpreter gives none to compare with")
    check = replace(check, small=read_pairs(small, "--small"), reference=_reference(reference) if reference else None)
    refuse_large(check)
    return replace(source, check=check)


def _reference(text: str) -> CaseSource:
    place = read_place(text)
    if not place.function:
        raise CaseError(f"{text} names no function", place="--reference", remedy=f"write {text}:FUNCTION")
    return source_of(place, Check(place.function))


# --------------------------------------------------------------------------
# Changed files


def _changed(places: Sequence[Place], given: _Given) -> Iterator[CaseSource]:
    """Declared checks of which a file has changed: their own, or one of their folder that it imports."""
    if any(given):
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


# --------------------------------------------------------------------------
# Where and how


def _targets(text: str) -> list[Target]:
    catalog = load_catalog()
    if text == ALL:
        return list(catalog)
    chosen = [catalog.get(name) for name in names(text) or TARGETS]
    return list({target.name: target for target in chosen}.values())


def _run(
    sources: Sequence[CaseSource], targets: Sequence[Target], folder: Path, *, emulate: bool, fresh: bool
) -> Checked:
    def tell(text: str) -> None:
        click.echo(f"portkit check: {text}", err=True)

    console = Console(stderr=True)
    watch: LiveLine | PlainLines = LiveLine(console) if console.is_terminal else PlainLines(tell, seconds=SAID_SECONDS)
    try:
        return run_checks(sources, targets, folder=folder, emulate=emulate, fresh=fresh, watch=watch, tell=tell)
    finally:
        watch.close()
        sys.stderr.flush()
