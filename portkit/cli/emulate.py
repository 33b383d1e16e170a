"""``portkit emulate``: the instruction emulator by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from tabulate import tabulate

from portkit.errors import HostError, VectorsError

try:
    from portkit.emulate.core.vectors import Comparison, Origin, read
    from portkit.emulate.vectors import comparisons
except ImportError as missing:  # NumPy is an extra
    raise HostError(f"the emulator needs NumPy: {missing}", remedy="pip install 'portkit[run]'") from None


@click.command("emulate")
@click.option(
    "--check-vectors",
    "vectors",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Hold the emulator against instruction results that portkit selftest --isa-vectors recorded on a GPU.",
)
@click.option("--accept-emulated", is_flag=True, help="Compare though the emulator itself recorded the file.")
@click.option("--architecture", metavar="ARCHITECTURE", help="Refuse a file of another architecture.")
@click.pass_context
def command(context: click.Context, vectors: Path | None, accept_emulated: bool, architecture: str | None) -> None:
    """Hold the instruction emulator against recorded results.

    Ends with exit code 1 where a result lies further away than docs/emulation-instructions.md allows.
    """
    if vectors is None:
        raise VectorsError(
            "no file to hold the emulator against",
            place="--check-vectors",
            remedy="name one; on a host with a GPU, portkit selftest --isa-vectors FILE records it",
        )
    recording = read(vectors)
    _check_origin(vectors, recording.origin, accept_emulated, architecture)
    compared = list(comparisons(recording, str(vectors)))
    click.echo(_as_text(recording.origin, compared, recording.refused))
    context.exit(1 if any(each.outside for each in compared) else 0)


def _check_origin(path: Path, origin: Origin, accept_emulated: bool, architecture: str | None) -> None:
    """Refuse a file that is not what the caller means."""
    if architecture and architecture != origin.architecture:
        message = f"recorded on {origin.architecture}, not on {architecture}"
        raise VectorsError(message, place=str(path), remedy="name the file of that architecture")
    if origin.emulated and not accept_emulated:
        message = "recorded by the emulator, not by a GPU: to compare the emulator with itself shows nothing"
        remedy = "record on a host with a GPU; --accept-emulated tests the way from kernel to file alone"
        raise VectorsError(message, place=str(path), remedy=remedy)


def _as_text(origin: Origin, compared: Sequence[Comparison], refused: Mapping[str, str]) -> str:
    made_by = f"{origin.device}, driver {origin.driver or 'unknown'}, Triton {origin.triton or 'unknown'}"
    lines = [f"{origin.architecture}: {made_by}"]
    if origin.emulated:
        lines.append("EMULATED: recorded by the emulator itself; no evidence of any hardware.")
    headers = ["instruction", "values", "equal bits", "other NaN", "max ulp", "verdict", "first difference"]
    lines += ["", tabulate([_row(each) for each in compared], headers=headers, disable_numparse=True), ""]
    lines += [f"not recorded: {why}" for why in refused.values()]
    wrong = sum(1 for each in compared if each.outside)
    lines.append(f"{len(compared)} instructions compared, {wrong} outside what is declared")
    return "\n".join(lines)


def _row(each: Comparison) -> tuple[str, ...]:
    verdict = "DIFFERS" if each.outside else "equal" if each.equal + each.nans == each.values else "within"
    return (
        each.name,
        str(each.values),
        f"{100 * each.equal / max(each.values, 1):.2f} %",
        str(each.nans),
        f"{each.largest:.0f}",
        verdict,
        _first(each),
    )


def _first(each: Comparison) -> str:
    if each.first is None:
        return ""
    operands = " ".join(f"{word:#x}" for word in each.first.operands)
    return f"({operands}) recorded {each.first.recorded:#x}, emulated {each.first.computed:#x}"
