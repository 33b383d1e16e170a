"""``portkit selftest``: does this host's GPU do what portkit says of it?

Without an option it makes the checks of :mod:`portkit.cli.selftest_checks`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from portkit.cli.outputs import check_output, make_folder
from portkit.emulate.core.vectors import Recording, write
from portkit.errors import HostError

if TYPE_CHECKING:
    from portkit.run.instruction_vectors import ProbeDevice


@click.command("selftest")
@click.option(
    "--isa-vectors",
    "vectors",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Record the results of single instructions of this host's GPU, for portkit emulate --check-vectors.",
)
@click.option(
    "--emulated",
    "architecture",
    metavar="ARCHITECTURE",
    help="With --isa-vectors: let the emulator stand for a GPU; the file says so, and is no evidence of hardware.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="With --isa-vectors: of the operands that are no edges in all combinations.",
)
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Folder for the report of the checks, which stays there."
)
@click.pass_context
def command(
    context: click.Context, vectors: Path | None, architecture: str | None, seed: int, folder: Path | None
) -> None:
    """Check that timing, counters, verdict and matching are right on this host's GPU; about two minutes.

    Exit code 0 where nothing is off, 1 where something is. With --isa-vectors it records instead.
    """
    if vectors is not None:
        if folder is not None:
            raise click.UsageError("--folder is for the report of the checks, which --isa-vectors does not make")
        click.echo(_recorded(vectors, architecture, seed))
        return
    for option, given in (("--emulated", architecture is not None), ("--seed", seed != 0)):
        if given:
            raise click.UsageError(f"{option} goes with --isa-vectors")
    from portkit.cli.selftest_checks import check_gpu  # noqa: PLC0415 - most of portkit

    context.exit(0 if check_gpu(folder) else 1)


def _recorded(path: Path, architecture: str | None, seed: int) -> str:
    """Record instruction vectors; what came of it, in words."""
    check_output(path, ())  # before the GPU is at work
    make_folder(path)
    device = _device(architecture)
    recording = _record(device, seed)
    write(path, recording)
    return _summary(path, recording)


def _device(architecture: str | None) -> ProbeDevice:
    try:
        from portkit.run.instruction_vectors import Emulated, Hardware  # noqa: PLC0415 - torch and Triton
    except ImportError as error:
        raise HostError(
            f"recording needs torch, Triton and NumPy: {error}", remedy="pip install 'portkit[run]'"
        ) from None
    return Emulated(architecture) if architecture else Hardware()


def _record(device: ProbeDevice, seed: int) -> Recording:
    from portkit.run.instruction_vectors import record  # noqa: PLC0415 - torch and Triton

    def progress(number: int, total: int, name: str) -> None:
        if number % 25 == 0:
            click.echo(f"{number}/{total} {name}", err=True)

    return record(device, progress=progress, seed=seed)


def _summary(path: Path, recording: Recording) -> str:
    origin = recording.origin
    lines = [f"{len(recording.results)} instructions of {origin.architecture} on {origin.device}: {path}"]
    lines += [f"  not recorded: {why}" for why in recording.refused.values()]
    if origin.emulated:
        lines.append("This file was made by the emulator: it is no evidence of any hardware.")
    else:
        lines.append(f"Compare on any host: portkit emulate --check-vectors {path.name}")
    return "\n".join(lines)
