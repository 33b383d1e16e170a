"""``portkit check``: any kernel on any target, without a matrix."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from portkit.analysis.rows import Comparison, comparison
from portkit.cli.check_words import PAIR, Call, Emulation, call_options, sources_of
from portkit.cli.names import names
from portkit.cli.options import findings_option
from portkit.cli.outputs import terminal_width
from portkit.errors import CaseError
from portkit.model import CaseSource, Status, Target
from portkit.plan.check import TARGETS
from portkit.render.check import check_json, check_plain
from portkit.run.benchmark import emulatable
from portkit.run.checking import Checked, run_checks
from portkit.run.kept_checks import own_folder
from portkit.run.progress import LiveLine, PlainLines
from portkit.store.merge import merge
from portkit.targets.catalog import load_catalog

ALL = "all"

SAID_SECONDS = 2.0
"""Between two lines on how it gets on, where there is no terminal."""


@click.command("check", short_help="Build any kernel for any target: what it needs there, and what differs.")
@click.argument("places", nargs=-1, metavar="[FILE|MODULE][:FUNCTION]...")
@call_options
@click.option("--emulate", is_flag=True, help="Run the machine code on the CPU, too, and compare its results.")
@click.option("--small", multiple=True, metavar=PAIR, help="An argument of the emulated call that is smaller.")
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
@findings_option("shown", 5, "Most findings that are told, or all.")
@click.option("--report", type=click.Path(path_type=Path), help="Folder of the report.  [default: the user's cache]")
@click.option("--fresh", is_flag=True, help="Build again though nothing has changed.")
def command(places: tuple[str, ...], targets: str, as_json: bool, shown: int | None, **asked: Any) -> int:
    """Build any kernel for any target: what it needs there, and what differs.

    No GPU is needed, and no case file. FILE:FUNCTION or MODULE:FUNCTION is called with the
    arguments given, on tensors without memory, in a process that looks like a host of the target;
    every Triton kernel it launches is built. A FILE alone is searched for comments that say how
    its functions are called; without one, what it needs is told.

    Ends with 1 where a target does not build it, and with 2 where it can't be called.
    """
    chosen = _targets(targets)
    sources = _sources(places, asked)
    if not sources:
        click.echo("no changed file declares a check", err=True)
        return 0
    if asked["emulate"]:
        _say_emulated(chosen)
    checked = _run(sources, chosen, asked["report"] or own_folder(), emulate=asked["emulate"], fresh=asked["fresh"])
    if why := checked.unusable:
        raise CaseError(why)
    compared = comparison(merge([checked.report]))
    click.echo(check_json(compared, checked.report) if as_json else _as_text(compared, checked, shown))
    return 0 if all(_fine(record.outcome.status) for record in checked.records) else 1


def _sources(places: Sequence[str], asked: Mapping[str, Any]) -> list[CaseSource]:
    call = Call(asked["arguments"], asked["init"], asked["grid"], asked["backward"])
    emulation = Emulation(asked["emulate"], asked["small"], asked["reference"])
    return sources_of(places, call, emulation, script=asked["script"], changed=asked["changed"])


def _say_emulated(targets: Sequence[Target]) -> None:
    """Say of which targets no machine code runs; of none of them is a slip."""
    emulated = emulatable(targets)
    left_out = [target.name for target in targets if target.name not in emulated]
    if len(left_out) == len(targets):
        raise click.UsageError(f"--emulate: no machine code of {', '.join(left_out)} can be run; name others with -t")
    if left_out:
        click.echo(f"portkit check: built and not emulated: {', '.join(left_out)}", err=True)


def _fine(status: Status) -> bool:
    return status.good or status.skipped


def _as_text(compared: Comparison, checked: Checked, shown: int | None) -> str:
    end = f"report: {checked.report}"
    if checked.kept:
        end += "\n  of an earlier call: nothing that it depends on has changed (--fresh builds again)"
    return f"{check_plain(compared, shown, terminal_width())}\n\n{end}"


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
