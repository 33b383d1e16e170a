"""The checks of ``portkit selftest`` on a GPU: what they say, and what to send when one is off."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from portkit.run.selftest.judge import Checked, State
from portkit.run.selftest.trial import Trial, run_trial

_COLOURS = {State.OK: "green", State.OFF: "red", State.UNKNOWN: "yellow"}


def check_gpu(folder: Path | None = None) -> bool:
    """Run the checks on this host's first GPU and print them; whether none is off.

    Args:
        folder: where the report goes, and stays; a folder for temporary files unless given.

    Raises:
        HostError: the run left no report, or there is no GPU.
    """
    trial = run_trial(folder)
    show(trial)
    return not _off(trial.checks)


def show(trial: Trial) -> None:
    """Print the checks, and what to send where one is off."""
    host = trial.report.header.host
    click.echo(f"{trial.device.name}: torch {host.torch}, Triton {host.triton}, {host.toolkit}, driver {host.driver}")
    width = max(len(each.name) for each in trial.checks)
    for each in trial.checks:
        click.echo(f"{click.style(f'{each.state:<8}', fg=_COLOURS[each.state])}{each.name:<{width}}  {each.text}")
    off = _off(trial.checks)
    if not off:
        click.echo("nothing is off; what is unknown has its reason, and `portkit doctor` the remedies")
        return
    click.echo(f"\n{len(off)} of {len(trial.checks)} are off. Please open an issue of portkit with these lines and:")
    click.echo(f"  {trial.report.path}  (the report: no names, no paths, serial numbers hashed)")
    click.echo("  the output of `portkit doctor --json`")


def _off(checks: Sequence[Checked]) -> list[Checked]:
    return [each for each in checks if each.state is State.OFF]
