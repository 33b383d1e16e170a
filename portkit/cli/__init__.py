"""The ``portkit`` command: one file a subcommand, loaded when it is called.

``portkit --help`` must be quick, so nothing heavy is imported here.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from portkit import __version__
from portkit.errors import PortkitError

COMMANDS = {
    "check": "Build any kernel for any target: what it needs there, and what differs.",
    "ci": "Workflows that run the matrix every night, from the fleet file.",
    "diff": "Source, IR, assembly and resources of a kernel on two targets.",
    "doctor": "What this host can do, and each gap with its remedy.",
    "emulate": "Hold the instruction emulator against results that a GPU recorded.",
    "explain": "What a finding means: why, what it costs, what to change.",
    "findings": "What differs between targets, why, what it costs and what to change.",
    "fleet": "The matrix on many hosts, merged.",
    "gate": "Fail where a kernel became slower or worse than in a baseline.",
    "history": "Nights kept as Parquet, in a folder or an object store.",
    "init": "A matrix and one case to start from.",
    "merge": "Merge reports of any number of hosts into one table.",
    "new": "A kernel case that works, with its test, to write one's own into.",
    "occupancy": "Theoretical occupancy of a configuration on a target.",
    "report": "Which kernels do not carry over and why, at a glance.",
    "savings": "What fusion saves of a forward pass: time, GPU-hours, money.",
    "schema": "The JSON schema of a matrix, for editors.",
    "selftest": "Test this host's GPU against what portkit says of it.",
    "show": "Everything about one cell.",
    "sweep": "Fusion over the depth of a chain, and bytes against launches over size.",
    "targets": "The catalogue of GPUs.",
    "toggle": "Eager against torch.compile, on your own model.",
    "trend": "A kernel over the nights, with what changed between them.",
}
"""Name of each subcommand (module ``portkit.cli.<name>``) → its line in the help."""


class LazyGroup(click.Group):
    """Loads a subcommand's module only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all subcommands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand; None for an unknown one, which click reports."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"portkit.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="portkit")
def cli() -> None:
    """What changes when the same fused Triton kernel runs on another GPU.

    The matrix runs with ``pytest --benchmark``; these commands work on its
    reports, on targets and on this host.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a named mistake ends with its message and exit code 2."""
    _write_what_the_encoding_has()
    try:
        _need_output()
        result = cli.main(args=list(sys.argv[1:] if arguments is None else arguments), standalone_mode=False)
        sys.stdout.flush()
    except PortkitError as error:
        click.echo(f"error: {error.render()}", err=True)
        return 2
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        click.echo("interrupted", err=True)
        return 130
    except OSError as error:  # those of a command's own files are PortkitErrors: this is our output
        _drop_output()
        click.echo(f"error: the output can't be written: {error.strerror}", err=True)
        return 2
    return result if isinstance(result, int) else 0


def _write_what_the_encoding_has() -> None:
    """Characters that a terminal's or a file's encoding lacks become ``?`` rather than an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _need_output() -> None:
    if sys.stdout is None:
        raise PortkitError("standard output is closed", remedy="send it to a file or to /dev/null")


def _drop_output() -> None:
    """Let the interpreter's own last flush go nowhere: it would end in a message and another exit code."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
